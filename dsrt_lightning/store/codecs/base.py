"""What a codec is: it turns a sample into the bytes of a record and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

Buffer: TypeAlias = "bytes | bytearray | memoryview | NDArray[Any]"
JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"


class Codec(ABC):
    """Turns samples into records and back.

    A codec used for building learns its schema from its first sample and is used for one source; a codec made by
    ``from_schema`` only decodes, is immutable, and may be used by many threads.

    Attributes:
        name: What a manifest calls the codec; the entry point's name in the group ``dsrt_lightning.codecs``.
        alignment: Every record starts at a multiple of this many bytes, a power of two up to 4096.
        needs_trust: Reading a record may run code of whoever wrote it, so opening needs ``allow_pickle=True``.
        gives_views: Decoding leaves most bytes of a record unread, because samples are views of them.
    """

    name: ClassVar[str]
    alignment: ClassVar[int] = 1
    needs_trust: ClassVar[bool] = False
    gives_views: bool = False

    @abstractmethod
    def encode(self, sample: object) -> Sequence[Buffer]:
        """Return C-contiguous buffers which, one after the other, are the record.

        The buffers may share memory with the sample; they are read before the next call.

        Raises:
            EncodeError: The sample cannot be stored, or does not fit the samples before it.
        """

    @abstractmethod
    def decode(self, record: memoryview) -> Any:
        """Return the sample; its arrays are read-only views of ``record`` where possible.

        Raises:
            DecodeError: The record does not fit the schema.
        """

    @abstractmethod
    def schema(self) -> dict[str, JSON]:
        """Return what ``from_schema`` needs, for the manifest; call it after the last ``encode``."""

    @classmethod
    @abstractmethod
    def from_schema(cls, schema: Mapping[str, JSON], where: str) -> Self:
        """Make the decoder of a stored cache.

        Raises:
            CorruptCacheError: ``schema`` is not what ``schema()`` returns; the message begins with ``where``.
        """

    @abstractmethod
    def fresh(self) -> Self:
        """Return a codec with the same options that has not seen a sample."""

    def accepts(self, schema: Mapping[str, JSON]) -> bool:
        """Return whether a cache stored with ``schema`` is one that this codec, with its options, could have built."""
        return True

    def __repr__(self) -> str:
        """Return the codec with its options, for messages."""
        return f"{type(self).__name__}()"
