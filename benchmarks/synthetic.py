"""Caches of any number of records within seconds: one chunk of records repeated, written straight in the format."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data import NUM_LABELS
from dsrt_lightning._core import crc32c
from dsrt_lightning.store.arrow_file import ArrowFile
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.durable import describe_file
from dsrt_lightning.store.manifest import (
    INDEX,
    INDEX_HEADER_BYTES,
    INDEX_ROW_BYTES,
    MANIFEST,
    METADATA,
    Compression,
    FileEntry,
    Manifest,
    MetadataColumn,
    StoredCodec,
    shard_path,
)
from dsrt_lightning.store.metadata_file import ROWS_PER_BATCH

FIELD = "data"
_SHARD_BYTES = 256 << 20
_PIECE_BYTES = 2 << 20
_CHUNK_BYTES = 4 << 20
_INDEX_ROW = np.dtype([("offset", "<u8"), ("bytes", "<u8"), ("shard", "<u4"), ("crc32c", "<u4")])


@dataclass(frozen=True)
class Records:
    """Records of one size, ``data`` of int64, whose first item is their number in the chunk that repeats.

    Attributes:
        count: How many.
        size: Bytes of one, a multiple of 16.
    """

    count: int
    size: int

    @property
    def period(self) -> int:
        """After how many records the bytes repeat; at most 65,536."""
        return max(1, min(_CHUNK_BYTES // self.size, 1 << 16, self.count))

    def chunk(self) -> NDArray[np.int64]:
        """Return the records that repeat, int64 ``[period, size / 8]``."""
        chunk = np.random.default_rng(self.size).integers(-(2**63), 2**63 - 1, (self.period, self.size // 8))
        chunk[:, 0] = np.arange(self.period)
        return chunk


def write_cache(target: Path, records: Records) -> None:
    """Build a cache with codec ``arrays`` and the column ``label``, ``sample_id % 4``, unless it is there.

    It is byte for byte what the builder makes of these records, but not durable yet; memory is bounded.
    """
    if target.exists():
        return
    codec = ArraysCodec({FIELD: ("int64", (records.size // 8,))})
    chunk = records.chunk()
    directory = target.with_name(f".{target.name}.new")
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "shards").mkdir(parents=True)
    per_shard = max(1, _SHARD_BYTES // records.size)
    starts = range(0, records.count, per_shard)
    shards = [
        _write(directory, shard_path(i), _payload(chunk, start, min(per_shard, records.count - start)))
        for i, start in enumerate(starts)
    ]
    index = _write(directory, INDEX, _index(records, chunk, per_shard))
    metadata = _write_metadata(directory, records.count)
    manifest = Manifest(
        name=target.name,
        fingerprint=None,
        codec=StoredCodec(codec.name, codec.schema()),
        num_records=records.count,
        record_alignment=codec.alignment,
        max_record_bytes=records.size,
        compression=Compression.of("none"),
        metadata_columns=(MetadataColumn("label", "int64"),),
        files=(index, metadata, *shards),
    )
    _write(directory, MANIFEST, [manifest.to_bytes()])
    directory.rename(target)


def check(batch: NDArray[np.int64], sample_ids: NDArray[np.int64], records: Records) -> None:
    """Compare int64 ``[n, size / 8]`` with what was stored.

    Raises:
        ValueError: Another record arrived.
    """
    expected = records.chunk()[sample_ids % records.period]
    if not np.array_equal(batch, expected):
        raise ValueError(f"records of {records.size} bytes are not those that were stored")


def _payload(chunk: NDArray[np.int64], start: int, count: int) -> Iterator[bytes]:
    """Yield the bytes of records ``[start, start + count)``."""
    whole = len(chunk)
    while count:
        begin = start % whole
        part = chunk[begin : begin + count]
        yield part.tobytes()
        start, count = start + len(part), count - len(part)


def _index(records: Records, chunk: NDArray[np.int64], per_shard: int) -> Iterator[bytes]:
    header = b"DSRTINDX" + np.array([1, INDEX_ROW_BYTES], "<u4").tobytes() + np.array(records.count, "<u8").tobytes()
    yield header.ljust(INDEX_HEADER_BYTES, b"\0")
    checksums = np.array([crc32c(record) for record in chunk], np.uint32)
    rows_per_part = 1 << 18
    for start in range(0, records.count, rows_per_part):
        numbers = np.arange(start, min(start + rows_per_part, records.count))
        rows = np.empty(len(numbers), _INDEX_ROW)
        rows["shard"], within = np.divmod(numbers, per_shard)
        rows["offset"] = within * records.size
        rows["bytes"] = records.size
        rows["crc32c"] = checksums[numbers % len(chunk)]
        yield rows.tobytes()


def _write_metadata(directory: Path, count: int) -> FileEntry:
    file = ArrowFile(directory / METADATA, pa.schema([("label", pa.int64())]))
    labels = pa.array(np.arange(ROWS_PER_BATCH) % NUM_LABELS)
    for start in range(0, count, ROWS_PER_BATCH):
        num_rows = min(ROWS_PER_BATCH, count - start)
        file.write([labels[:num_rows]], num_rows)
    file.close()
    return describe_file(directory, METADATA)


def _write(directory: Path, path: str, parts: Iterable[bytes]) -> FileEntry:
    """Write a file in pieces of 2 MiB at multiples of that, as the builder does: the system then uses huge pages."""
    pending, checksum, size = b"", 0, 0
    with open(directory / path, "xb", buffering=0) as file:
        for part in parts:
            checksum = crc32c(part, checksum)
            size += len(part)
            pending += part
            while len(pending) >= _PIECE_BYTES:
                file.write(pending[:_PIECE_BYTES])
                pending = pending[_PIECE_BYTES:]
        file.write(pending)
    return FileEntry(path, size, checksum)
