"""The metadata files of opened caches, mapped and read row by row; works in worker processes, without Polars."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from dsrt_lightning._core import MappedFile, are_short_ascii, crc32c
from dsrt_lightning.errors import CorruptCacheError
from dsrt_lightning.population.threads import map_in_threads
from dsrt_lightning.store.manifest import METADATA

if TYPE_CHECKING:
    import pyarrow as pa

    from dsrt_lightning.store.cache import Cache
    from dsrt_lightning.store.cache_set import CacheSet


_REMEDY = "restore or rebuild the cache"
_BYTES_PER_VIEW = 16  # of a text, in Arrow's string views


class ArrowRows:
    """The rows of record batches, one at a time as a dict.

    Args:
        batches: Of one schema.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._starts = list(accumulate((batch.num_rows for batch in batches[:-1]), initial=0))

    def row(self, index: int) -> dict[str, object]:
        """Return row ``index >= 0`` by column; times are cut to microseconds."""
        number = bisect_right(self._starts, index) - 1
        cells = self._batches[number].slice(index - self._starts[number], 1)
        return {name: _value(column) for name, column in zip(cells.schema.names, cells.columns, strict=True)}


class StoredColumns:
    """The stored columns of every record of opened caches; a file is mapped when its first row is asked for."""

    def __init__(self, caches: CacheSet) -> None:
        self._caches = caches
        self._rows: dict[int, ArrowRows] = {}
        self._names: dict[str, None] | None = None

    def row(self, record: int) -> dict[str, object]:
        """Return the columns of a record number; those that only other caches have are None.

        Raises:
            CorruptCacheError: The metadata file is damaged.
        """
        if self._names is None:
            columns = (column for cache in self._caches.listed for column in cache.manifest.metadata_columns)
            self._names = dict.fromkeys(column.name for column in columns)
        ordinal, sample_id = self._caches.locate(record)
        if ordinal not in self._rows:
            self._rows[ordinal] = ArrowRows(
                open_metadata(self._caches.caches[ordinal], verify=self._caches.verify != "never")
            )
        return {**self._names, **self._rows[ordinal].row(sample_id)}


def open_metadata(cache: Cache, *, verify: bool) -> list[pa.RecordBatch]:
    """Return a cache's stored columns, one batch or more, which view the mapped file.

    Args:
        cache: The cache.
        verify: Compare the whole file with its checksum first.

    Raises:
        CorruptCacheError: The file is missing, damaged, or has another number of rows than the cache has records.
    """
    import pyarrow as pa

    path, entry = cache.metadata_path, cache.manifest.file(METADATA)
    try:
        content = MappedFile(os.fspath(path), entry.bytes)
        if verify and (found := crc32c(content)) != entry.crc32c:
            raise CorruptCacheError(
                f"{path}: CRC32C is {found:08x} but the manifest says {entry.crc32c:08x}; {_REMEDY}"
            )
        batches = read_batches(content)
        _validate(batches)
        # All that was looked at counts as this process's memory, and rules mostly need a column or two.
        content.let_go()
        names = batches[0].schema.names if batches else []
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptCacheError(f"{path}: cannot be read as an Arrow file ({error}); {_REMEDY}") from error
    if names != (expected := [column.name for column in cache.manifest.metadata_columns]):
        raise CorruptCacheError(f"{path}: has the columns {names} but the manifest says {expected}; {_REMEDY}")
    num_rows = sum(batch.num_rows for batch in batches)
    if num_rows != cache.num_records:
        raise CorruptCacheError(f"{path}: has {num_rows} rows but the cache has {cache.num_records} records; {_REMEDY}")
    return batches


def _validate(batches: Sequence[pa.RecordBatch]) -> None:
    """Refuse offsets that lie outside and text that is no UTF-8: a checksum says who wrote a file, not that it is sane.

    Many batches are looked at in threads.

    Raises:
        pyarrow.ArrowInvalid: Something is wrong.
    """
    map_in_threads(_validate_batch, batches)


def _validate_batch(batch: pa.RecordBatch) -> None:
    batch.validate()
    for column in batch.columns:
        if not _is_short_ascii(column):
            column.validate(full=True)


def _is_short_ascii(column: pa.Array) -> bool:
    """Return whether a column of texts is seen to be right at a glance: 3 to 5 ns a text, where PyArrow takes 12.

    At ten million rows that was the largest part of opening.
    """
    import pyarrow as pa

    if not pa.types.is_string_view(column.type) or column.offset:
        return False
    nulls, views, *_ = column.buffers()
    return nulls is None and views is not None and are_short_ascii(memoryview(views)[: len(column) * _BYTES_PER_VIEW])


def read_batches(content: MappedFile) -> list[pa.RecordBatch]:
    """Return the batches of an Arrow file, which view its bytes.

    From a buffer; from an open file PyArrow would read each footer in another thread.
    """
    import pyarrow as pa

    reader = pa.ipc.open_file(pa.py_buffer(content))
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def _value(column: pa.Array) -> object:
    target = _microseconds(column.type)
    return (column if target == column.type else column.cast(target, safe=False))[0].as_py()


def _microseconds(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type with microseconds for nanoseconds, which Python's times do not have."""
    import pyarrow as pa

    if pa.types.is_large_list(arrow_type):
        return pa.large_list(_microseconds(arrow_type.value_type))
    if getattr(arrow_type, "unit", "") != "ns":
        return arrow_type
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", arrow_type.tz)
    return pa.duration("us") if pa.types.is_duration(arrow_type) else pa.time64("us")
