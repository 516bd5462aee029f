"""One column of metadata.arrow while its values arrive."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dsrt_lightning.store.metadata_schema import GivenColumn
from dsrt_lightning.store.metadata_types import TypeConflict, check_values, infer_type, promote, type_name

_CONVERSION_ERRORS = (TypeConflict, pa.ArrowException, OverflowError, TypeError, ValueError)


class BadValueError(Exception):
    """A value does not fit its column.

    Attributes:
        row: Its index among the values that were to be converted.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class ColumnBuilder:
    """Turns the values of a column into arrays, and widens its type as they need it.

    Attributes:
        name: Of the column.
        type: Of the arrays made so far; null at the start, or the given one.
    """

    def __init__(self, name: str, given: GivenColumn | None) -> None:
        self.name = name
        self.type = pa.null() if given is None else given.arriving
        self._given = given

    def field(self) -> pa.Field:
        """Return the column as it stands in the finished file."""
        return self._given.field if self._given is not None else pa.field(self.name, self.type)

    def type_name(self) -> str:
        """Return the name of the type in the manifest."""
        return self._given.type_name if self._given is not None else type_name(self.type)

    def choices(self) -> tuple[str, ...] | None:
        """Return the values of an Enum, None for any other type."""
        return self._given.choices if self._given is not None else None

    def to_array(self, values: Sequence[object]) -> pa.Array:
        """Return the values as an array of ``type``, after widening it.

        Raises:
            BadValueError: The first value that does not fit.
        """
        try:
            array = self._convert(values, self.type)
        except _CONVERSION_ERRORS:
            # A prefix converts if and only if it ends before the first bad value, so that is found by bisection.
            bad = bisect_left(range(len(values)), True, key=lambda row: not self._converts(values[: row + 1]))
            raise self._bad_value(values, bad) from None
        self.type = array.type
        return array

    def _convert(self, values: Sequence[object], before: pa.DataType) -> pa.Array:
        if self._given is None:
            arrow_type = promote(before, infer_type(values))
        else:
            check_values(values, self._given.field.type)
            arrow_type = before
        if pa.types.is_large_list(arrow_type):
            # Arrow takes no NumPy array of several axes as a list.
            values = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
        array = pa.array(values, type=arrow_type)
        if (choices := self.choices()) is not None:
            unknown = array.filter(pc.invert(pc.is_in(array, pa.array([*choices, None], pa.large_string()))))
            if len(unknown):
                raise TypeConflict(f"is {unknown[0].as_py()!r} but metadata_schema says one of {list(choices)}")
        return array

    def _converts(self, values: Sequence[object]) -> bool:
        try:
            self._convert(values, self.type)
        except _CONVERSION_ERRORS:
            return False
        return True

    def _bad_value(self, values: Sequence[object], bad: int) -> BadValueError:
        before = self._convert(values[:bad], self.type).type
        column = f"metadata column {self.name!r}"
        try:
            self._convert(values[bad : bad + 1], before)
        except TypeConflict as error:
            return BadValueError(bad, f"{column} {error}; make its values alike or give metadata_schema")
        except _CONVERSION_ERRORS as error:
            shown = type_name(before) if not pa.types.is_null(before) else "any metadata type"
            return BadValueError(bad, f"{column}: {values[bad]!r} does not fit {shown} ({error}); give metadata_schema")
        return BadValueError(
            bad, f"{column} is a float but an integer before has no exact float; make all values floats"
        )
