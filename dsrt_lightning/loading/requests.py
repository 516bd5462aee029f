"""What a batch is made of, before any payload is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsrt_lightning.draws.batch_plan import BatchPlan
    from dsrt_lightning.draws.cursor import Cursor
    from dsrt_lightning.draws.mix import MixStream
    from dsrt_lightning.draws.stream import DrawStream


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One rank's batch, as positions; small, picklable, and enough to make the batch anywhere.

    Attributes:
        seed: The stream's seed.
        epoch: The epoch it belongs to.
        pass_: The pass of that epoch.
        start: Position of its first row in the pass, over all ranks.
        positions: int64 ``[rows]`` population positions; padding repeats a drawn row.
        num_valid: Rows before the padding.
        skipped: What is wrong with each broken record that another one stands in for, without padding.
        is_sound: bool ``[rows]``, False on padding and stand-ins; None where nothing stands in.
    """

    seed: int
    epoch: int
    pass_: int
    start: int
    positions: NDArray[np.int64]
    num_valid: int
    skipped: tuple[str, ...] = ()
    is_sound: NDArray[np.bool_] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # As bytes: pickling an array takes as long as gathering a batch of small records.
        rest = (self.num_valid, self.skipped, self.is_sound)
        return _unpickle, (self.seed, self.epoch, self.pass_, self.start, self.positions.tobytes(), *rest)

    def valid(self) -> NDArray[np.bool_]:
        """Return bool ``[rows]``, False on the padding and on what stands in for a broken record."""
        if self.is_sound is not None:
            return self.is_sound.copy()
        return np.arange(len(self.positions)) < self.num_valid


def _unpickle(seed: int, epoch: int, pass_: int, start: int, positions: bytes, *rest: Any) -> BatchRequest:
    return BatchRequest(seed, epoch, pass_, start, np.frombuffer(positions, np.int64), *rest)


def requests_from(stream: DrawStream | MixStream, cursor: Cursor) -> Iterator[BatchRequest]:
    """Yield what is left of the cursor's pass, without moving the cursor."""
    epoch, pass_, samples = cursor.epoch, cursor.pass_, cursor.samples
    plan = cursor.plan
    while plan.num_left(samples):
        yield _request(stream, plan, epoch, pass_, samples)
        samples = plan.after(samples)


def _request(stream: DrawStream | MixStream, plan: BatchPlan, epoch: int, pass_: int, samples: int) -> BatchRequest:
    part = plan.slice_at(samples)
    positions = stream.positions(epoch, pass_, part.start, part.num_valid)
    num_padding = part.num_rows - part.num_valid
    if num_padding:
        repeated = positions[-1:] if part.num_valid else stream.positions(epoch, pass_, samples, 1)
        positions = np.concatenate([positions, np.repeat(repeated, num_padding)])
    return BatchRequest(stream.seed, epoch, pass_, part.start, positions, part.num_valid)
