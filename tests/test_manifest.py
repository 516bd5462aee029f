"""manifest.json: what it says comes back, and everything else is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from damage import edit_manifest, flip_byte, truncate

from dsrt_lightning.errors import CacheNotFoundError, CorruptCacheError, FormatVersionError
from dsrt_lightning.store.manifest import (
    Compression,
    FileEntry,
    Manifest,
    MetadataColumn,
    StoredCodec,
    read_manifest,
    shard_path,
)

MANIFEST = Manifest(
    name="digits",
    fingerprint="v1",
    codec=StoredCodec("bytes", {}),
    num_records=3,
    record_alignment=1,
    max_record_bytes=40,
    compression=Compression(level=3, dictionary_bytes=1024),
    metadata_columns=(MetadataColumn("label", "int64"),),
    files=(
        FileEntry("index.bin", 64 + 3 * 24, 1),
        FileEntry("metadata.arrow", 500, 2),
        FileEntry("dictionary.zst", 600, 3),
        FileEntry("shards/000000.bin", 100, 4),
        FileEntry("shards/000001.bin", 0, 2**32 - 1),
    ),
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    directory = tmp_path / "digits"
    directory.mkdir()
    (directory / "manifest.json").write_bytes(MANIFEST.to_bytes())
    return directory


def test_manifest_comes_back_equal_with_its_identity(cache: Path) -> None:
    manifest = read_manifest(cache)
    assert manifest == MANIFEST
    assert manifest.identity == MANIFEST.identity
    assert [entry.path for entry in manifest.shards] == [shard_path(0), shard_path(1)]
    assert manifest.file("dictionary.zst").bytes == 600


def test_identity_and_cache_id_are_what_they_were() -> None:
    """*Part of the format*: checkpoints and other caches' readers rely on it."""
    assert MANIFEST.identity == "c84ca54e757ad2dd2cc38c8522112eb3fd29623754600ba00e4e053961ec6e05"
    assert MANIFEST.cache_id == int(MANIFEST.identity[:16], 16) // 2 < 2**63


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"fingerprint": None},
        {"codec": StoredCodec("bytes", {"x": 1})},
        {"max_record_bytes": 41},
        {"metadata_columns": ()},
        {"files": (*MANIFEST.files[:4], FileEntry("shards/000001.bin", 0, 0))},
    ],
)
def test_any_other_content_has_another_identity(change: dict[str, Any]) -> None:
    assert replace(MANIFEST, **change).identity != MANIFEST.identity


# --- nothing there


def test_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(CacheNotFoundError, match=f"^{tmp_path}/nowhere: there is no such directory"):
        read_manifest(tmp_path / "nowhere")


def test_directory_without_manifest_is_no_cache(tmp_path: Path) -> None:
    with pytest.raises(CacheNotFoundError, match=f"^{tmp_path}: there is no complete cache \\(no manifest.json\\)"):
        read_manifest(tmp_path)


def test_unfinished_build_is_no_cache_even_when_its_manifest_is_written(cache: Path) -> None:
    building = cache.rename(cache.parent / ".digits.building")
    with pytest.raises(CacheNotFoundError, match="there is no complete cache"):
        read_manifest(building)


# --- not what was written


def test_newer_format_is_refused_with_both_versions(cache: Path) -> None:
    edit_manifest(cache, "version", to=2)
    with pytest.raises(FormatVersionError, match=r"manifest\.json: format version 2 but this package reads 1; upgrade"):
        read_manifest(cache)


@pytest.mark.parametrize("size", [0, 1, 50, 200])
def test_truncated_manifest_is_refused(cache: Path, size: int) -> None:
    truncate(cache / "manifest.json", by=(cache / "manifest.json").stat().st_size - size)
    with pytest.raises(CorruptCacheError, match=rf"^{cache}/manifest\.json: not valid JSON"):
        read_manifest(cache)


def test_every_flipped_byte_is_refused(cache: Path) -> None:
    content = (cache / "manifest.json").read_bytes()
    for offset in range(len(content)):
        flip_byte(cache / "manifest.json", offset)
        with pytest.raises(CorruptCacheError, match=r"manifest\.json"):
            read_manifest(cache)
        (cache / "manifest.json").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", r"the file is \[\] but must be an object"),
        (b'{"format": 1, "format": 2}', r"a key is there twice among \['format', 'format'\]"),
        (b'{"format": NaN}', "NaN is no finite number"),
        (b'{"codec": {"schema": {"x": 1e400}}}', "1e400 is no finite number"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b'{"format": "parquet"}', "format is 'parquet' but must be 'dsrt.cache'"),
    ],
)
def test_what_is_no_manifest_is_refused(cache: Path, content: bytes, message: str) -> None:
    (cache / "manifest.json").write_bytes(content)
    with pytest.raises(CorruptCacheError, match=rf"manifest\.json: .*{message}"):
        read_manifest(cache)


@pytest.mark.parametrize("key", list(json.loads(MANIFEST.to_bytes())))
def test_missing_key_is_named(cache: Path, key: str) -> None:
    content = json.loads((cache / "manifest.json").read_bytes())
    del content[key]
    (cache / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(CorruptCacheError, match=f": {key} is missing; restore or rebuild"):
        read_manifest(cache)


@pytest.mark.parametrize(
    ("keys", "path"),
    [((), "the file"), (("codec",), "codec"), (("compression",), "compression"), (("files", 0), r"files\[0\]")],
)
def test_unknown_key_is_named(cache: Path, keys: tuple[str | int, ...], path: str) -> None:
    edit_manifest(cache, *keys, "extra", to=1)
    with pytest.raises(CorruptCacheError, match=rf": {path} has the unknown keys \['extra'\]"):
        read_manifest(cache)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("version",), 0, rf"version is 0 but must be an integer in \[1, {2**63 - 1}\]"),
        (("version",), True, "version is True but must be an integer"),
        (("name",), "../evil", r"name is '\.\./evil' but must be a plain directory name"),
        (("fingerprint",), 7, "fingerprint is 7 but must be a string"),
        (("codec",), "bytes", "codec is 'bytes' but must be an object"),
        (("codec", "schema"), [], r"codec\.schema is \[\] but must be an object"),
        (("num_records",), 0, r"num_records is 0 but must be an integer in \[1,"),
        (("num_records",), 4, r"num_records is 4 but must be the number that index\.bin has room for \(136 bytes\)"),
        (("num_records",), 3.0, r"num_records is 3\.0 but must be an integer"),
        (("num_records",), 10**4000, "num_records is 1000.* but must be an integer in"),
        (("record_alignment",), 3, "record_alignment is 3 but must be a power of two"),
        (("record_alignment",), 8192, r"record_alignment is 8192 but must be an integer in \[1, 4096\]"),
        (("max_record_bytes",), -1, "max_record_bytes is -1 but must be an integer in"),
        (("compression", "name"), "lz4", "the name is 'lz4' but must be 'none' or 'zstd'"),
        (("compression", "level"), 23, r"compression\.level is 23 but must be an integer in \[-131072, 22\]"),
        (("compression", "dictionary_bytes"), 1, r"dictionary_bytes is 1 but must be 0 or in \[256, 16777216\]"),
        (("compression", "dictionary_bytes"), 0, r"files\[2\]\.path is 'dictionary\.zst' but must be 'shards/"),
        (("metadata_columns", 0, "name"), "weight", r"metadata_columns\[0\]\.name is 'weight' but must be none of"),
        (("metadata_columns",), [{"name": "a", "dtype": "bool"}] * 2, "must be a list of distinct names"),
        (("files",), [], r"files is \[\] but must be a list of index\.bin, metadata\.arrow, dictionary\.zst"),
        (("files", 0, "path"), "../index.bin", r"files\[0\]\.path is '\.\./index\.bin' but must be 'index\.bin'"),
        (("files", 4, "path"), "shards/000000.bin", "is 'shards/000000.bin' but must be 'shards/000001.bin'"),
        (("files", 3, "path"), "/etc/passwd", r"files\[3\]\.path is '/etc/passwd' but must be 'shards/000000\.bin'"),
        (("files", 3, "bytes"), -1, r"files\[3\]\.bytes is -1 but must be an integer in \[0,"),
        (("files", 3, "bytes"), 2**63, rf"files\[3\]\.bytes is {2**63} but must be an integer in"),
        (("files", 3, "crc32c"), 2**32, rf"files\[3\]\.crc32c is {2**32} but must be an integer in \[0, {2**32 - 1}\]"),
    ],
)
def test_value_that_the_format_does_not_allow_is_refused_with_what_it_allows(
    cache: Path, keys: tuple[str | int, ...], value: Any, message: str
) -> None:
    edit_manifest(cache, *keys, to=value)
    with pytest.raises(CorruptCacheError, match=rf"^{cache}/manifest\.json: .*{message}"):
        read_manifest(cache)


def test_uncompressed_record_cannot_be_larger_than_every_shard(cache: Path) -> None:
    files = tuple(entry for entry in MANIFEST.files if entry.path != "dictionary.zst")
    manifest = replace(MANIFEST, compression=Compression.of("none"), files=files, max_record_bytes=101)
    (cache / "manifest.json").write_bytes(manifest.to_bytes())
    with pytest.raises(CorruptCacheError, match="max_record_bytes is 101 but must be at most 100"):
        read_manifest(cache)


@pytest.mark.parametrize(("key", "value"), [("fingerprint", "v2"), ("max_record_bytes", 41)])
def test_edited_content_no_longer_has_its_identity(cache: Path, key: str, value: Any) -> None:
    edit_manifest(cache, key, to=value, sign=False)
    with pytest.raises(CorruptCacheError, match=f"identity is '{MANIFEST.identity[:20]}.*' but must be [0-9a-f]{{64}}"):
        read_manifest(cache)


def test_cache_id_must_be_the_identitys(cache: Path) -> None:
    edit_manifest(cache, "cache_id", to=1, sign=False)
    with pytest.raises(CorruptCacheError, match=f"cache_id is 1 but must be {MANIFEST.cache_id} for this identity"):
        read_manifest(cache)


# --- compression as an option


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, r"the level is 0 but must be in \[-131072, 22\], not 0"),
        ({"level": 23}, "the level is 23"),
        ({"dictionary_bytes": 100}, r"dictionary_bytes is 100 but must be 0 or in \[256, 16777216\]"),
        ({"name": "none"}, "'none' has no level or dictionary, found 3, 0"),
    ],
)
def test_impossible_compression_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^compression: {message}"):
        Compression(**options)


def test_compression_by_name() -> None:
    assert Compression.of("zstd") == Compression(level=3, dictionary_bytes=0, name="zstd")
    assert str(Compression.of("none")) == "none"
    with pytest.raises(ValueError, match="the name is 'gzip' but must be 'none' or 'zstd'"):
        Compression.of("gzip")
