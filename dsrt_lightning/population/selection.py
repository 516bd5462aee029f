"""From a metadata frame to record numbers and weights, checked as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dsrt_lightning.errors import EmptyPopulationError, MetadataError, WeightError
from dsrt_lightning.population.listed_rows import ListedRows
from dsrt_lightning.population.wording import BUILT_IN, IDS, listing

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl
    from numpy.typing import NDArray

    from dsrt_lightning.store.cache_set import CacheSet

_ROWS_PER_PIECE = 1 << 15  # fit the processor's cache; threads gain nothing, as they wait for the GIL


class Selection(NamedTuple):
    """The rows of a frame that have weight.

    Attributes:
        rows: Record numbers int64 ``[P]`` in the frame's order; or that they are all records once, as listed.
        weights: Float64 ``[P]``, above 0; the number itself where all are equal.
        columns: The frame's columns but ids and weight, ``[P]`` rows.
    """

    rows: NDArray[np.int64] | ListedRows
    weights: NDArray[np.float64] | float
    columns: pl.DataFrame


def select(caches: CacheSet, frame: pl.DataFrame, where: str) -> Selection:
    """Return what a frame selects, or refuse all of it.

    Args:
        caches: Hold the records that the ids name.
        frame: Has ``cache_id`` and ``sample_id``; a missing ``weight`` is 1.
        where: How error messages begin.

    Raises:
        MetadataError: A column is missing or of a wrong type, or an id is unknown.
        WeightError: A weight is null, not finite or negative, or all are zero.
        EmptyPopulationError: The frame has no rows.
    """
    import polars as pl

    if "weight" not in frame.columns:
        frame = frame.with_columns(pl.lit(1.0).alias("weight"))
    _check_columns(frame, where)
    rows = _record_numbers(caches, frame, where)
    weights: NDArray[np.float64] = frame.get_column("weight").cast(pl.Float64).to_numpy()
    lowest, highest = weights.min(), weights.max()
    if not (lowest >= 0 and highest < np.inf):  # NaN is neither, and what nulls became
        raise WeightError(f"{where}: {_wrong_weights(frame)}")
    if highest == 0:
        raise WeightError(f"{where}: all {len(weights)} weights are zero; at least one row must be drawn")
    # Not `drop` or `select`: they copy a frame whose columns are cut into chunks in different places.
    columns = pl.DataFrame([column for column in frame.get_columns() if column.name not in BUILT_IN])
    if lowest == 0:
        drawn = weights > 0
        positions = drawn.nonzero()[0]
        rows = rows.at(positions) if isinstance(rows, ListedRows) else rows[positions]
        weights, columns = weights[drawn], columns.filter(pl.Series(drawn))
        lowest = weights.min()
    # A copy, since what the user made the frame from may change.
    return Selection(rows, float(lowest) if lowest == highest else np.array(weights), columns)


def _check_columns(frame: pl.DataFrame, where: str) -> None:
    for name in IDS:
        if name not in frame.columns:
            columns = listing(frame.columns)
            raise MetadataError(f"{where}: column {name!r} is missing (columns: {columns}); begin with get_metadata()")
        if not frame[name].dtype.is_integer() or frame[name].null_count():
            nulls = frame[name].null_count()
            raise MetadataError(f"{where}: column {name!r} is {frame[name].dtype} with {nulls} nulls, not integers")
    if not frame["weight"].dtype.is_numeric():
        raise WeightError(f"{where}: column 'weight' is {frame['weight'].dtype}, not numbers")
    if frame.is_empty():
        raise EmptyPopulationError(f"{where}: there are no rows; a population needs at least one")


def _record_numbers(caches: CacheSet, frame: pl.DataFrame, where: str) -> NDArray[np.int64] | ListedRows:
    """Return the record number of each row, ``[P]``; the whole table, only weighted anew, needs no array of them."""
    listed = ListedRows(caches)
    if frame.height == len(listed) and all(listed.are(*piece) for piece in _pieces(frame)):
        return listed
    known = np.array([cache.cache_id for cache in caches.caches])
    sizes = np.array([cache.num_records for cache in caches.caches], np.uint64)
    bases = np.array(caches.bases)

    def numbers_of(piece: _Ids) -> NDArray[np.int64] | None:
        """Return record numbers, with one search for each run of equal cache ids; None if one is unknown."""
        cache_ids, sample_ids = piece.cache_ids, piece.sample_ids
        starts = np.concatenate([[0], np.flatnonzero(cache_ids[1:] != cache_ids[:-1]) + 1])
        ordinals = np.searchsorted(known, cache_ids[starts]).clip(max=len(known) - 1)
        run_sizes = np.where(known[ordinals] == cache_ids[starts], sizes[ordinals], 0).astype(np.uint64)
        run_bases = bases[ordinals]
        if len(starts) > 1:
            lengths = np.diff(starts, append=len(cache_ids))
            run_sizes, run_bases = np.repeat(run_sizes, lengths), np.repeat(run_bases, lengths)
        if not (sample_ids.view(np.uint64) < run_sizes).all():  # a negative one is very large
            return None
        numbers: NDArray[np.int64] = sample_ids + run_bases
        return numbers

    rows = np.empty(frame.height, np.int64)
    for piece in _pieces(frame):
        numbers = numbers_of(piece)
        if numbers is None:
            raise MetadataError(f"{where}: {_unknown_ids(caches, frame)}")
        rows[piece.start : piece.start + len(numbers)] = numbers
    return rows


class _Ids(NamedTuple):
    """The ids of rows that follow each other from ``start`` on."""

    start: int
    cache_ids: NDArray[np.int64]
    sample_ids: NDArray[np.int64]


def _pieces(frame: pl.DataFrame) -> Iterator[_Ids]:
    """Yield all ids in pieces that fit the processor's cache, as views where both columns are cut alike."""
    columns = [frame.get_column(name) for name in IDS]
    chunks = [column.get_chunks() for column in columns]
    if [len(chunk) for chunk in chunks[0]] != [len(chunk) for chunk in chunks[1]]:
        chunks = [[column.rechunk()] for column in columns]
    start = 0
    for pair in zip(*chunks, strict=True):
        cache_ids, sample_ids = (chunk.to_numpy().astype(np.int64, copy=False) for chunk in pair)
        for offset in range(0, len(cache_ids), _ROWS_PER_PIECE):
            window = slice(offset, offset + _ROWS_PER_PIECE)
            yield _Ids(start + offset, cache_ids[window], sample_ids[window])
        start += len(cache_ids)


def _wrong_weights(frame: pl.DataFrame) -> str:
    import polars as pl

    weight = pl.col("weight").cast(pl.Float64)
    is_right = weight.is_finite() & (weight >= 0)
    wrong = frame.select(BUILT_IN).with_row_index("row").filter(~is_right.fill_null(False))
    row, cache_id, sample_id, value = wrong.row(0)
    return (
        f"{wrong.height} of {frame.height} weights are not finite and >= 0, the first in row {row} "
        f"(cache_id {cache_id}, sample_id {sample_id}): {value}; drop these rows or change their weight"
    )


def _unknown_ids(caches: CacheSet, frame: pl.DataFrame) -> str:
    import polars as pl

    known = pl.DataFrame(
        [(cache.cache_id, cache.num_records, str(cache.path)) for cache in caches.listed],
        schema={"cache_id": pl.Int64, "size": pl.Int64, "path": pl.String},
        orient="row",
    )
    rows = frame.select(pl.col(IDS).cast(pl.Int64, strict=False)).with_row_index("row")
    is_right = pl.col("sample_id").is_between(0, pl.col("size"), closed="left")
    wrong = rows.join(known, on="cache_id", how="left", maintain_order="left").filter(~is_right.fill_null(False))
    row, cache_id, sample_id, size, path = wrong.row(0)
    if size is None:
        caches_known = listing([f"{cache.path}: {cache.cache_id}" for cache in caches.listed])
        reason = f"cache_id {cache_id} is not among the opened caches ({caches_known})"
    else:
        reason = f"sample_id {sample_id} is not in [0, {size}), the records of {path}"
    return f"{wrong.height} of {frame.height} rows name unknown records, the first is row {row}: {reason}"
