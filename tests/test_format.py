"""Format version 1: `docs/format.md` says what is written, and what was written before is read.

`python tests/test_format.py` writes the example into the documentation and the golden cache, for a new format version.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.manifest import Manifest, read_manifest
from dsrt_lightning.store.verify import verify_cache

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs/format.md"
GOLDEN = ROOT / "tests/golden/format_v1/example"
MARKER = "<!-- example:"
SHOWN = ("shards/000000.bin", "shards/000001.bin", "index.bin")


def hex_dump(content: bytes) -> str:
    """Return 16 bytes a line: offset, hex, printable characters."""
    lines = []
    for start in range(0, len(content), 16):
        row = content[start : start + 16]
        halves = "  ".join(row[i : i + 8].hex(" ") for i in (0, 8))
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:04x}  {halves:<48}  {text}".rstrip())
    return "\n".join(lines)


def rendered(cache: Path) -> str:
    """Return the example's files as the documentation shows them."""
    parts = [f"`{name}`\n\n```\n{hex_dump((cache / name).read_bytes())}\n```\n" for name in SHOWN]
    return "\n".join([*parts, f"`manifest.json`\n\n```json\n{(cache / 'manifest.json').read_text()}```\n"])


def build_example(directory: Path) -> Path:
    """Run the document's program in a directory; return the cache it builds."""
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    before = Path.cwd()
    os.chdir(directory)
    try:
        exec(compile(program, os.fspath(DOCUMENT), "exec"), {"__name__": "example"})
    finally:
        os.chdir(before)
    return directory / "example"


def without_metadata_bytes(manifest: Manifest) -> Manifest:
    """Return the manifest without what PyArrow decides, whose versions may write other bytes."""
    return replace(manifest, files=tuple(entry for entry in manifest.files if entry.path != "metadata.arrow"))


def test_document_shows_the_bytes_of_the_golden_cache() -> None:
    _, _, example = DOCUMENT.read_text().partition(MARKER)
    assert example.partition("\n\n")[2] == rendered(GOLDEN)


def test_documented_program_still_writes_the_golden_bytes(tmp_path: Path) -> None:
    built = build_example(tmp_path)
    for name in SHOWN:
        assert (built / name).read_bytes() == (GOLDEN / name).read_bytes(), name
    assert without_metadata_bytes(read_manifest(built)) == without_metadata_bytes(read_manifest(GOLDEN))


def test_golden_cache_reads_as_it_was_written() -> None:
    assert list(verify_cache(GOLDEN)) == []
    caches = open_caches(GOLDEN)
    samples = [caches.codec.decode(caches.shards.read(row)) for row in range(caches.num_records)]
    assert [sample["tokens"].tolist() for sample in samples] == [[1, 2, 3], [4], []]
    assert [sample["label"] for sample in samples] == [7, 8, 9]
    assert samples[0]["tokens"].dtype == np.int16
    assert pl.read_ipc(GOLDEN / "metadata.arrow").to_dict(as_series=False) == {"label": [7, 8, 9]}


@pytest.mark.parametrize(
    "kept", ["identity", "cache_id", "name", "fingerprint", "codec", "num_records", "compression", "files", "version"]
)
def test_document_names_every_key_of_the_manifest(kept: str) -> None:
    assert f"| `{kept}` |" in DOCUMENT.read_text()
    assert f'"{kept}":' in (GOLDEN / "manifest.json").read_text()


if __name__ == "__main__":
    shutil.rmtree(GOLDEN.parent, ignore_errors=True)
    GOLDEN.parent.mkdir(parents=True)
    build_example(GOLDEN.parent)
    head, marker, tail = DOCUMENT.read_text().partition(MARKER)
    DOCUMENT.write_text(f"{head}{marker}{tail.splitlines()[0]}\n\n{rendered(GOLDEN)}")
