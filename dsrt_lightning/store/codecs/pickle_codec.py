"""Codec `pickle`: any Python object, its large buffers beside the pickle so that they are viewed in place.

*Part of the format.* All numbers are little-endian, offsets count from the start of the record:

    u64 number of buffers n
    u64 pickle bytes
    u64 bytes of buffer i            n times
    the pickle, protocol 5
    zeros to a multiple of 16, buffer i       n times

In band there are no buffers: the pickle holds everything.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar

from dsrt_lightning._core import split_pickle_record
from dsrt_lightning.errors import CorruptCacheError, DecodeError, EncodeError
from dsrt_lightning.store.codecs.base import JSON, Buffer, Codec

if TYPE_CHECKING:
    from typing_extensions import Self

_HEADER = Struct("<QQ")
_BUFFER_ALIGNMENT = 16
_PADDING = [bytes(-end % _BUFFER_ALIGNMENT) for end in range(_BUFFER_ALIGNMENT)]


class PickleCodec(Codec):
    """Stores what ``pickle`` can; NumPy arrays come back as read-only views of the record.

    Reading runs code of whoever wrote the cache, so opening one needs ``allow_pickle=True``.

    Args:
        in_band: Keep buffers inside the pickle: arrays come back writable and the caller's own, at the cost of a copy.
    """

    name: ClassVar[str] = "pickle"
    alignment: ClassVar[int] = _BUFFER_ALIGNMENT
    needs_trust: ClassVar[bool] = True

    def __init__(self, *, in_band: bool = False) -> None:
        self._in_band = in_band
        self.gives_views = not in_band

    def encode(self, sample: object) -> Sequence[Buffer]:
        """Return header, pickle and the out-of-band buffers with the zeros between them."""
        buffers: list[pickle.PickleBuffer] = []
        try:
            stream = pickle.dumps(sample, protocol=5, buffer_callback=None if self._in_band else buffers.append)
            raw = [buffer.raw() for buffer in buffers]
        except Exception as error:  # Any object's own __reduce__ may raise anything.
            raise EncodeError(f"a {type(sample).__name__} cannot be pickled: {error}") from error
        if not raw:
            return (_HEADER.pack(0, len(stream)), stream)
        sizes = [len(buffer) for buffer in raw]
        header = Struct(f"<{2 + len(sizes)}Q").pack(len(sizes), len(stream), *sizes)
        parts: list[Buffer] = [header, stream]
        end = len(header) + len(stream)
        for buffer, size in zip(raw, sizes, strict=True):
            padding = _PADDING[end % _BUFFER_ALIGNMENT]
            parts += (padding, buffer)
            end += len(padding) + size
        return parts

    def decode(self, record: memoryview) -> Any:
        """Return the object; runs the record's code."""
        stream, buffers = split_pickle_record(record) or split_record(record)
        try:
            return pickle.loads(stream, buffers=buffers)
        except Exception as error:  # The record's code may raise anything.
            raise DecodeError(f"the record does not unpickle: {type(error).__name__}: {error}") from error

    def schema(self) -> dict[str, JSON]:
        """Return ``{"in_band": true}`` or nothing: a pickle describes itself."""
        return {"in_band": True} if self._in_band else {}

    @classmethod
    def from_schema(cls, schema: Mapping[str, JSON], where: str) -> Self:
        """Make the codec of a stored cache."""
        if schema and (schema.keys() != {"in_band"} or schema["in_band"] is not True):
            raise CorruptCacheError(
                f"{where}: codec.schema is {schema} but codec 'pickle' has none, or 'in_band': true; "
                "restore or rebuild the cache"
            )
        return cls(in_band=bool(schema))

    def fresh(self) -> Self:
        """Return another codec with the same option."""
        return type(self)(in_band=self._in_band)

    def accepts(self, schema: Mapping[str, JSON]) -> bool:
        """Return whether the stored records keep their buffers where this codec does."""
        return schema == self.schema()

    def __repr__(self) -> str:
        return "PickleCodec(in_band=True)" if self._in_band else "PickleCodec()"


def split_record(record: memoryview) -> tuple[memoryview, list[memoryview]]:
    """Return the pickle and the buffers as the core does, or tell what is wrong.

    Every length is checked against the record before it is used.
    """
    if len(record) < _HEADER.size:
        raise DecodeError(f"the record has {len(record)} bytes but a pickle record's header has {_HEADER.size}")
    num_buffers, stream_bytes = _HEADER.unpack_from(record)
    header_bytes = _HEADER.size + 8 * num_buffers
    if header_bytes + stream_bytes > len(record):
        raise DecodeError(
            f"the record has {len(record)} bytes but states {num_buffers} buffers and {stream_bytes} bytes of pickle"
        )
    buffers = []
    end = header_bytes + stream_bytes
    for size in record[_HEADER.size : header_bytes].cast("Q"):
        start = end + -end % _BUFFER_ALIGNMENT
        end = start + size
        buffers.append(record[start:end])
    if end != len(record):
        raise DecodeError(f"the record has {len(record)} bytes but its pickle and buffers take {end}")
    return record[header_bytes : header_bytes + stream_bytes], buffers
