"""Which value of a column each row has, as codes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from dsrt_lightning.errors import MetadataError
from dsrt_lightning.population.wording import missing_column

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


def require_column(columns: Collection[str], column: str) -> None:
    """Refuse a group column that is not there.

    Raises:
        MetadataError: With the columns that are.
    """
    if column not in columns:
        raise MetadataError(f"groups: {missing_column(column, columns)}")


def group_codes(frame: pl.DataFrame, column: str) -> tuple[NDArray[np.int32], list[Any]]:
    """Return int32 ``[P]`` codes, read-only, and the values that they index, sorted, None last.

    Raises:
        MetadataError: There is no such column, or its values are not bools, integers, text or categories.
    """
    import polars as pl

    require_column(frame.columns, column)
    values = frame.get_column(column)
    if values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    if not (values.dtype.is_integer() or values.dtype in (pl.String, pl.Boolean)):
        raise MetadataError(
            f"group column {column!r} is {values.dtype}; only bools, integers, text and categories make groups"
        )
    known = values.unique().drop_nulls().sort()
    numbers = pl.int_range(len(known), dtype=pl.Int32, eager=True)
    codes = values.replace_strict(known, numbers, default=len(known), return_dtype=pl.Int32).to_numpy(writable=True)
    codes.flags.writeable = False
    return codes, [*known.to_list(), *([None] if values.null_count() else [])]
