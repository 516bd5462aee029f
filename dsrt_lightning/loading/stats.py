"""What loading took, counted batch by batch, so that a slow loader can be told from a slow model."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

if TYPE_CHECKING:
    from dsrt_lightning.loading.requests import BatchRequest

_log = logging.getLogger("dsrt_lightning")

# How many batches ahead are told apart; more count as so many.
_MAX_DEPTH = 256


class Cost(NamedTuple):
    """What one batch took to make; travels with it, also from process to process.

    Attributes:
        rows: Its rows, without padding.
        bytes: Of its tensors and byte strings.
        read_s: Seconds in which threads read, verified, decompressed and gathered, summed.
        decode_s: Seconds of Python: codec, transforms, collating.
        finished: When, by ``time.monotonic``, which the processes of a machine share.
        skipped: What is wrong with each broken record that another one stands in for.
    """

    rows: int
    bytes: int
    read_s: float
    decode_s: float
    finished: float
    skipped: tuple[str, ...]

    @classmethod
    def of(cls, batch: Any, request: BatchRequest, *, began: float, read_s: float) -> Cost:
        """Return the cost of a batch that is finished now: all that was not reading was decoding."""
        finished = time.monotonic()
        return cls(request.num_valid, num_bytes(batch), read_s, finished - began - read_s, finished, request.skipped)


Made: TypeAlias = tuple[Any, Cost]


@dataclass(frozen=True)
class LoaderStats:
    """What a loader has handed out and what that took, since it was made; subtract an earlier one for a stretch of it.

    Attributes:
        batches: Batches handed out.
        samples: Their rows, without padding.
        bytes: Of their tensors and byte strings.
        elapsed_s: Seconds from the first request of each iteration to its last batch, summed: the waiting, and
            whatever the consumer did between two batches.
        wait_s: Of these, the seconds in which the consumer waited for batches.
        read_s: Seconds in which threads read, verified, decompressed and gathered, summed over threads and workers.
        decode_s: Seconds of Python, codec, transforms and collating, summed likewise. A thread that waits for the GIL
            counts too.
        ready: Finished batches that lay ready when one was asked for, itself among them, summed over the batches.
        skipped: Rows that stand in for broken records, with ``on_corrupt="skip"``.
    """

    batches: int = 0
    samples: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0
    wait_s: float = 0.0
    read_s: float = 0.0
    decode_s: float = 0.0
    ready: int = 0
    skipped: int = 0

    @property
    def wait_fraction(self) -> float:
        """Part of the time in which the consumer waited, in ``[0, 1]``; 0 before the first batch."""
        return self.wait_s / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples a second of ``elapsed_s``."""
        return self.samples / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes a second of ``elapsed_s``."""
        return self.bytes / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def queue_depth(self) -> float:
        """How many batches lay ready when one was asked for, on the mean; below 1 the consumer had to wait."""
        return self.ready / self.batches if self.batches else 0.0

    def __add__(self, other: LoaderStats) -> LoaderStats:
        return LoaderStats(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def __sub__(self, other: LoaderStats) -> LoaderStats:
        return LoaderStats(*(getattr(self, field.name) - getattr(other, field.name) for field in fields(self)))


class Meter:
    """Takes the costs off a loader's batches, and adds them up; warns of each damaged file once."""

    def __init__(self) -> None:
        self._batches = self._samples = self._bytes = self._ready = self._skipped = 0
        self._elapsed_s = self._wait_s = self._read_s = self._decode_s = 0.0
        self._damaged: set[str] = set()

    def __call__(self, made: Iterator[Made]) -> Iterator[Any]:
        """Yield the batches of ``made``."""
        asked: deque[float] = deque(maxlen=_MAX_DEPTH)
        before = time.monotonic()
        while True:
            asked.append(time.monotonic())
            try:
                batch, cost = next(made)
            except StopIteration:
                return
            now = time.monotonic()
            self._wait_s += now - asked[-1]
            self._elapsed_s += now - before
            self._add(cost)
            # It lay ready for each request that came after it was finished.
            for moment in reversed(asked):
                if moment < cost.finished:
                    break
                self._ready += 1
            before = now
            yield batch
            del batch  # Its memory is the consumer's alone.

    def stats(self) -> LoaderStats:
        """Return the sums."""
        return LoaderStats(
            batches=self._batches,
            samples=self._samples,
            bytes=self._bytes,
            elapsed_s=self._elapsed_s,
            wait_s=self._wait_s,
            read_s=self._read_s,
            decode_s=self._decode_s,
            ready=self._ready,
            skipped=self._skipped,
        )

    def _add(self, cost: Cost) -> None:
        self._batches += 1
        self._samples += cost.rows
        self._bytes += cost.bytes
        self._read_s += cost.read_s
        self._decode_s += cost.decode_s
        self._skipped += len(cost.skipped)
        for problem in cost.skipped:
            file = problem.partition(": ")[0]
            if file not in self._damaged:
                self._damaged.add(file)
                _log.warning(
                    "%s (on_corrupt='skip': sound records stand in for the broken ones of this file, "
                    "loader.stats().skipped counts them)",
                    problem,
                )


def num_bytes(batch: Any) -> int:
    """Return the bytes of all tensors and byte strings in a batch."""
    if isinstance(batch, torch.Tensor):
        return batch.numel() * batch.element_size()
    if isinstance(batch, (bytes, bytearray, memoryview)):
        return len(batch)
    if isinstance(batch, dict):
        return sum(num_bytes(value) for value in batch.values())
    if isinstance(batch, (list, tuple)):
        return sum(num_bytes(value) for value in batch)
    return 0
