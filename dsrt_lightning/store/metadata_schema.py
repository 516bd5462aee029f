"""Metadata types that the user fixes, given as Polars dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from dsrt_lightning.store.manifest import RESERVED_COLUMNS
from dsrt_lightning.store.metadata_types import TypeConflict, type_name

if TYPE_CHECKING:
    from polars._typing import PolarsDataType


@dataclass(frozen=True)
class GivenColumn:
    """A column whose type the user fixed.

    Attributes:
        field: As it stands in the finished file, with what Polars needs to read an Enum back.
        arriving: The type while rows arrive: categories are strings until all of them are known.
        choices: The values of an Enum in their order; None for any other type.
    """

    field: pa.Field
    arriving: pa.DataType
    choices: tuple[str, ...] | None

    @property
    def type_name(self) -> str:
        """The name of the type in the manifest."""
        return type_name(self.field.type, self.choices or ())


def given_columns(schema: Mapping[str, PolarsDataType] | None) -> dict[str, GivenColumn]:
    """Return the columns of ``metadata_schema``, which may name only some of a source's.

    Raises:
        ValueError: A name is reserved, or metadata cannot have the type.
    """
    return {name: _given_column(name, dtype) for name, dtype in (schema or {}).items()}


def _given_column(name: str, dtype: PolarsDataType) -> GivenColumn:
    import polars as pl

    if name in RESERVED_COLUMNS:
        raise ValueError(f"metadata_schema: {name!r} is reserved, as are {', '.join(RESERVED_COLUMNS)}; rename it")
    try:
        table = pl.DataFrame(schema={name: dtype}).to_arrow(compat_level=pl.CompatLevel.newest())
        type_name(table.schema.field(0).type)
    except (TypeConflict, pa.ArrowException) as error:
        raise ValueError(f"metadata_schema: {name!r} cannot be stored as {dtype}: {error}") from error
    field = table.schema.field(0)
    arriving = pa.large_string() if pa.types.is_dictionary(field.type) else field.type
    return GivenColumn(field, arriving, tuple(dtype.categories) if isinstance(dtype, pl.Enum) else None)
