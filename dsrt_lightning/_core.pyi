"""The native core: contracts of what ``csrc/bindings`` registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer as AnyBuffer

Buffer: TypeAlias = AnyBuffer | NDArray[np.generic]  # Arrays declare that they are buffers from Python 3.12 only.

# --- Plain bytes (csrc/bindings/plain_bytes.cpp) ---

def crc32c(data: Buffer, before: int = 0) -> int:
    """Return the CRC32C of C-contiguous ``data``, continuing from that of the bytes before; without the GIL."""

def are_short_ascii(views: Buffer) -> bool:
    """Return whether all of Arrow's string views, 16 bytes each, hold their text themselves and it is ASCII.

    Then none of them leads out of a buffer, and all are valid UTF-8; False says nothing. Without the GIL.

    Args:
        views: C-contiguous; bytes after the last whole view are not looked at.
    """

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

def build_group_table(codes: NDArray[np.int32], num_groups: int) -> NDArray[np.int64]:
    """Return the ends of the groups, from 0 on, then their rows: int64 ``[num_groups + 1 + P]`` for codes ``[P]``.

    Raises:
        ValueError: A code is not in ``[0, num_groups)``.
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

class WeightedOnceDraws(Draws):
    def __init__(self, weights: NDArray[np.float64], epoch_length: int, seed: int) -> None:
        """Keep and read ``weights``, one a row. Makes the order of an epoch and pass at its first draw.

        Raises:
            ValueError: An epoch is longer than the population.
        """

class BlockDraws(Draws):
    def __init__(
        self, num_rows: int, epoch_length: int, seed: int, block_records: int, window_records: int
    ) -> None: ...

class ClassShares:
    """How many draws of each batch and of the epoch each class gets."""

    def __init__(
        self, *, global_batch: int, num_full_batches: int, base: list[int], extra: list[int], tail: list[int]
    ) -> None:
        """Take one number a class.

        Args:
            global_batch: Draws of a full batch.
            num_full_batches: Full batches of an epoch.
            base: Draws in each full batch, without extras.
            extra: How many of the full batches hold one draw more.
            tail: Draws in what is left of the epoch, less than a batch.
        """

    @property
    def base(self) -> list[int]: ...
    @property
    def extra(self) -> list[int]: ...
    @property
    def tail(self) -> list[int]: ...
    def draws_per_epoch(self, number: int) -> int: ...

class QuotaDraws(Draws):
    def __init__(
        self,
        shares: ClassShares,
        seed: int,
        table: NDArray[np.int64],
        num_groups: int,
        groups: list[int],
        weights: NDArray[np.float64] | None,
    ) -> None:
        """Draw classes by their shares; class ``c`` is group ``groups[c]`` of the table.

        Keeps and reads ``table``, made by ``build_group_table``, and ``weights``, one a row; None are equal weights.

        Raises:
            ValueError: The shares do not fit together, or a class has no rows.
        """

class MixDraws(Draws):
    def __init__(self, shares: ClassShares, seed: int, components: tuple[Draws, ...]) -> None:
        """Draw the components, which it keeps, by their shares."""

def mix_component_seed(seed: int, number: int) -> int:
    """Return the seed of a mix's component."""

# --- Opened caches (csrc/bindings/shard_set.cpp) ---

class CacheFiles:
    """What a manifest says about the files of one cache."""

    def __init__(
        self,
        *,
        directory: str,
        num_records: int,
        index_bytes: int,
        index_crc32c: int,
        shards: Sequence[tuple[str, int]],
        compressed: bool,
        dictionary: bytes,
        max_record_bytes: int,
    ) -> None:
        """Describe a cache; nothing is opened.

        Args:
            directory: Holds ``index.bin``; begins the file names in messages.
            shards: Path relative to ``directory`` and bytes of each shard.
            compressed: Whether records are zstd frames.
            dictionary: zstd's; empty for none.
            max_record_bytes: Of the raw records; a frame that claims more is refused.
        """

    @property
    def directory(self) -> str: ...
    @property
    def num_records(self) -> int: ...

class ShardSet:
    """The payload files of many caches as one sequence of records, immutable, for any thread.

    Cache ``c`` holds rows ``[bases[c], bases[c] + num_records of c)``. Files are mapped, and their descriptors
    closed at once: each index here, each shard at its first use.
    """

    def __init__(self, caches: Sequence[CacheFiles], verify: Literal["first", "always", "never"]) -> None:
        """Map the indexes and, unless ``verify`` is "never", compare their checksums.

        Args:
            verify: When a record is compared with its checksum: once a process (small ones always), at each read,
                or not.

        Raises:
            CorruptCacheError: An index is not what its manifest says.
            OSError: An index cannot be opened or mapped.
        """

    @property
    def num_records(self) -> int: ...
    @property
    def bases(self) -> list[int]:
        """First row of each cache."""

    def read(self, row: int) -> memoryview:
        """Return one raw record, read-only, without the GIL.

        Stored as is: a view of the map, which it keeps; do not truncate the file under it. Compressed: a view of
        new memory.

        Raises:
            IndexError: There is no such row.
            CorruptCacheError: Shard or record are not what was written; the message names both.
            OSError: The shard cannot be opened or read.
        """

    def read_many(self, rows: NDArray[np.int64]) -> list[memoryview]:
        """Return raw records like ``read``, int64 ``[n]`` rows in any order; decompressed ones share one block."""

    def verify_cache(self, ordinal: int, on_progress: Callable[[int], None] | None = None) -> list[str]:
        """Compare every record of one cache with its checksum, without the GIL.

        Args:
            on_progress: Gets the number of records done now and then, and at the end. What it raises ends the call.

        Returns:
            One message for each shard that cannot be opened and for each broken record of the others.
        """

# --- Batches (csrc/bindings/reader.cpp) ---

FieldBatch: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64] | None, tuple[int, ...]]
"""One field of a batch: its bytes, the extents of ragged axes, and the shape of one (padded) record.

The bytes are uint8 ``[n, row_bytes]``; extents int64 ``[n, ragged axes of the field]``, None for a fixed shape.
Ragged axes are as long as the longest of the batch, and the rest is zeros.
"""

class RecordLayout:
    """Where the arrays of one record of the ``arrays`` codec lie."""

    def __init__(self, fields: Sequence[tuple[str, int, Sequence[int | None]]]) -> None:
        """Lay out fields of (name, bytes of an item, shape with None for ragged axes).

        Raises:
            ValueError: An item is not of 1, 2, 4, 8 or 16 bytes, an extent is negative, or the record is too large.
        """

    @property
    def record_bytes(self) -> int | None:
        """Bytes of every record; None if an axis is ragged."""

class MappedFile:
    """A whole file mapped read-only, as a buffer of bytes. Holds no descriptor, so thousands may be open."""

    def __init__(self, path: str, expected_bytes: int) -> None:
        """Map a regular file.

        Raises:
            CorruptCacheError: It is a link or no regular file, or has another size; with both sizes.
            OSError: It cannot be opened or mapped.
        """

    def __len__(self) -> int:
        """Bytes."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def let_go(self) -> None:
        """Take its pages out of this process's memory until they are read again."""

class BufferPool:
    """Blocks of memory that batches are gathered into, and that come back when their last array is dropped.

    Several readers may take from one, one after the other or at once. A forked child's blocks are freed, not kept.
    """

    def __init__(self, max_free_bytes: int) -> None:
        """Make an empty pool.

        Args:
            max_free_bytes: That lie idle at most; the block that came back last is always kept.
        """

class Reader:
    """Ordered, bounded read-ahead of whole batches on native threads.

    One thread at a time submits and takes. After a fork, the child's calls raise RuntimeError at once. Dropping
    a reader closes it; batches that were taken stay valid.
    """

    def submit(self, rows: NDArray[np.int64]) -> None:
        """Ask for a batch of int64 ``[n]`` rows, copied; never waits.

        Raises:
            IndexError: A row does not exist.
            ValueError: ``max_batches`` are pending, or the reader is closed.
            RuntimeError: The process was forked since the reader was made.
        """

    @property
    def pending(self) -> int:
        """Batches submitted and not yet taken."""

    def can_submit(self) -> bool:
        """Return whether fewer than ``max_batches`` are pending."""

    def stats(self) -> dict[str, int]:
        """Return what was delivered and what it took.

        ``batches``, ``records``, ``bytes``; ``wait_ns``: time the consumer waited in ``next``; ``read_ns``:
        time the threads worked, summed; ``finished_ns``: when the batch last taken was finished, by
        ``time.monotonic_ns``.
        """

    def close(self) -> None:
        """Stop and join the threads and drop pending batches; does nothing when closed."""

class BatchReader(Reader):
    """Gathers fields of the ``arrays`` codec straight from the maps into batches."""

    def __init__(
        self,
        shards: ShardSet,
        layout: RecordLayout,
        fields: Sequence[int],
        *,
        threads: int,
        max_batches: int,
        max_bytes: int,
        pool: BufferPool | None = None,
    ) -> None:
        """Start the threads.

        Args:
            layout: Of the records of all caches.
            fields: Which fields to deliver, and in which order, by their numbers in ``layout``.
            max_batches: That may be pending.
            max_bytes: A batch is begun only while all that wait, with it, stay within this, or when it is
                the next to be taken.
            pool: Where the batches' memory comes from and returns to; None makes one that keeps ``max_bytes``.

        Raises:
            ValueError: A number is not positive, or there is no such field.
        """

    def next(self) -> list[FieldBatch]:
        """Return the oldest batch, one entry for each of ``fields``; waits without the GIL, and Ctrl-C ends it.

        The arrays are the caller's own: writable, aligned to 64 bytes, and their memory is used again once
        all arrays of the batch are dropped.

        Raises:
            CorruptCacheError: A record of this batch is not what was written. Later batches stay readable.
            OSError: A shard cannot be opened or read.
            ValueError: Nothing is pending, or the reader is closed.
            RuntimeError: The process was forked since the reader was made.
        """

def split_pickle_record(record: memoryview) -> tuple[memoryview, list[memoryview]] | None:
    """Return the pickle and the buffers of a record of codec ``pickle``, or None if its lengths do not add up."""

class BatchGatherer:
    """Gathers batches as `BatchReader` does, on the calling thread and into memory that the caller provides."""

    def __init__(self, shards: ShardSet, layout: RecordLayout, fields: Sequence[int]) -> None:
        """Take the same arguments as `BatchReader`.

        Raises:
            ValueError: There is no such field; raised by :meth:`gather`.
        """

    def gather(self, rows: NDArray[np.int64], allocate: Callable[[int], Buffer]) -> list[FieldBatch]:
        """Return the batch of record numbers int64 ``[n]``, one entry a field.

        Args:
            rows: Record numbers.
            allocate: Called once with the bytes of the batch, returns writable memory of at least as many, aligned to
                a cache line. The arrays that are returned lie in it and keep it.

        Raises:
            CorruptCacheError: As :meth:`BatchReader.next`.
            RuntimeError: Another thread is inside this method.
        """

class RecordViews:
    """The records of a batch, one by one; made by ``RawReader.next``."""

    def __iter__(self) -> RecordViews: ...
    def __next__(self) -> memoryview: ...
    def __length_hint__(self) -> int: ...

class RawReader(Reader):
    """Reads whole records ahead: verified, decompressed, resident."""

    def __init__(
        self, shards: ShardSet, *, threads: int, max_batches: int, max_bytes: int, touch_ahead: bool = False
    ) -> None:
        """Start the threads; arguments as for ``BatchReader``.

        With ``touch_ahead`` one of several ``threads`` brings records of 16 KiB and more into the processor's caches,
        up to 2 MiB ahead of the one that was taken last, for consumers that read all of their bytes at once.
        """

    def next(self) -> RecordViews:
        """Return the records of the oldest batch in order, each as ``ShardSet.read`` gives it.

        Waits and raises like ``BatchReader.next``.
        """
