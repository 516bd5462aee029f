"""The encoder of codec `arrays`, compiled once for a schema because it runs once a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from dsrt_lightning.errors import EncodeError
from dsrt_lightning.store.codecs.arrays_fields import field_encoder
from dsrt_lightning.store.codecs.arrays_layout import ArraysLayout
from dsrt_lightning.store.codecs.base import Buffer
from dsrt_lightning.store.codecs.nesting import flatten

_ZEROS = [bytes(n) for n in range(16)]


class ArraysEncoder:
    """Turns samples that fit ``layout`` into the parts of a record."""

    def __init__(self, layout: ArraysLayout) -> None:
        self._layout = layout
        self._names = [field.name for field in layout.fields]
        encoders = [field_encoder(field) for field in layout.fields]
        self._pack_lengths = Struct(f"<{layout.num_ragged_axes}Q").pack
        self._encoders = list(zip(self._names, encoders, strict=True))
        self._padded_encoders: list[tuple[str, bytes, Callable[[Any], Buffer]]] | None = None
        if layout.fixed:
            starts = [placed.offset for placed in layout.fixed[0]]
            ends = [0, *(placed.end for placed in layout.fixed[0])]
            padding = [_ZEROS[start - end] for start, end in zip(starts, ends, strict=False)]
            self._padded_encoders = list(zip(self._names, padding, encoders, strict=True))

    def __call__(self, sample: object) -> list[Buffer]:
        """Return the parts; raises EncodeError for a sample that does not fit."""
        values = flatten(sample) if self._layout.is_nested or type(sample) is not dict else sample
        if len(values) != len(self._names):
            raise self._other_fields(values)
        try:
            return self._encode_ragged(values) if self._padded_encoders is None else self._encode_fixed(values)
        except KeyError:
            raise self._other_fields(values) from None

    def _encode_fixed(self, values: Mapping[str, Any]) -> list[Buffer]:
        parts: list[Buffer] = []
        for name, padding, encode in self._padded_encoders or ():
            if padding:
                parts.append(padding)
            parts.append(encode(values[name]))
        return parts

    def _encode_ragged(self, values: Mapping[str, Any]) -> list[Buffer]:
        encoded: list[Any] = [encode(values[name]) for name, encode in self._encoders]
        lengths = [
            array.shape[axis]
            for field, array in zip(self._layout.fields, encoded, strict=True)
            for axis in field.ragged_axes
        ]
        parts: list[Buffer] = [self._pack_lengths(*lengths)]
        end = 8 * len(lengths)
        for placed, buffer in zip(self._layout.place(lengths)[0], encoded, strict=True):
            parts += (_ZEROS[placed.offset - end], buffer)
            end = placed.end
        return parts

    def _other_fields(self, values: Mapping[str, Any]) -> EncodeError:
        missing = [name for name in self._names if name not in values]
        added = [name for name in values if name not in self._names]
        return EncodeError(
            f"the sample lacks {missing} and adds {added}; every sample must have the fields {self._names}"
        )
