"""Where the fields of an `arrays` record lie, and the schema that says so.

*Part of the format.* All numbers are little-endian, offsets count from the start of the record:

    u64 length of a ragged axis          one each, in the order of fields and axes; nothing if there are none
    zeros to a multiple of its itemsize, the field's elements in C order          for each field

The record ends with the last byte of its last field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from dsrt_lightning.errors import CorruptCacheError, DecodeError
from dsrt_lightning.store.codecs.base import JSON
from dsrt_lightning.store.codecs.nesting import clash
from dsrt_lightning.store.lazy import lazy_property

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
Shape = tuple["int | None", ...]
MAX_AXES = 32  # NumPy 1.26's limit
MAX_BYTES = 2**62  # of a record; the native core has the same limit


@dataclass(frozen=True)
class ArrayField:
    """One named array of every sample.

    Args:
        name: Nested fields are named ``outer.inner``.
        dtype: One of ``DTYPES``.
        shape: Lengths of the axes; None where the length differs from sample to sample.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape

    @property
    def ragged_axes(self) -> tuple[int, ...]:
        """The axes whose length each record states."""
        return tuple(axis for axis, length in enumerate(self.shape) if length is None)


class Placed(NamedTuple):
    """A field of one record: ``offset`` in bytes and the record's own ``shape``."""

    field: ArrayField
    offset: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """The byte after the field's last."""
        return self.offset + prod(self.shape) * self.field.dtype.itemsize


@dataclass(frozen=True)
class ArraysLayout:
    """The fields in stored order."""

    fields: tuple[ArrayField, ...]

    @lazy_property
    def num_ragged_axes(self) -> int:
        """How many lengths stand at the start of a record."""
        return sum(len(field.ragged_axes) for field in self.fields)

    @lazy_property
    def is_nested(self) -> bool:
        """Whether samples hold dicts inside dicts."""
        return any("." in field.name for field in self.fields)

    @lazy_property
    def fixed(self) -> tuple[list[Placed], int] | None:
        """The placement shared by all records, or None if there is a ragged axis."""
        return None if self.num_ragged_axes else self.place(())

    def place(self, lengths: Sequence[int]) -> tuple[list[Placed], int]:
        """Return where every field lies, and the record's size in bytes.

        Args:
            lengths: Of the ragged axes, in the order of fields and axes.
        """
        remaining = iter(lengths)
        end = 8 * self.num_ragged_axes
        placed = []
        for field in self.fields:
            shape = tuple([next(remaining) if length is None else length for length in field.shape])
            placed.append(Placed(field, end + -end % field.dtype.itemsize, shape))
            end = placed[-1].end
        return placed, end

    def locate(self, record: memoryview) -> list[Placed]:
        """Return where every field of ``record`` lies.

        Raises:
            DecodeError: The record's size is not what its fields take, or no array has the shape that it states.
        """
        if self.fixed:
            placed, size = self.fixed
        else:
            header_bytes = 8 * self.num_ragged_axes
            if len(record) < header_bytes:
                raise DecodeError(f"the record has {len(record)} bytes but its ragged lengths take {header_bytes}")
            placed, size = self.place(record[:header_bytes].cast("Q").tolist())
            _check_empty_arrays(placed)
        if size != len(record):
            raise DecodeError(f"the record has {len(record)} bytes but its fields take {size}")
        return placed

    def to_json(self) -> dict[str, JSON]:
        """Return the schema as the manifest keeps it."""
        return {
            "fields": [
                {"name": field.name, "dtype": field.dtype.name, "shape": list(field.shape)} for field in self.fields
            ]
        }

    @classmethod
    def from_json(cls, schema: Mapping[str, JSON], where: str) -> ArraysLayout:
        """Return the layout of a stored schema.

        Raises:
            CorruptCacheError: It is not a schema; the message begins with ``where`` and names the part.
        """
        fields = schema.get("fields")
        if set(schema) != {"fields"} or not isinstance(fields, list):
            raise CorruptCacheError(
                f"{where}: codec.schema must have a list 'fields' and nothing else, found {schema!r}"
            )
        layout = cls(tuple(_field(entry, f"{where}: codec.schema.fields[{i}]") for i, entry in enumerate(fields)))
        if problem := layout.problem():
            raise CorruptCacheError(f"{where}: codec.schema.fields: {problem}")
        return layout

    def problem(self) -> str | None:
        """Return why no samples can have these fields, or None if they can."""
        if not self.fields:
            return "there is no field; at least one is needed"
        total_bytes = 0
        for field in self.fields:
            if len(field.shape) > MAX_AXES:
                return f"{field.name!r} has {len(field.shape)} axes but at most {MAX_AXES} are possible"
            wrong = [n for n in field.shape if n is not None and (type(n) is not int or n < 0)]
            if wrong:
                return f"{field.name!r} has the length {wrong[0]!r}; a length is None or an integer >= 0"
            # An axis of length 0 or any length leaves the others to be checked.
            total_bytes += prod(n or 1 for n in field.shape) * field.dtype.itemsize
            if total_bytes > MAX_BYTES:
                return f"with {field.name!r} the record takes {total_bytes} bytes but at most {MAX_BYTES} are possible"
        return clash([field.name for field in self.fields])


def _check_empty_arrays(placed: Sequence[Placed]) -> None:
    """Refuse lengths that no array has; beside a length of 0, the record's size says nothing about the others."""
    for field, _, shape in placed:
        if 0 in shape and prod(length or 1 for length in shape) * field.dtype.itemsize > MAX_BYTES:
            raise DecodeError(f"{field.name!r} has the shape {list(shape)}, which no array can have")


def _field(entry: JSON, where: str) -> ArrayField:
    if not isinstance(entry, dict) or set(entry) != {"name", "dtype", "shape"}:
        raise CorruptCacheError(f"{where} must have 'name', 'dtype' and 'shape', found {entry!r}")
    name, dtype, shape = entry["name"], entry["dtype"], entry["shape"]
    if not isinstance(name, str):
        raise CorruptCacheError(f"{where}.name must be a string, found {name!r}")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise CorruptCacheError(f"{where}.dtype is {dtype!r} but must be one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not all(length is None or type(length) is int for length in shape):
        raise CorruptCacheError(f"{where}.shape must be a list of integers and nulls, found {shape!r}")
    return ArrayField(name, DTYPES[dtype], tuple(cast("list[int | None]", shape)))
