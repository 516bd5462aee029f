"""Codec `bytes`: the record is the sample. Encoded media are kept this way and decoded by a transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from dsrt_lightning.errors import CorruptCacheError, EncodeError
from dsrt_lightning.store.codecs.base import JSON, Buffer, Codec

if TYPE_CHECKING:
    from typing_extensions import Self


class BytesCodec(Codec):
    """Stores ``bytes``, ``bytearray`` and contiguous ``memoryview`` as they are; gives ``bytes`` back."""

    name: ClassVar[str] = "bytes"

    def encode(self, sample: object) -> Sequence[Buffer]:
        """Return the sample itself as the only part."""
        if type(sample) is bytes or isinstance(sample, bytes | bytearray):
            return (sample,)
        if isinstance(sample, memoryview) and sample.c_contiguous:
            return (sample,)
        raise EncodeError(
            f"the sample is a {type(sample).__name__} but codec 'bytes' stores bytes; "
            "encode it yourself or use codec 'arrays' or 'pickle'"
        )

    def decode(self, record: memoryview) -> bytes:
        """Return a copy of the record."""
        return bytes(record)

    def schema(self) -> dict[str, JSON]:
        """Return an empty schema: there is nothing to know."""
        return {}

    @classmethod
    def from_schema(cls, schema: Mapping[str, JSON], where: str) -> Self:
        """Make the codec; the schema must be empty."""
        if schema:
            raise CorruptCacheError(f"{where}: codec.schema has {sorted(schema)} but codec 'bytes' has no schema")
        return cls()

    def fresh(self) -> Self:
        """Return another codec; there are no options."""
        return type(self)()
