"""A folder of images becomes encoded bytes with the label that its folders give."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrt_lightning.errors import ConfigError
from dsrt_lightning.store.image_folder import ImageFolderSource


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pets"
    for name, content in {"dog/b.PNG": b"2", "cat/a.jpg": b"1", "top.webp": b"3", "cat/notes.txt": b"-"}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def test_images_come_sorted_with_label_and_path_and_other_files_are_left_out(folder: Path) -> None:
    source = ImageFolderSource(folder)
    assert source.name == "pets"
    assert [(row.data, row.metadata) for row in source] == [
        (b"1", {"label": "cat", "path": "cat/a.jpg"}),
        (b"2", {"label": "dog", "path": "dog/b.PNG"}),
        (b"3", {"label": None, "path": "top.webp"}),
    ]


def test_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no image file in this folder \(\.bmp \.gif"):
        ImageFolderSource(tmp_path)


def test_fingerprint_follows_names_and_contents(folder: Path) -> None:
    before = ImageFolderSource(folder).fingerprint
    assert ImageFolderSource(folder.rename(folder.with_name("moved"))).fingerprint == before
    moved = folder.with_name("moved")
    (moved / "cat/a.jpg").rename(moved / "cat/c.jpg")
    renamed = ImageFolderSource(moved).fingerprint
    assert renamed != before
    (moved / "cat/c.jpg").write_bytes(b"9")
    assert ImageFolderSource(moved).fingerprint not in (before, renamed)
