"""From one value of a sample to the bytes of one field: what is accepted, what is refused and why."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsrt_lightning.errors import EncodeError
from dsrt_lightning.store.codecs.arrays_layout import DTYPES, ArrayField
from dsrt_lightning.store.codecs.base import Buffer

_PYTHON_DTYPES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_STORED = {dtype: dtype for dtype in DTYPES.values()}  # A dtype's name takes microseconds to make.
_STRUCT_CODES = {
    **{"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
    **{"float16": "e", "float32": "f", "float64": "d"},
}
# The Python numbers that a field of a NumPy kind takes. A bool is not a number here.
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    **{"b": (bool,), "i": (int,), "u": (int,), "f": (float, int), "c": (complex, float, int)}
}


def infer_field(name: str, value: object, ragged_axes: frozenset[int]) -> ArrayField:
    """Return the field that holds ``value`` and, along ``ragged_axes``, values of other lengths.

    Raises:
        EncodeError: The value is not an array or number, or has no such axis.
    """
    array = _as_array(name, value)
    dtype, shape = array.dtype, array.shape
    if wrong := sorted(axis for axis in ragged_axes if not 0 <= axis < len(shape)):
        raise EncodeError(
            f"{name}: ragged axes {wrong} do not exist, the value has {len(shape)} axes, [0, {len(shape)})"
        )
    return ArrayField(name, dtype, tuple(None if axis in ragged_axes else length for axis, length in enumerate(shape)))


def field_encoder(field: ArrayField) -> Callable[[Any], Buffer]:
    """Return a function from a value to the field's bytes; it raises EncodeError for a value that does not fit."""
    return _scalar_encoder(field) if field.shape == () else _array_encoder(field)


def _array_encoder(field: ArrayField) -> Callable[[Any], Buffer]:
    name, dtype, shape = field.name, field.dtype, field.shape
    # A field of one ragged axis takes any vector, and nothing else has to be looked at.
    fixed_shape = None if field.ragged_axes else shape
    is_vector = shape == (None,)

    def fits(found: tuple[int, ...]) -> bool:
        return len(found) == len(shape) and all(n is None or n == m for n, m in zip(shape, found, strict=True))

    def encode(value: Any) -> Buffer:
        # This condition is all that well-prepared samples cost.
        if (
            type(value) is np.ndarray
            and value.dtype is dtype
            and (value.shape == fixed_shape or (is_vector and value.ndim == 1) or fits(value.shape))
            and value.flags.c_contiguous
        ):
            return value
        array = _as_array(name, value)
        if array.dtype != dtype:
            raise EncodeError(f"{name}: the dtype is {array.dtype} but {dtype} in the schema; convert it")
        if not fits(array.shape):
            raise EncodeError(_shape_problem(field, array.shape))
        return np.ascontiguousarray(array)

    return encode


def _shape_problem(field: ArrayField, found: tuple[int, ...]) -> str:
    expected = ", ".join("any" if length is None else str(length) for length in field.shape)
    text = f"{field.name}: the shape is {list(found)} but [{expected}] in the schema"
    if len(found) != len(field.shape):
        return f"{text}; all samples must have the same number of axes"
    axes = [axis for axis, length in enumerate(field.shape) if length is None or length != found[axis]]
    return f"{text}; pad it, or build with ArraysCodec(ragged={{{field.name!r}: {axes}}})"


def _scalar_encoder(field: ArrayField) -> Callable[[Any], Buffer]:
    name, dtype = field.name, field.dtype
    accepted = _PYTHON_TYPES[dtype.kind]
    if dtype.kind == "c":
        pack: Callable[[Any], bytes] = lambda value: np.array(value, dtype).tobytes()  # noqa: E731
    else:
        pack = struct.Struct(f"<{_STRUCT_CODES[dtype.name]}").pack

    def encode(value: Any) -> Buffer:
        if type(value) in accepted:
            try:
                return pack(value)
            except (struct.error, OverflowError) as error:
                raise EncodeError(f"{name}: {value} does not fit {dtype}: {error}") from error
        array = _as_array(name, value)
        if array.dtype != dtype:
            raise EncodeError(f"{name}: the dtype is {array.dtype} but {dtype} in the schema; convert it")
        if array.shape != ():
            raise EncodeError(_shape_problem(field, array.shape))
        return array.tobytes()

    return encode


def _as_array(name: str, value: Any) -> NDArray[Any]:
    """Return the value as an array of one of the stored dtypes, little-endian."""
    if type(value) in _PYTHON_DTYPES:
        return np.array(value, _PYTHON_DTYPES[type(value)])
    if not isinstance(value, np.ndarray | np.generic) and not hasattr(value, "__array__"):
        raise EncodeError(f"{name} is a {type(value).__name__}; {_advice(value)}")
    try:
        array = np.asarray(value)
    except Exception as error:  # A foreign __array__ may raise anything, as a CUDA tensor's does.
        raise EncodeError(f"{name}: a {type(value).__name__} gives no array: {error}") from error
    if (stored := _STORED.get(array.dtype) or DTYPES.get(array.dtype.name)) is None:
        raise EncodeError(
            f"{name}: the dtype is {array.dtype} but must be one of {', '.join(DTYPES)}; {_advice(value)}"
        )
    return array.astype(stored, copy=False)


def _advice(value: object) -> str:
    if isinstance(value, list | tuple):
        return "make it an array with the dtype you want, as in numpy.asarray(value, dtype='int64')"
    if isinstance(value, bytes | bytearray | memoryview):
        return "store it as numpy.frombuffer(value, dtype='uint8')"
    return "store numbers here, text in the metadata, or use codec 'pickle'"
