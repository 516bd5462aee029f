"""Whether metadata.arrow holds what the manifest says."""

from __future__ import annotations

import pyarrow as pa

from dsrt_lightning.store.arrow_file import read_batches
from dsrt_lightning.store.cache import Cache
from dsrt_lightning.store.manifest import MetadataColumn
from dsrt_lightning.store.metadata_types import TypeConflict, type_name


def metadata_problem(cache: Cache) -> str | None:
    """Return what is not as the manifest says, or None; reads the whole file, a batch at a time."""
    num_rows = 0
    try:
        for batch in read_batches(cache.metadata_path):
            batch.validate(full=True)
            num_rows += batch.num_rows
            found, expected = tuple(map(_column, batch.schema, batch.columns)), cache.manifest.metadata_columns
            if found != expected:
                return f"the columns are {_listed(found)} but the manifest says {_listed(expected)}"
    except (pa.ArrowException, OSError, TypeConflict) as error:
        return f"cannot be read as metadata: {error}"
    if num_rows != cache.num_records:
        return f"has {num_rows} rows but the cache has {cache.num_records} records"
    return None


def _column(field: pa.Field, array: pa.Array) -> MetadataColumn:
    choices = array.dictionary.to_pylist() if pa.types.is_dictionary(field.type) and field.type.ordered else ()
    return MetadataColumn(field.name, type_name(field.type, choices))


def _listed(columns: tuple[MetadataColumn, ...]) -> str:
    return ", ".join(f"{column.name} {column.dtype}" for column in columns) or "none"
