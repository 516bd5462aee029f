"""manifest.json: what a cache holds, under which identity. *Part of the format.*

A directory with a manifest is a complete cache; the manifest is written last.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from dsrt_lightning.errors import CacheNotFoundError, CorruptCacheError, FormatVersionError
from dsrt_lightning.store.cache_file import naming, open_cache_file
from dsrt_lightning.store.codecs.base import JSON
from dsrt_lightning.store.lazy import lazy_property
from dsrt_lightning.store.sources import name_problem
from dsrt_lightning.store.strict_json import StrictObject, parse_object

FORMAT = "dsrt.cache"
VERSION = 1
MANIFEST, INDEX, METADATA, DICTIONARY = "manifest.json", "index.bin", "metadata.arrow", "dictionary.zst"
BUILDING_SUFFIX = ".building"
# The columns that the metadata table adds; no source may have them.
RESERVED_COLUMNS = ("cache_id", "sample_id", "weight")
INDEX_HEADER_BYTES, INDEX_ROW_BYTES = 64, 24
MAX_ALIGNMENT = 4096
# Of zstd itself.
MIN_LEVEL, MAX_LEVEL = -131072, 22
_MAX_INT = 2**63 - 1
_MAX_MANIFEST_BYTES = 64 << 20


@dataclass(frozen=True)
class Compression:
    """How each record is compressed.

    Args:
        level: zstd's, in ``[-131072, 22]`` without 0; higher is smaller and slower.
        dictionary_bytes: Largest size of a dictionary trained on the first records, which helps where records are
            small and alike; 0 for none. About a hundred times as many bytes of records are needed to train it.
        name: ``none`` stores records as they are, level and dictionary are then 0.
    """

    level: int = 3
    dictionary_bytes: int = 0
    name: Literal["none", "zstd"] = "zstd"

    def __post_init__(self) -> None:
        if self.name not in ("none", "zstd"):
            raise ValueError(f"compression: the name is {self.name!r} but must be 'none' or 'zstd'")
        if self.name == "none" and (self.level, self.dictionary_bytes) != (0, 0):
            raise ValueError(
                f"compression: 'none' has no level or dictionary, found {self.level}, {self.dictionary_bytes}"
            )
        if self.name == "zstd" and not (MIN_LEVEL <= self.level <= MAX_LEVEL and self.level):
            raise ValueError(f"compression: the level is {self.level} but must be in [{MIN_LEVEL}, {MAX_LEVEL}], not 0")
        # zstd itself refuses to train a smaller one.
        if self.dictionary_bytes and not 256 <= self.dictionary_bytes <= 16 << 20:
            raise ValueError(
                f"compression: dictionary_bytes is {self.dictionary_bytes} but must be 0 or in [256, {16 << 20}]"
            )

    @classmethod
    def of(cls, compression: str | Compression) -> Compression:
        """Return the compression of a name or itself."""
        if isinstance(compression, Compression):
            return compression
        return cls(level=0, name="none") if compression == "none" else cls(name=cast("Literal['zstd']", compression))

    def __str__(self) -> str:
        if self.name == "none":
            return "none"
        dictionary = f", dictionary of at most {self.dictionary_bytes} bytes" if self.dictionary_bytes else ""
        return f"{self.name} level {self.level}{dictionary}"


class StoredCodec(NamedTuple):
    """The codec's name and the schema that ``from_schema`` takes."""

    name: str
    schema: dict[str, JSON]


class MetadataColumn(NamedTuple):
    """One stored column; ``dtype`` is a name of ``metadata_types``."""

    name: str
    dtype: str


class FileEntry(NamedTuple):
    """One file: ``path`` relative to the cache, its size and the CRC32C of all its bytes."""

    path: str
    bytes: int
    crc32c: int


@dataclass(frozen=True)
class Manifest:
    """What ``manifest.json`` says.

    Attributes:
        name: Of the source, and of the directory it was built as.
        fingerprint: The source's, if it gave one.
        record_alignment: Every record starts at a multiple of this many bytes in its shard.
        max_record_bytes: Size of the largest record before compression.
        metadata_columns: In stored order.
        files: All but the manifest: index, metadata, dictionary if there is one, shards in order.
    """

    name: str
    fingerprint: str | None
    codec: StoredCodec
    num_records: int
    record_alignment: int
    max_record_bytes: int
    compression: Compression
    metadata_columns: tuple[MetadataColumn, ...]
    files: tuple[FileEntry, ...]

    @lazy_property
    def identity(self) -> str:
        """SHA-256 in hex over all of the above: equal for equal caches, wherever they were built."""
        canonical = json.dumps(self._content(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @lazy_property
    def cache_id(self) -> int:
        """The identity's first 63 bits."""
        return int(self.identity[:16], 16) >> 1

    @lazy_property
    def shards(self) -> tuple[FileEntry, ...]:
        """The payload files in order."""
        return self.files[3 if self.compression.dictionary_bytes else 2 :]

    def file(self, path: str) -> FileEntry:
        """Return the entry of a file that the cache has."""
        return next(entry for entry in self.files if entry.path == path)

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        header = {"format": FORMAT, "version": VERSION, "cache_id": self.cache_id, "identity": self.identity}
        return json.dumps(header | self._content(), indent=2, allow_nan=False).encode() + b"\n"

    def _content(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "codec": self.codec._asdict(),
            "num_records": self.num_records,
            "record_alignment": self.record_alignment,
            "max_record_bytes": self.max_record_bytes,
            "compression": {
                "name": self.compression.name,
                "level": self.compression.level,
                "dictionary_bytes": self.compression.dictionary_bytes,
            },
            "metadata_columns": [column._asdict() for column in self.metadata_columns],
            "files": [entry._asdict() for entry in self.files],
        }


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of a complete cache; nothing else of the cache is read.

    Raises:
        CacheNotFoundError: There is no directory or no manifest.
        FormatVersionError: Another version of this format wrote it.
        CorruptCacheError: It is not exactly a manifest; the message names the part and its value.
    """
    path = Path(directory) / MANIFEST
    if not path.parent.is_dir():
        raise CacheNotFoundError(f"{path.parent}: there is no such directory; build the cache or correct the path")
    if path.parent.name.endswith(BUILDING_SUFFIX) or not path.exists():
        raise CacheNotFoundError(f"{path.parent}: there is no complete cache (no {MANIFEST}); build it again")
    with naming(path), open_cache_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > _MAX_MANIFEST_BYTES:
            raise CorruptCacheError(f"{path}: has {size} bytes, more than {_MAX_MANIFEST_BYTES}; it is no manifest")
        content = file.read()
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Return the manifest with this content; raises as `read_manifest`, each message beginning with ``where``."""
    root = parse_object(content, where)
    root.check("format", root.text("format") == FORMAT, repr(FORMAT))
    if (version := root.integer("version", 1, _MAX_INT)) != VERSION:
        raise FormatVersionError(
            f"{where}: format version {version} but this package reads {VERSION}; upgrade it or rebuild"
        )
    name = root.text("name")
    root.check("name", name_problem(name) is None, "a plain directory name")
    codec = root.child("codec")
    stored_codec = StoredCodec(codec.text("name"), codec.mapping("schema"))
    codec.finish()
    alignment = root.integer("record_alignment", 1, MAX_ALIGNMENT)
    root.check("record_alignment", alignment & (alignment - 1) == 0, "a power of two")
    compression = _parse_compression(root.child("compression"), where)
    num_records = root.integer("num_records", 1, _MAX_INT // INDEX_ROW_BYTES)
    manifest = Manifest(
        name=name,
        fingerprint=root.optional_text("fingerprint"),
        codec=stored_codec,
        num_records=num_records,
        record_alignment=alignment,
        max_record_bytes=root.integer("max_record_bytes", 0, _MAX_INT),
        compression=compression,
        metadata_columns=_parse_columns(root),
        files=_parse_files(root, num_records, compression),
    )
    identity, cache_id = root.text("identity"), root.integer("cache_id", 0, _MAX_INT)
    root.finish()
    root.check("identity", identity == manifest.identity, f"{manifest.identity} for this content")
    root.check("cache_id", cache_id == manifest.cache_id, f"{manifest.cache_id} for this identity")
    largest_shard = max(entry.bytes for entry in manifest.shards)
    is_possible = compression.name != "none" or manifest.max_record_bytes <= largest_shard
    root.check("max_record_bytes", is_possible, f"at most {largest_shard}, the size of the largest shard")
    return manifest


def _parse_compression(entry: StrictObject, where: str) -> Compression:
    name = entry.text("name")
    level, dictionary_bytes = (
        entry.integer("level", MIN_LEVEL, MAX_LEVEL),
        entry.integer("dictionary_bytes", 0, _MAX_INT),
    )
    entry.finish()
    try:
        return Compression(level, dictionary_bytes, cast("Literal['none', 'zstd']", name))
    except ValueError as error:
        raise CorruptCacheError(f"{where}: {error}; restore or rebuild the cache") from error


def _parse_columns(root: StrictObject) -> tuple[MetadataColumn, ...]:
    columns: list[MetadataColumn] = []
    for entry in root.objects("metadata_columns"):
        columns.append(MetadataColumn(entry.text("name"), entry.text("dtype")))
        entry.check("name", columns[-1].name not in RESERVED_COLUMNS, f"none of {', '.join(RESERVED_COLUMNS)}")
        entry.finish()
    names = [column.name for column in columns]
    root.check("metadata_columns", len(set(names)) == len(names), "a list of distinct names")
    return tuple(columns)


def _parse_files(root: StrictObject, num_records: int, compression: Compression) -> tuple[FileEntry, ...]:
    """Return the files; their names are fixed by their order, so no path can lead out of the cache."""
    first = [INDEX, METADATA, *([DICTIONARY] if compression.dictionary_bytes else [])]
    files: list[FileEntry] = []
    for i, entry in enumerate(root.objects("files")):
        expected = first[i] if i < len(first) else shard_path(i - len(first))
        entry.check("path", entry.text("path") == expected, repr(expected))
        files.append(FileEntry(expected, entry.integer("bytes", 0, _MAX_INT), entry.integer("crc32c", 0, 2**32 - 1)))
        entry.finish()
    root.check("files", len(files) > len(first), f"a list of {', '.join(first)} and at least one shard")
    index_bytes = INDEX_HEADER_BYTES + INDEX_ROW_BYTES * num_records
    root.check(
        "num_records", files[0].bytes == index_bytes, f"the number that {INDEX} has room for ({files[0].bytes} bytes)"
    )
    return tuple(files)


def shard_path(ordinal: int) -> str:
    """Return the path of a shard relative to its cache."""
    return f"shards/{ordinal:06d}.bin"
