"""Which positions of a pass form each rank's batches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """One rank's part of one global batch.

    Attributes:
        start: First position, counted over all ranks.
        num_valid: Positions that are drawn, ``[start, start + num_valid)``.
        num_rows: Rows of the batch, ``>= num_valid``; the rest is padding that no rank may count.
    """

    start: int
    num_valid: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The batches of one pass, for one rank.

    Global batch ``g`` of a pass that starts at ``s`` holds positions ``[s + g * B, s + (g + 1) * B)``, where
    ``B = batch_size * world_size``; rank ``r`` takes its contiguous slice. So the sequence of global batches is
    the same for every world size with equal ``B``, and every rank always gets the same number of batches.

    Args:
        epoch_length: Draws of a pass over all ranks, ``>= 1``.
        batch_size: Rows of one rank's batch, ``>= 1``.
        rank: In ``[0, world_size)``.
        world_size: Number of ranks, ``>= 1``.
        drop_last: Leave out the positions that do not fill a global batch. Otherwise the last global batch is
            split evenly, padded by fewer than ``world_size`` rows a rank so that all ranks get equal shapes.

    Raises:
        ValueError: A number is out of range, or ``drop_last`` leaves no batch at all.
    """

    epoch_length: int
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = True

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size} but must be at least 1")
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} is not in [0, {self.world_size}), the ranks of this run")
        if self.epoch_length < 1:
            raise ValueError(f"epoch_length is {self.epoch_length} but must be at least 1")
        if self.drop_last and self.epoch_length < self.global_batch:
            raise ValueError(
                f"drop_last leaves no batch: an epoch has {self.epoch_length} draws but a global batch takes "
                f"{self.global_batch} ({self.batch_size} rows x {self.world_size} ranks); "
                "lower batch_size, raise epoch_length or set drop_last to false"
            )

    @property
    def global_batch(self) -> int:
        """Rows of one batch over all ranks."""
        return self.batch_size * self.world_size

    def __len__(self) -> int:
        """Batches of a whole pass."""
        return self.num_left(0)

    def num_left(self, samples: int) -> int:
        """Batches after the first ``samples`` positions of a pass."""
        left = max(0, self.epoch_length - samples)
        return left // self.global_batch if self.drop_last else -(-left // self.global_batch)

    def slice_at(self, samples: int) -> BatchSlice:
        """Return this rank's part of the global batch that starts at position ``samples``.

        Raises:
            ValueError: No batch is left there.
        """
        if self.num_left(samples) == 0:
            raise ValueError(f"no batch is left at position {samples} of {self.epoch_length}")
        size = min(self.global_batch, self.epoch_length - samples)
        num_rows = -(-size // self.world_size)
        start = samples + self.rank * num_rows
        end = samples + size
        num_valid = max(0, min(num_rows, end - start))
        return BatchSlice(start=min(start, end), num_valid=num_valid, num_rows=num_rows)

    def after(self, samples: int) -> int:
        """Return the position behind the global batch that starts at ``samples``."""
        return min(samples + self.global_batch, self.epoch_length)
