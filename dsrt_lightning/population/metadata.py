"""The metadata of opened caches as one lazy table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, cast

import numpy as np

from dsrt_lightning.errors import MetadataError
from dsrt_lightning.population.stored_columns import open_metadata
from dsrt_lightning.population.threads import begun_in_threads
from dsrt_lightning.population.wording import BUILT_IN
from dsrt_lightning.store.manifest import METADATA

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    from dsrt_lightning.store.cache import Cache
    from dsrt_lightning.store.cache_set import CacheSet

# Polars slows down with the number of chunks: below this mean size they are copied into one.
_MIN_ROWS_PER_CHUNK = 4096
_MIN_BYTES_PER_THREAD = 1 << 20  # a smaller file is read sooner than it is handed over


def scan_metadata(caches: CacheSet) -> pl.LazyFrame:
    """Return ``cache_id, sample_id, <stored columns>, weight``, one row a record, caches in the order they were given.

    Large stored columns are views of the mapped files. A column that some caches lack is null there. Where a column's
    type differs between caches, integers become Int64 and numbers Float64; other types do not go together.

    Returns:
        Ids are Int64, ``weight`` is Float64 1.

    Raises:
        CorruptCacheError: A metadata file is damaged or has another number of rows than its cache has records.
        MetadataError: A column's types in two caches do not go together.
    """
    import polars as pl

    tables = _tables(caches.listed, caches.verify != "never")
    types = _common_types(tables)
    table = pl.concat([_cast(table, types) for _, table in tables], how="diagonal", rechunk=False)
    if table.height < _MIN_ROWS_PER_CHUNK * len(caches.listed):
        table = table.rechunk()
    return table.lazy().with_columns(pl.lit(1.0).alias("weight"))


def population_frame(
    caches: CacheSet,
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    further: pl.DataFrame | None,
    *,
    replaces_stored: bool,
) -> pl.DataFrame:
    """Return the metadata table of chosen rows: ids, stored columns, further ones, ``weight``.

    Args:
        caches: The opened caches.
        rows: Record numbers ``[P]``.
        weights: ``[P]``.
        further: Columns ``[P]``.
        replaces_stored: Leave the stored columns out.
    """
    import polars as pl

    bases = np.array(caches.bases)
    ordinals = np.searchsorted(bases, rows, side="right") - 1
    cache_ids = np.array([cache.cache_id for cache in caches.caches])
    table = pl.DataFrame({"cache_id": cache_ids[ordinals], "sample_id": rows - bases[ordinals]})
    if not replaces_stored:
        table = table.hstack(_stored_rows(caches, rows, ordinals).get_columns())
    if further is not None:
        table = table.hstack(further.get_columns())
    return table.with_columns(weight=np.array(weights)).rechunk()


def _stored_rows(caches: CacheSet, rows: NDArray[np.int64], ordinals: NDArray[np.int64]) -> pl.DataFrame:
    """Return the stored columns of record numbers, which count the caches in another order than the table does."""
    table = scan_metadata(caches).drop(BUILT_IN).collect()
    starts = accumulate((cache.num_records for cache in caches.listed), initial=0)
    start_of = {cache.cache_id: start for cache, start in zip(caches.listed, starts, strict=False)}
    shifts = [start_of[cache.cache_id] - base for cache, base in zip(caches.caches, caches.bases, strict=True)]
    return table[rows + np.array(shifts)[ordinals]] if table.width else table


def _tables(caches: Sequence[Cache], verify: bool) -> list[tuple[Cache, pl.DataFrame]]:
    """Return ids and stored columns, caches of one schema together, each table with the first of its caches.

    All columns have the chunks of the files: Polars copies a table whose columns are cut in different places. The ids
    of all chunks are views of few numbers.
    """
    import pyarrow as pa

    runs: list[tuple[Cache, list[pa.RecordBatch]]] = []
    schema = None
    num_bytes = sum(cache.manifest.file(METADATA).bytes for cache in caches)
    are_large = num_bytes >= len(caches) * _MIN_BYTES_PER_THREAD
    with begun_in_threads(partial(open_metadata, verify=verify), caches, worthwhile=are_large) as opened:
        sample_ids = pa.array(np.arange(max(cache.num_records for cache in caches)))
        files = list(opened)
    for cache, batches in zip(caches, files, strict=True):
        cache_ids = pa.array(np.full(max(batch.num_rows for batch in batches), cache.cache_id))
        start = 0
        for batch in batches:
            if schema is None or not batch.schema.equals(schema, check_metadata=True):
                schema = batch.schema
                whole_schema = pa.schema([("cache_id", pa.int64()), ("sample_id", pa.int64()), *schema])
                runs.append((cache, []))
            ids = cache_ids.slice(0, batch.num_rows), sample_ids.slice(start, batch.num_rows)
            runs[-1][1].append(pa.RecordBatch.from_arrays([*ids, *batch.columns], schema=whole_schema))
            start += batch.num_rows
    return [(cache, _frame(pa.Table.from_batches(batches))) for cache, batches in runs]


def _frame(table: pa.Table) -> pl.DataFrame:
    import polars as pl

    return cast("pl.DataFrame", pl.from_arrow(table, rechunk=False))


def _common_types(tables: Sequence[tuple[Cache, pl.DataFrame]]) -> dict[str, pl.DataType]:
    types: dict[str, pl.DataType] = {}
    first: dict[str, Cache] = {}
    for cache, table in tables:
        for name, dtype in table.schema.items():
            known = types.setdefault(name, dtype)
            first.setdefault(name, cache)
            if known == dtype:
                continue
            common = _common_type(known, dtype)
            if common is None:
                raise MetadataError(
                    f"column {name!r} is {known} in {first[name].path} but {dtype} in {cache.path}; "
                    "rebuild one of them with the other's type (metadata_schema), or open them apart"
                )
            types[name] = common
    return types


def _common_type(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    import polars as pl

    if pl.Null in (one, other):
        return one if other == pl.Null else other
    both = (one, other)
    if pl.UInt64 not in both and all(dtype.is_integer() for dtype in both):
        return pl.Int64()
    if all(dtype.is_integer() or dtype.is_float() for dtype in both) and any(dtype.is_float() for dtype in both):
        return pl.Float64()
    return None


def _cast(table: pl.DataFrame, types: dict[str, pl.DataType]) -> pl.DataFrame:
    changed = {name: types[name] for name, dtype in table.schema.items() if types[name] != dtype}
    return table.cast(changed) if changed else table  # type: ignore[arg-type]
