"""What is stored wrong is reported with file, record and numbers, by reading it and by `verify_cache`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cache_builders import build
from damage import edit_manifest, extend, flip_byte, swap, truncate

from dsrt_lightning.errors import CorruptCacheError, DsrtError
from dsrt_lightning.store.cache import open_cache
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.manifest import Compression
from dsrt_lightning.store.verify import verify_cache

CODECS = ("bytes", "arrays", "pickle")
COMPRESSIONS = ("none", "zstd", Compression(dictionary_bytes=512))


def tiny(root: Path, codec: str = "arrays", compression: str | Compression = "none", count: int = 6) -> Path:
    """Build a cache of two shards."""
    count = 40 if isinstance(compression, Compression) else count
    records = [({"x": np.arange(i, i + 4), "i": i}, {"i": i, "s": f"row {i}"}) for i in range(count)]
    if codec == "bytes":
        records = [(sample["x"].tobytes(), metadata) for sample, metadata in records]
    # Uncompressed arrays have 40 bytes and 8 of padding: four records in the first shard.
    return build(root, "tiny", records, codec=codec, compression=compression, shard_bytes=32 * count)


def read_everything(path: Path) -> list[str]:
    """Open, read and decode all records, and check the metadata; return the records as text."""
    caches = open_caches(path, allow_pickle=True)
    caches.caches[0].check_file("metadata.arrow")
    return [repr(caches.codec.decode(caches.shards.read(row))) for row in range(caches.num_records)]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tiny(tmp_path)


def problems(path: Path) -> list[str]:
    return list(verify_cache(path))


# --- every kind of damage, one by one


@pytest.mark.parametrize(
    ("damage", "messages"),
    [
        (
            lambda path: flip_byte(path / "shards/000001.bin", 17),
            [
                r"shards/000001\.bin: CRC32C is [0-9a-f]{8} but the manifest says [0-9a-f]{8}; restore or rebuild",
                r"shards/000001\.bin: record 4.*(CRC32C|checksum).*",
            ],
        ),
        (
            lambda path: truncate(path / "shards/000000.bin", by=3),
            [r"shards/000000\.bin: has 181 bytes but the manifest says 184; restore", r"shards/000000\.bin.*181.*184"],
        ),
        (
            lambda path: extend(path / "shards/000000.bin", by=3),
            [r"shards/000000\.bin: has 187 bytes but the manifest says 184; restore", r"shards/000000\.bin.*187.*184"],
        ),
        (
            lambda path: (path / "shards/000001.bin").unlink(),
            [r"shards/000001\.bin: the file is missing; restore", r"shards/000001\.bin"],
        ),
        (
            lambda path: flip_byte(path / "index.bin", 70),
            [r"index\.bin: CRC32C is [0-9a-f]{8} but the manifest says [0-9a-f]{8}"],
        ),
        (lambda path: truncate(path / "index.bin", by=24), [r"index\.bin: has 184 bytes but the manifest says 208"]),
        (
            lambda path: flip_byte(path / "metadata.arrow", -30),
            [r"metadata\.arrow: CRC32C is [0-9a-f]{8} but the manifest says [0-9a-f]{8}"],
        ),
        (
            lambda path: truncate(path / "metadata.arrow", by=1),
            [r"metadata\.arrow: has \d+ bytes but the manifest says \d+"],
        ),
        (lambda path: flip_byte(path / "manifest.json", 3), [r"manifest\.json: not valid JSON"]),
        (lambda path: (path / "manifest.json").unlink(), [r"there is no complete cache \(no manifest\.json\)"]),
    ],
)
def test_verify_names_each_thing_that_is_broken(
    cache: Path, damage: Callable[[Path], None], messages: list[str]
) -> None:
    assert problems(cache) == []
    damage(cache)
    found = problems(cache)
    assert len(found) == len(messages), found
    for problem, message in zip(found, messages, strict=True):
        assert problem.startswith(str(cache))
        assert re.search(message, problem), problem


def test_flipped_padding_is_found_by_verify_though_every_record_is_intact(cache: Path) -> None:
    intact = read_everything(cache)
    flip_byte(cache / "shards/000000.bin", 44)
    (problem,) = problems(cache)
    assert re.search(r"shards/000000\.bin: CRC32C is [0-9a-f]{8} but the manifest says", problem)
    assert read_everything(cache) == intact


def test_swapped_shards_are_reported(cache: Path) -> None:
    swap(cache / "shards/000000.bin", cache / "shards/000001.bin")
    assert len(problems(cache)) >= 2
    with pytest.raises(CorruptCacheError, match=r"shards/00000[01]\.bin"):
        read_everything(cache)


def test_files_of_an_older_build_are_reported(tmp_path: Path) -> None:
    old, new = tiny(tmp_path / "old", count=5), tiny(tmp_path / "new", count=6)
    (new / "index.bin").write_bytes((old / "index.bin").read_bytes())
    with pytest.raises(CorruptCacheError, match=r"index\.bin"):
        read_everything(new)


def test_flipped_dictionary_is_refused_before_it_is_used(tmp_path: Path) -> None:
    path = tiny(tmp_path, compression=Compression(dictionary_bytes=512))
    flip_byte(path / "dictionary.zst", 40)
    with pytest.raises(CorruptCacheError, match=rf"^{path}/dictionary\.zst: CRC32C is [0-9a-f]{{8}} but the manifest"):
        _ = open_caches(path).shards
    assert any("dictionary.zst" in problem for problem in problems(path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: flip_byte(file, 20), r"CRC32C is [0-9a-f]{8} but the manifest says [0-9a-f]{8}; restore"),
        (lambda file: truncate(file, by=4), r"has \d+ bytes but the manifest says \d+; restore"),
        (lambda file: file.unlink(), "the file is missing; restore"),
    ],
)
def test_metadata_are_checked_on_demand(cache: Path, damage: Callable[[Path], None], message: str) -> None:
    open_cache(cache).check_file("metadata.arrow")
    damage(cache / "metadata.arrow")
    with pytest.raises(CorruptCacheError, match=rf"^{cache}/metadata\.arrow: {message}"):
        open_cache(cache).check_file("metadata.arrow")


def test_signed_manifest_that_lies_about_the_metadata_is_reported_by_verify(cache: Path) -> None:
    edit_manifest(cache, "metadata_columns", 0, "dtype", to="string")
    assert problems(cache) == [
        f"{cache}/metadata.arrow: the columns are i int64, s string but the manifest says i string, s string; "
        "restore or rebuild the cache"
    ]


# --- never wrong bytes


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
@pytest.mark.parametrize("codec", CODECS)
def test_any_flipped_byte_is_an_error_or_changes_nothing(
    tmp_path: Path, codec: str, compression: str | Compression
) -> None:
    path = tiny(tmp_path, codec, compression)
    expected = read_everything(path)
    rng = np.random.default_rng(0)
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        content = file.read_bytes()
        for offset in {0, len(content) - 1, *rng.integers(0, len(content), 4).tolist()}:
            flip_byte(file, offset)
            try:
                found = read_everything(path)
            except (DsrtError, OSError) as error:
                found = [str(error)]
            assert found == expected or str(path) in found[0]
            assert problems(path) or file.name == "manifest.json"
            file.write_bytes(content)


@pytest.mark.parametrize("codec", CODECS)
def test_any_truncated_file_is_an_error(tmp_path: Path, codec: str) -> None:
    path = tiny(tmp_path, codec, "zstd")
    rng = np.random.default_rng(1)
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        content = file.read_bytes()
        for size in {0, len(content) - 1, *rng.integers(0, len(content), 4).tolist()}:
            truncate(file, by=len(content) - size)
            if file.name == "manifest.json" and content[size:] == b"\n":
                assert len(read_everything(path)) == 6
            else:
                with pytest.raises((DsrtError, OSError), match=str(path)):
                    read_everything(path)
                assert problems(path)
            file.write_bytes(content)
