"""The native core: contracts of what ``csrc/bindings`` registers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

# --- Checksum (csrc/bindings/checksum.cpp) ---

def crc32c(data: Buffer, before: int = 0) -> int:
    """Return the CRC32C of C-contiguous ``data``, continuing from that of the bytes before; without the GIL."""

# --- Writer (csrc/bindings/shard_writer.cpp) ---

class ShardWriter:
    """Writes the records of one cache: packs, compresses and checksums them on native threads.

    One thread at a time may call ``append``, ``finish`` and ``abort``; the counts may be read from any.
    The bytes on disk depend on the records and options alone, not on ``threads`` or timing. A failure on
    a native thread is raised by the next ``append`` or ``finish``, and from then on.
    """

    def __init__(
        self,
        directory: str,
        *,
        shard_bytes: int,
        alignment: int,
        level: int | None,
        dictionary: bytes | None,
        threads: int,
        max_pending_bytes: int,
    ) -> None:
        """Create ``directory/index.bin`` and ``directory/shards/000000.bin``.

        Args:
            directory: Must contain a directory ``shards`` and none of the files.
            shard_bytes: A shard that is not empty is closed before a record would take it past this
                size; a larger record stays whole.
            alignment: Of each record's first byte in its shard, a power of two up to 4096.
            level: zstd's compression level; None stores records as they are.
            dictionary: zstd's; needs a ``level``.
            threads: Compress and checksum, besides the one that writes, in ``[1, 256]``.
            max_pending_bytes: ``append`` waits while more than this waits to be written.

        Raises:
            ValueError: An option is out of range.
            OSError: A file could not be created.
        """

    def append(self, parts: Sequence[Buffer]) -> None:
        """Take the next record: the C-contiguous ``parts`` one after the other, copied.

        Waits without the GIL while more than ``max_pending_bytes`` wait.

        Raises:
            TypeError: A part is not a buffer; BufferError or ValueError: it is not C-contiguous.
            ValueError: The writer is closed.
            RuntimeError: Another thread is in a call, or the process was forked from the writer's.
            OSError: An earlier record could not be written.
        """

    def finish(self) -> WriteSummary:
        """Write what waits, make files and directories durable, and close, also when this raises."""

    def abort(self) -> None:
        """Stop the threads and close the files, whose removal is the caller's; does nothing when closed."""

    @property
    def num_records(self) -> int: ...
    @property
    def raw_bytes(self) -> int:
        """Bytes of the records taken so far, before compression."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of the records written so far, after compression, without padding."""

class WriteSummary:
    """What ``ShardWriter.finish`` wrote."""

    @property
    def num_records(self) -> int: ...
    @property
    def raw_bytes(self) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def max_record_bytes(self) -> int:
        """Bytes of the largest record before compression."""

    @property
    def files(self) -> list[tuple[str, int, int]]:
        """Relative path, bytes and CRC32C of ``index.bin``, then of the shards in order."""

# --- Draws (csrc/bindings/draws.cpp) ---

def build_alias_table(weights: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the alias table of ``WeightedDraws``, uint64 ``[P, 2]`` for weights ``[P]``, in O(P).

    Raises:
        ValueError: A weight is not finite or not above 0.
    """

class Draws:
    """Which row each position of an epoch draws; a pure function, callable from any thread."""

    @property
    def num_rows(self) -> int: ...
    @property
    def epoch_length(self) -> int: ...
    def draw(self, epoch: int, pass_: int, start: int, count: int) -> NDArray[np.int64]:
        """Return the rows of positions ``[start, start + count)``, int64 ``[count]``, without the GIL.

        Raises:
            ValueError: Epoch or pass are not in ``[0, 2**32)``, or the positions do not lie in the epoch.
        """

class SequentialDraws(Draws):
    def __init__(self, num_rows: int, epoch_length: int) -> None: ...

class ShuffleDraws(Draws):
    def __init__(self, num_rows: int, epoch_length: int, seed: int) -> None: ...

class WeightedDraws(Draws):
    def __init__(self, num_rows: int, epoch_length: int, seed: int, table: NDArray[np.uint64] | None) -> None:
        """Keep and read ``table``, made by ``build_alias_table``; None draws all rows alike."""
