"""How batches get from requests to the consumer, in order: reader threads, a thread pool, or processes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsrt_lightning._core import BufferPool
from dsrt_lightning.errors import CorruptCacheError
from dsrt_lightning.loading.stats import Cost, Made, num_bytes

if TYPE_CHECKING:
    from dsrt_lightning._core import BatchReader, RawReader
    from dsrt_lightning.loading.assemble import ArrayAssembler, SampleAssembler
    from dsrt_lightning.loading.requests import BatchRequest
    from dsrt_lightning.loading.substitution import Assembler, SkippingAssembler


@dataclass(frozen=True)
class ReadAhead:
    """How far batches are made ahead of the consumer.

    Attributes:
        threads: Threads that read or decode, ``>= 1``.
        batches: Batches that exist ahead, ``>= 1``.
        bytes: Bytes of them; one batch is always allowed.
    """

    threads: int
    batches: int
    bytes: int

    def __post_init__(self) -> None:
        for name in ("threads", "batches", "bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)} but must be at least 1")


@dataclass(frozen=True)
class _IdleReader:
    reader: BatchReader | RawReader
    process: int  # that its threads are in


class NativeDelivery:
    """Reads in native threads, and does on the consumer's own thread what takes Python: for arrays next to nothing.

    The threads sleep from the end of a pass to the next one: new ones take milliseconds to find a processor.

    Args:
        assembler: Makes batches of what was read.
        read_ahead: Of the native threads.
        skipping: Makes the batches that broken records keep the threads from making; None raises.
    """

    def __init__(
        self,
        assembler: ArrayAssembler | SampleAssembler,
        read_ahead: ReadAhead,
        skipping: SkippingAssembler | None = None,
    ) -> None:
        self._assembler = assembler
        self._read_ahead = read_ahead
        self._skipping = skipping
        self._pool: BufferPool | None = None
        self._idle: _IdleReader | None = None

    def __call__(self, requests: Iterator[BatchRequest]) -> Iterator[Made]:
        """Yield the batches of ``requests``; the threads end with an iterator that is not exhausted."""
        reader = self._reader()
        try:
            yield from self._batches(reader, requests)
        except BaseException:
            reader.close()
            raise
        self._idle = _IdleReader(reader, os.getpid())

    def _batches(self, reader: BatchReader | RawReader, requests: Iterator[BatchRequest]) -> Iterator[Made]:
        waiting: deque[BatchRequest] = deque()
        rows = self._assembler.records.rows
        read_ns = reader.stats()["read_ns"]
        while True:
            while reader.can_submit() and (request := next(requests, None)) is not None:
                if self._skipping is not None:
                    request = self._skipping.substitution(request)
                reader.submit(rows(request.positions))
                waiting.append(request)
            if not waiting:
                return
            request = waiting.popleft()
            try:
                read = reader.next()
            except CorruptCacheError:
                if self._skipping is None:
                    raise
                made = self._skipping(request)
            else:
                stats = reader.stats()
                made = self._made(read, request, stats["read_ns"] - read_ns, stats["finished_ns"])
                read_ns = stats["read_ns"]
                del read  # Its memory is the consumer's alone.
            yield made
            del made  # Its memory is the consumer's alone.

    def _made(self, read: Any, request: BatchRequest, read_ns: int, finished_ns: int) -> Made:
        began = time.monotonic()
        batch = self._assembler.finish(read, request)
        decode_s = time.monotonic() - began
        return batch, Cost(
            request.num_valid, num_bytes(batch), read_ns / 1e9, decode_s, finished_ns / 1e9, request.skipped
        )

    def _reader(self) -> BatchReader | RawReader:
        idle, self._idle = self._idle, None
        if idle is not None and idle.process == os.getpid():  # Its threads do not survive a fork.
            return idle.reader
        if self._pool is None:  # It outlives a pass: new memory costs more than to fill it.
            self._pool = BufferPool(self._read_ahead.bytes)
        return self._assembler.reader(self._read_ahead, self._pool)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None, "_idle": None}


class ThreadDelivery:
    """Makes whole batches in a pool of Python threads, bounded by batches and bytes."""

    def __init__(self, assembler: Assembler | SkippingAssembler, read_ahead: ReadAhead) -> None:
        self._assembler = assembler
        self._read_ahead = read_ahead

    def __call__(self, requests: Iterator[BatchRequest]) -> Iterator[Made]:
        """Yield the batches of ``requests``; the threads end with the iterator."""
        ahead: deque[Future[Made]] = deque()
        batch_bytes = 0
        pool = ThreadPoolExecutor(self._read_ahead.threads, thread_name_prefix="dsrt-batches")
        try:
            while True:
                while self._has_room(len(ahead), batch_bytes) and (request := next(requests, None)) is not None:
                    ahead.append(pool.submit(self._assembler, request))
                if not ahead:
                    return
                made = ahead.popleft().result()
                # The size of the next batches is not known before they are read; the last one stands for them.
                batch_bytes = made[1].bytes
                yield made
                del made
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _has_room(self, num_ahead: int, batch_bytes: int) -> bool:
        if num_ahead == 0:
            return True
        return num_ahead < self._read_ahead.batches and (num_ahead + 1) * batch_bytes <= self._read_ahead.bytes


Delivery = Callable[["Iterator[BatchRequest]"], "Iterator[Made]"]
