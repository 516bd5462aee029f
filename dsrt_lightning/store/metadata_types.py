"""Which types metadata may have, and how a column's type follows from its values.

Without a given schema a column has the narrowest of these types that holds all its values: null, bool, int64, float64
(also where ints and floats are mixed), string, date, time, datetime in microseconds (in the values' zone), duration,
or a list of one of these. The type does not depend on where chunks end.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from functools import cache, reduce
from itertools import chain

import numpy as np
import pyarrow as pa

# The type of each kind of value; datetimes and lists depend on the values.
_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "string": pa.string_view(),
    "date": pa.date32(),
    "time": pa.time64("ns"),
    "duration": pa.duration("us"),
}
# The first match counts: a bool is an int and a datetime is a date to Python.
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    ((bool, np.bool_), "bool"),
    ((int, np.integer), "int"),
    ((float, np.floating), "float"),
    (str, "string"),
    (dt.datetime, "datetime"),
    (dt.date, "date"),
    (dt.time, "time"),
    (dt.timedelta, "duration"),
    ((list, tuple, np.ndarray), "list"),
)
ALLOWED = "None, bools, numbers, strings, dates, times, datetimes, durations and lists of these"


class TypeConflict(Exception):
    """Values of different types stand in one column, or a value has none of the types."""


@cache
def kind_of(python_type: type) -> str:
    """Return what a value of this type is as metadata.

    Raises:
        TypeConflict: It is nothing that metadata may be.
    """
    for types, kind in _KINDS:
        # NumPy's timedelta64 counts as one of its integers.
        if issubclass(python_type, types) and not issubclass(python_type, np.timedelta64):
            return kind
    raise TypeConflict(f"is a {python_type.__name__} but metadata are {ALLOWED}")


def infer_type(values: Sequence[object]) -> pa.DataType:
    """Return the type of a column that holds ``values``.

    Raises:
        TypeConflict: There is none.
    """
    found = (_types(kind_of(python_type), values) for python_type in set(map(type, values)))
    return reduce(promote, chain.from_iterable(found), pa.null())


def promote(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the type that holds what either holds: of null and any, of int64 and float64, of lists by their items.

    Raises:
        TypeConflict: There is none.
    """
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if {first, second} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_large_list(first) and pa.types.is_large_list(second):
        return pa.large_list(promote(first.value_type, second.value_type))
    raise TypeConflict(f"is {type_name(second)} but {type_name(first)} in the records before")


def check_values(values: Sequence[object], target: pa.DataType) -> None:
    """Refuse values of another kind than a given type holds; Arrow itself would turn 1.5 into an integer.

    Raises:
        TypeConflict: Naming both.
    """
    accepted = _accepted_kind(target)
    for kind in {kind_of(python_type) for python_type in set(map(type, values))}:
        if kind not in (accepted, "null") and (kind, accepted) != ("int", "float"):
            raise TypeConflict(f"is a {kind} but metadata_schema says {type_name(target)}")
    if accepted == "list":
        check_values(_items(values), target.value_type)
    if accepted == "datetime":
        for value in values:
            if isinstance(value, dt.datetime) and (value.tzinfo is None) != (target.tz is None):
                zone = "no zone" if value.tzinfo is None else "a zone"
                raise TypeConflict(f"is a datetime with {zone} but metadata_schema says {type_name(target)}")


def type_name(arrow_type: pa.DataType, choices: Sequence[str] = ()) -> str:
    """Return the name of a metadata type, of an enum with its ``choices``. *Part of the format.*

    Raises:
        TypeConflict: Metadata cannot have this type.
    """
    if pa.types.is_dictionary(arrow_type):
        return f"enum{json.dumps(list(choices))}" if arrow_type.ordered else "category"
    if pa.types.is_large_list(arrow_type) and not pa.types.is_dictionary(arrow_type.value_type):
        return f"list[{type_name(arrow_type.value_type)}]"
    if pa.types.is_timestamp(arrow_type):
        return f"datetime[{arrow_type.unit}{f', {arrow_type.tz}' if arrow_type.tz else ''}]"
    if pa.types.is_duration(arrow_type):
        return f"duration[{arrow_type.unit}]"
    if pa.types.is_integer(arrow_type):
        return str(arrow_type)
    names = {pa.float32(): "float32", pa.float64(): "float64", pa.bool_(): "bool", pa.null(): "null"}
    names |= {pa.string_view(): "string", pa.large_string(): "string", pa.date32(): "date", pa.time64("ns"): "time"}
    if arrow_type in names:
        return names[arrow_type]
    raise TypeConflict(f"has the type {arrow_type} but metadata are {ALLOWED}")


def _types(kind: str, values: Sequence[object]) -> Iterable[pa.DataType]:
    """Return the types of those values that are of ``kind``."""
    if kind == "datetime":
        return {pa.timestamp("us", _zone(value)) for value in values if isinstance(value, dt.datetime)}
    return (pa.large_list(infer_type(_items(values))) if kind == "list" else _PLAIN[kind],)


def _items(values: Sequence[object]) -> list[object]:
    """Return what is in the lists among ``values``."""
    return list(chain.from_iterable(value for value in values if isinstance(value, list | tuple | np.ndarray)))


def _zone(value: dt.datetime) -> str | None:
    if value.tzinfo is None:
        return None
    zone = str(pa.lib.tzinfo_to_string(value.tzinfo))
    # Polars knows no fixed offsets; the instant is what counts.
    return "UTC" if zone[0] in "+-" else zone


def _accepted_kind(target: pa.DataType) -> str:
    if pa.types.is_integer(target):
        return "int"
    if pa.types.is_floating(target):
        return "float"
    if pa.types.is_timestamp(target):
        return "datetime"
    if pa.types.is_duration(target):
        return "duration"
    if pa.types.is_large_list(target):
        return "list"
    return next((kind for kind, plain in _PLAIN.items() if plain == target), "string")
