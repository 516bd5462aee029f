"""Files that a `join` rule reads: Parquet, CSV and Arrow, recognised by their suffix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dsrt_lightning.population.expressions import first_line
from dsrt_lightning.population.wording import listing

if TYPE_CHECKING:
    import polars as pl

_SUFFIXES = (".parquet", ".csv", ".arrow", ".ipc", ".feather")


def scan_join_file(file: str) -> pl.LazyFrame:
    """Return the file's table, lazily; of a CSV file every row is looked at to infer the types.

    Raises:
        ValueError: There is no such file, its suffix is not one of ours, or it cannot be read.
    """
    import polars as pl

    path = Path(file)
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"{file!r} has suffix {path.suffix!r}, not one of {listing(_SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"there is no file {file!r} (relative to {Path.cwd()})")
    try:
        if path.suffix == ".parquet":
            table = pl.scan_parquet(path, glob=False)
        elif path.suffix == ".csv":
            table = pl.scan_csv(path, glob=False, infer_schema_length=None)
        else:
            table = pl.scan_ipc(path)
        table.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{file!r} cannot be read: {first_line(error)}") from None
    return table


def duplicate_key(table: pl.LazyFrame, on: Sequence[str]) -> str | None:
    """Return a description of the first key that more than one row has, or None."""
    import polars as pl

    counts = table.group_by(on, maintain_order=True).agg(pl.len().alias("__rows"))
    repeated = counts.filter(pl.col("__rows") > 1, pl.all_horizontal(pl.col(on).is_not_null())).collect()
    if repeated.is_empty():
        return None
    *key, rows = repeated.row(0)
    return f"key {', '.join(map(repr, key))} has {rows} rows (keys with more than one row: {repeated.height})"
