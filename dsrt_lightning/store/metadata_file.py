"""metadata.arrow: one row a record, written in chunks while the records arrive. *Part of the format.*

An uncompressed Arrow IPC file, which Polars and PyArrow map without a copy. Its record batches have 65,536 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dsrt_lightning.errors import BuildError
from dsrt_lightning.store.arrow_file import ArrowFile, read_batches, rewrite
from dsrt_lightning.store.cache_file import naming
from dsrt_lightning.store.durable import sync_file
from dsrt_lightning.store.manifest import RESERVED_COLUMNS, MetadataColumn
from dsrt_lightning.store.metadata_column import BadValueError, ColumnBuilder
from dsrt_lightning.store.metadata_schema import GivenColumn

ROWS_PER_BATCH = 65_536


class MetadataWriter:
    """Writes the metadata of one source.

    Memory: the rows of one batch as Python objects; where the schema has categories, all distinct ones too.

    Args:
        path: The file; must not exist.
        given: Columns whose type is fixed; the others' types follow from their values.
        where: How error messages begin, ``source 'digits'``.
    """

    def __init__(self, path: Path, given: Mapping[str, GivenColumn], where: str) -> None:
        self.path = path
        self._given = given
        self._where = where
        self._names: list[str] = []
        self._num_names = -1  # of the first record, once it came
        self._columns: list[ColumnBuilder] = []
        # The buffered values row by row: many small tuples would keep the garbage collector busy.
        self._values: list[object] = []
        self._values_of: Callable[[Mapping[str, object]], Any]
        self._take: Callable[[Any], None] = self._values.append  # what `_values_of` gives
        self._values_per_row = 1
        self._values_per_batch = ROWS_PER_BATCH
        self._num_written = 0
        self._file: ArrowFile | None = None

    @property
    def num_rows(self) -> int:
        """How many rows were added."""
        return self._num_written + len(self._values) // self._values_per_row

    def add(self, row: Mapping[str, object]) -> None:
        """Take the metadata of the next record; the values are kept until their batch is full.

        Raises:
            BuildError: The keys are not those of the first record, or, when a batch is full, values do not fit.
        """
        if self._num_names < 0:
            self._begin(row)
        try:
            if len(row) != self._num_names:
                raise self._other_keys(row)
            self._take(self._values_of(row))
        except (KeyError, TypeError):
            raise self._other_keys(row) from None
        if len(self._values) == self._values_per_batch:
            self._write_batch()

    def finish(self) -> tuple[MetadataColumn, ...]:
        """Write what is left, make the file durable, and return its columns."""
        if self._values:
            self._write_batch()
        assert self._file is not None, "a cache has at least one record"
        with naming(self.path):
            self._file.close()
            schema = pa.schema([column.field() for column in self._columns])
            if any(pa.types.is_dictionary(field.type) for field in schema):
                self._to_categories(schema)
            sync_file(self.path)
        return tuple(MetadataColumn(column.name, column.type_name()) for column in self._columns)

    def close(self) -> None:
        """Close the file unfinished; its removal is the caller's. Does nothing after ``finish``."""
        if self._file is not None:
            self._file.discard()

    def _begin(self, row: Mapping[str, object]) -> None:
        if not isinstance(row, Mapping):
            raise BuildError(f"{self._where}: record 0: the metadata is a {type(row).__name__}, not a dict")
        names = list(row)
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise BuildError(f"{self._where}: record 0: metadata key {wrong[0]!r} is not a string; rename it")
        if reserved := [name for name in RESERVED_COLUMNS if name in names]:
            raise BuildError(
                f"{self._where}: record 0: metadata column {reserved[0]!r} is reserved, as are "
                f"{', '.join(RESERVED_COLUMNS)}; rename it"
            )
        if missing := [name for name in self._given if name not in names]:
            raise BuildError(
                f"{self._where}: record 0: metadata_schema names {missing} but the metadata has {names}; correct either"
            )
        self._names = names
        self._columns = [ColumnBuilder(name, self._given.get(name)) for name in names]
        if names:
            self._values_of = itemgetter(*names)
        else:  # A row without values would not be counted.
            self._values_of = lambda row: None
        if len(names) > 1:
            self._take = self._values.extend
        self._num_names = len(names)
        self._values_per_row = max(1, len(names))
        self._values_per_batch = ROWS_PER_BATCH * self._values_per_row

    def _other_keys(self, row: object) -> BuildError:
        number = f"{self._where}: record {self.num_rows}"
        if not isinstance(row, Mapping):
            return BuildError(f"{number}: the metadata is a {type(row).__name__}, not a dict")
        missing = [name for name in self._names if name not in row]
        added = [name for name in row if name not in self._names]
        return BuildError(
            f"{number}: the metadata lacks {missing} and adds {added}; every record must have the keys {self._names}"
        )

    def _write_batch(self) -> None:
        step, num_rows = self._values_per_row, len(self._values) // self._values_per_row
        try:
            arrays = [column.to_array(self._values[i::step]) for i, column in enumerate(self._columns)]
        except BadValueError as error:
            raise BuildError(f"{self._where}: record {self._num_written + error.row}: {error}") from error
        schema = pa.schema([(column.name, column.type) for column in self._columns])
        with naming(self.path):
            if self._file is None:
                self._file = ArrowFile(self.path, schema)
            elif self._file.schema != schema:
                self._widen(schema)
            self._file.write(arrays, num_rows)
        self._num_written += num_rows
        self._values.clear()

    def _widen(self, schema: pa.Schema) -> None:
        assert self._file is not None
        self._file.close()
        try:
            self._file = rewrite(
                self.path,
                schema,
                lambda arrays: [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)],
            )
        except pa.ArrowInvalid as error:
            raise BuildError(
                f"{self._where}: records [{self._num_written}, {self.num_rows}) have floats in a metadata column where "
                f"an integer before has no exact float ({error}); make all values floats"
            ) from error

    def _to_categories(self, schema: pa.Schema) -> None:
        """Replace the strings of categories by numbers, now that all of them are known."""
        found: dict[int, dict[str | None, None]] = {
            i: dict.fromkeys(column.choices() or ())
            for i, column in enumerate(self._columns)
            if pa.types.is_dictionary(schema.field(i).type)
        }
        for batch in read_batches(self.path):
            for i, categories in found.items():
                categories.update(dict.fromkeys(pc.unique(batch.column(i)).to_pylist()))
        strings = {
            i: pa.array([name for name in names if name is not None], pa.large_string()) for i, names in found.items()
        }
        targets = {i: schema.field(i).type for i in strings}
        dictionaries = {i: names.cast(targets[i].value_type) for i, names in strings.items()}

        def convert(arrays: list[pa.Array]) -> list[pa.Array]:
            for i, target in targets.items():
                indices = pc.index_in(arrays[i], value_set=strings[i]).cast(target.index_type)
                arrays[i] = pa.DictionaryArray.from_arrays(indices, dictionaries[i], ordered=target.ordered)
            return arrays

        rewrite(self.path, schema, convert).close()
