"""A table as a source: Parquet, CSV or JSON lines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dsrt_lightning.errors import BuildError, ConfigError, EncodeError
from dsrt_lightning.store.codecs import resolve_codec
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.codecs.base import Codec
from dsrt_lightning.store.fingerprint import fingerprint_files
from dsrt_lightning.store.lazy import lazy_property
from dsrt_lightning.store.sources import CacheInput

if TYPE_CHECKING:
    import polars as pl

TABLE_SUFFIXES = (".parquet", ".csv", ".jsonl", ".ndjson")
_ROWS_PER_CHUNK = 4096
# Text formats have no schema: types are inferred from this many rows, and later rows must fit them.
_ROWS_TO_INFER_TYPES = 10_000


class TableSource:
    """The rows of one file, each a record.

    Payload columns become the sample: with ``arrays`` and ``pickle`` a dict of one array a column (a number is a
    scalar, a list whose length varies is ragged), with ``bytes`` the one binary or text column itself. Metadata
    columns are what rules select by. A column may be both.

    Attributes:
        payload, metadata: The chosen columns.
        left_out: The columns that are neither.
        codec: Encodes the payload columns; for ``arrays`` with the types that the table declares.
        metadata_schema: The Polars type of each metadata column.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        codec: str = "arrays",
        payload: Sequence[str] | None = None,
        metadata: Sequence[str] | None = None,
    ) -> None:
        """Read the schema; rows are read when iterated, a chunk at a time.

        Args:
            path: Its suffix, one of `TABLE_SUFFIXES`, tells the format.
            name: Of the cache; default the file's name without the suffix.
            codec: ``arrays``, ``pickle`` or ``bytes``.
            payload: Default: every column of numbers, booleans or lists of them; for ``bytes`` every binary column.
            metadata: Default: every column of single values (numbers, booleans, text, dates and times).

        Raises:
            ConfigError: The suffix is another, or a column is missing or cannot be what it is named for.
            BuildError: The file is not of its suffix's format.
        """
        self.path = Path(path)
        self.name = name or self.path.stem
        self._schema = _read_schema(self.path)
        self._is_bytes = codec == "bytes"
        usable = {"arrays": _is_numeric, "bytes": _is_text}.get(codec, lambda _: True)
        default = _is_binary if self._is_bytes else _is_numeric
        self.payload = self._choose(f"the payload of codec {codec}", payload, usable, default)
        self.metadata = self._choose("metadata", metadata, _is_single, _is_single)
        if not self.payload or (self._is_bytes and len(self.payload) > 1):
            needed = "exactly one payload column of text or bytes" if self._is_bytes else "a payload column of numbers"
            raise ConfigError(
                f"{path}: codec {codec} needs {needed}, not {len(self.payload)}; name it (columns: {self._listed()})"
            )
        self.left_out = tuple(column for column in self._schema if column not in {*self.payload, *self.metadata})
        self.metadata_schema = {column: self._schema[column] for column in self.metadata}
        self._shapes = {column: self._shape(column) for column in self.payload if _is_numeric(self._schema[column])}
        self.codec: Codec = ArraysCodec(self._array_schema()) if codec == "arrays" else resolve_codec(codec)

    @lazy_property
    def fingerprint(self) -> str:
        """Over the file's bytes and the choice of codec and columns."""
        return fingerprint_files([("", self.path)], choices=(self.codec.name, self.payload, self.metadata))

    def __iter__(self) -> Iterator[CacheInput]:
        """Yield the rows in the file's order.

        Raises:
            EncodeError: A payload value is null or a nested list is not rectangular; the text names column and row.
        """
        first_row = 0
        columns = list(dict.fromkeys((*self.payload, *self.metadata)))
        for chunk in _scan(self.path).select(columns).collect_batches(chunk_size=_ROWS_PER_CHUNK):
            values = [self._values(chunk.get_column(column), first_row) for column in self.payload]
            # A frame without columns has no rows.
            selected = chunk.select(self.metadata).iter_rows(named=True) if self.metadata else ({} for _ in values[0])
            for row, metadata in enumerate(selected):
                sample = {name: column[row] for name, column in zip(self.payload, values, strict=True)}
                yield CacheInput(sample[self.payload[0]] if self._is_bytes else sample, metadata)
            first_row += len(chunk)

    def _choose(
        self,
        role: str,
        named: Sequence[str] | None,
        usable: Callable[[pl.DataType], bool],
        default: Callable[[pl.DataType], bool],
    ) -> tuple[str, ...]:
        if named is None:
            return tuple(column for column, dtype in self._schema.items() if default(dtype))
        for column in named:
            if column not in self._schema:
                raise ConfigError(f"{self.path}: no column {column!r} for {role} (columns: {self._listed()})")
            if not usable(self._schema[column]):
                raise ConfigError(f"{self.path}: column {column!r} of type {self._schema[column]} cannot be {role}")
        return tuple(named)

    def _listed(self) -> str:
        return ", ".join(f"{column} {dtype}" for column, dtype in self._schema.items())

    def _shape(self, column: str) -> tuple[int | None, ...]:
        """Return the shape of the column's values, None for an axis whose length varies; scans lists once."""
        import polars as pl

        dtype = self._schema[column]
        if isinstance(dtype, pl.Array):
            return tuple(dtype.shape)
        depth = _depth(dtype)
        if depth != 1:
            return (None,) * depth
        length = pl.col(column).list.len()
        shortest, longest = _scan(self.path).select(length.min(), length.max().alias("longest")).collect().row(0)
        return (longest if shortest == longest else None,)

    def _array_schema(self) -> Mapping[str, tuple[np.dtype[Any], tuple[int | None, ...]]]:
        return {column: (_numpy_dtype(self._schema[column]), shape) for column, shape in self._shapes.items()}

    def _values(self, column: pl.Series, first_row: int) -> Sequence[object] | NDArray[Any]:
        import polars as pl

        if column.null_count():
            row = first_row + int(column.is_null().arg_max() or 0)
            raise EncodeError(
                f"{self.path}: column {column.name!r} is null in row {row}; a payload has no nulls: "
                "fill it, or leave the column out of the payload (`payload=` in Python, --payload on the command line)"
            )
        if self._is_bytes:
            return column.cast(pl.Binary).to_list()
        shape = self._shapes.get(column.name)
        if shape is None:
            return column.to_list()
        if not shape:
            return column.to_numpy()
        dtype = _numpy_dtype(column.dtype)
        try:
            return _vectors(column) if len(shape) == 1 else [_array(value, dtype, len(shape)) for value in column]
        except (TypeError, ValueError) as error:
            raise EncodeError(
                f"{self.path}: column {column.name!r} has nulls or is not rectangular in rows "
                f"[{first_row}, {first_row + len(column)}); leave it out of the payload, or use codec pickle"
            ) from error


def _vectors(column: pl.Series) -> list[NDArray[Any]]:
    """Return the values of a column of flat lists as views of one array."""
    import polars as pl

    arrow = column.cast(pl.List(_leaf(column.dtype))).rechunk().to_arrow()
    if arrow.values.null_count:
        raise ValueError("null in a list")
    values, offsets = arrow.values.to_numpy(zero_copy_only=False), arrow.offsets.to_numpy()
    return [values[start:end] for start, end in itertools.pairwise(offsets)]


def _array(value: pl.Series, dtype: np.dtype[Any], num_axes: int) -> NDArray[Any]:
    array = np.array(value.to_list(), dtype)
    # An empty list does not tell its depth.
    return array if array.size or array.ndim == num_axes else array.reshape((0,) * num_axes)


def _read_schema(path: Path) -> pl.Schema:
    import polars as pl

    try:
        return _scan(path).collect_schema()
    except pl.exceptions.PolarsError as error:
        raise BuildError(f"{path}: cannot be read as {path.suffix}: {str(error).splitlines()[0]}") from error


def _scan(path: Path) -> pl.LazyFrame:
    import polars as pl

    if path.suffix == ".parquet":
        return pl.scan_parquet(path, glob=False)
    if path.suffix == ".csv":
        return pl.scan_csv(path, glob=False, try_parse_dates=True, infer_schema_length=_ROWS_TO_INFER_TYPES)
    if path.suffix in (".jsonl", ".ndjson"):
        return pl.scan_ndjson(path, infer_schema_length=_ROWS_TO_INFER_TYPES)
    raise ConfigError(f"{path}: {path.suffix!r} is not the suffix of a table ({' '.join(TABLE_SUFFIXES)})")


def _depth(dtype: pl.DataType) -> int:
    inner = getattr(dtype, "inner", None)
    return 0 if inner is None else 1 + _depth(inner)


def _leaf(dtype: pl.DataType) -> pl.DataType:
    inner = getattr(dtype, "inner", None)
    return dtype if inner is None else _leaf(inner)


def _numpy_dtype(dtype: pl.DataType) -> np.dtype[Any]:
    import polars as pl

    empty: NDArray[Any] = pl.Series(dtype=_leaf(dtype)).to_numpy()
    return empty.dtype


def _is_numeric(dtype: pl.DataType) -> bool:
    import polars as pl

    leaf = _leaf(dtype)
    return leaf.is_integer() or leaf.is_float() or leaf == pl.Boolean


def _is_binary(dtype: pl.DataType) -> bool:
    import polars as pl

    return dtype == pl.Binary


def _is_text(dtype: pl.DataType) -> bool:
    import polars as pl

    return dtype in (pl.Binary, pl.String)


def _is_single(dtype: pl.DataType) -> bool:
    import polars as pl

    plain = dtype in (pl.String, pl.Categorical, pl.Enum)
    return plain or dtype.is_temporal() or (_is_numeric(dtype) and not dtype.is_nested())
