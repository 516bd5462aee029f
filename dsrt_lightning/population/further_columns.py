"""The columns that a population has besides, or in place of, those of its caches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dsrt_lightning._core import MappedFile
from dsrt_lightning.population.stored_columns import ArrowRows, read_batches
from dsrt_lightning.store.lazy import lazy_property

if TYPE_CHECKING:
    import polars as pl


class FurtherColumns(Protocol):
    """A table with a row for each row of the population, without ids and weight."""

    def row(self, position: int) -> dict[str, object]:
        """Return one row by column."""

    def frame(self) -> pl.DataFrame:
        """Return the table."""


class ColumnsInMemory:
    """Columns of a frame; may have none."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def row(self, position: int) -> dict[str, object]:
        """Return one row by column."""
        return self._frame.row(position, named=True) if self._frame.width else {}

    def frame(self) -> pl.DataFrame:
        """Return the frame."""
        return self._frame


class MappedColumns:
    """Columns of an Arrow file, mapped when they are first asked for; rows need no Polars."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @lazy_property
    def _rows(self) -> ArrowRows:
        return ArrowRows(read_batches(_mapped(self._path)))

    def row(self, position: int) -> dict[str, object]:
        """Return one row by column."""
        return self._rows.row(position)

    def frame(self) -> pl.DataFrame:
        """Return the table, as a view of the file."""
        import polars as pl
        import pyarrow as pa

        return pl.DataFrame(pa.Table.from_batches(read_batches(_mapped(self._path))))


def _mapped(path: Path) -> MappedFile:
    return MappedFile(os.fspath(path), path.stat().st_size)
