"""Codec `arrays`: dicts of named arrays and scalars, viewed in place and gathered natively."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from dsrt_lightning.errors import EncodeError
from dsrt_lightning.store.codecs.arrays_encoder import ArraysEncoder
from dsrt_lightning.store.codecs.arrays_fields import infer_field
from dsrt_lightning.store.codecs.arrays_layout import DTYPES, ArrayField, ArraysLayout
from dsrt_lightning.store.codecs.base import JSON, Buffer, Codec
from dsrt_lightning.store.codecs.nesting import flatten, nest

if TYPE_CHECKING:
    from typing_extensions import Self

    from dsrt_lightning._core import RecordLayout

__all__ = ["ArrayField", "ArraysCodec"]


class ArraysCodec(Codec):
    """Stores dicts of arrays and numbers, nested as deep as wanted.

    Values are NumPy arrays and scalars, Python bools, ints, floats and complex numbers, or anything with
    ``__array__``, such as a CPU tensor. They come back as read-only arrays, numbers as NumPy scalars. All samples have
    the same keys, dtypes and shapes, except along ragged axes.

    Args:
        schema: Name to ``(dtype, shape)``, None in a shape for a ragged axis; without it the first sample decides
            (Python numbers become bool, int64, float64 or complex128). A nested field is named ``outer.inner``.
        ragged: Without ``schema``: name to the axes whose length differs from sample to sample.
    """

    name: ClassVar[str] = "arrays"
    alignment: ClassVar[int] = 16
    gives_views = True

    def __init__(
        self,
        schema: Mapping[str, tuple[DTypeLike, Sequence[int | None]]] | None = None,
        ragged: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        if schema is not None and ragged is not None:
            raise ValueError("ArraysCodec: give schema or ragged; in a schema None marks a ragged axis")
        self._ragged = {name: frozenset(axes) for name, axes in (ragged or {}).items()}
        self._given = None if schema is None else _layout_of(schema)
        self._layout = self._given
        self._encoder: ArraysEncoder | None = None

    @property
    def fields(self) -> tuple[ArrayField, ...]:
        """The fields in stored order; a codec without a schema has them after its first sample."""
        return self._known_layout().fields

    def layout(self) -> RecordLayout:
        """Return the fields as the native reader takes them."""
        from dsrt_lightning._core import RecordLayout

        return RecordLayout([(field.name, field.dtype.itemsize, field.shape) for field in self.fields])

    def encode(self, sample: object) -> Sequence[Buffer]:
        """Return the fields' bytes in stored order with the zeros between them."""
        if self._encoder is None:
            self._layout = self._layout or self._infer(sample)
            self._encoder = ArraysEncoder(self._layout)
        return self._encoder(sample)

    def decode(self, record: memoryview) -> dict[str, Any]:
        """Return the nested dict of read-only views."""
        layout = self._known_layout()
        sample: dict[str, Any] = {}
        for field, offset, shape in layout.locate(record):
            array: Any = np.ndarray(shape, field.dtype, record, offset)
            sample[field.name] = array if shape else array[()]
        return nest(sample) if layout.is_nested else sample

    def schema(self) -> dict[str, JSON]:
        """Return names, dtypes and shapes."""
        return self._known_layout().to_json()

    @classmethod
    def from_schema(cls, schema: Mapping[str, JSON], where: str) -> Self:
        """Make the codec of a stored cache."""
        codec = cls()
        codec._given = codec._layout = ArraysLayout.from_json(schema, where)
        return codec

    def fresh(self) -> Self:
        """Return a codec with the same options that has not seen a sample."""
        codec = type(self)()
        codec._ragged, codec._given, codec._layout = self._ragged, self._given, self._given
        return codec

    def accepts(self, schema: Mapping[str, JSON]) -> bool:
        """Return whether the stored schema is the given one, or has exactly the ragged axes that were asked for."""
        stored = ArraysLayout.from_json(schema, "manifest.json")
        if self._given is not None:
            return stored == self._given
        ragged = {field.name: frozenset(field.ragged_axes) for field in stored.fields if field.ragged_axes}
        return ragged == {name: axes for name, axes in self._ragged.items() if axes}

    def __repr__(self) -> str:
        if self._given is not None:
            fields = ", ".join(f"{f.name!r}: ({f.dtype.name!r}, {f.shape})" for f in self._given.fields)
            return f"ArraysCodec(schema={{{fields}}})"
        ragged = {name: sorted(axes) for name, axes in self._ragged.items()}
        return f"ArraysCodec(ragged={ragged})" if ragged else "ArraysCodec()"

    def _known_layout(self) -> ArraysLayout:
        if self._layout is None:
            raise ValueError("ArraysCodec: the fields are not known before the first sample; encode one or give schema")
        return self._layout

    def _infer(self, sample: object) -> ArraysLayout:
        leaves = flatten(sample)
        if not leaves:
            raise EncodeError("the sample is an empty dict; codec 'arrays' needs at least one field")
        if unknown := sorted(self._ragged.keys() - leaves.keys()):
            raise EncodeError(
                f"ArraysCodec(ragged=...) names {unknown} but the sample has {sorted(leaves)}; correct the names"
            )
        return ArraysLayout(
            tuple(infer_field(name, value, self._ragged.get(name, frozenset())) for name, value in leaves.items())
        )


def _layout_of(schema: Mapping[str, tuple[DTypeLike, Sequence[int | None]]]) -> ArraysLayout:
    fields = []
    for name, (dtype, shape) in schema.items():
        if np.dtype(dtype).name not in DTYPES:
            raise ValueError(
                f"ArraysCodec: {name} has dtype {np.dtype(dtype)} but must have one of {', '.join(DTYPES)}"
            )
        fields.append(ArrayField(name, DTYPES[np.dtype(dtype).name], tuple(shape)))
    layout = ArraysLayout(tuple(fields))
    if problem := layout.problem():
        raise ValueError(f"ArraysCodec: schema: {problem}")
    return layout
