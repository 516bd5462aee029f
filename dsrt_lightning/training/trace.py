"""The flight record: which samples a run trained on, from its config and a checkpoint alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from dsrt_lightning.draws.batch_plan import BatchPlan
from dsrt_lightning.draws.cursor import check_state
from dsrt_lightning.errors import ConfigError, StateMismatchError
from dsrt_lightning.training.datamodule import DatasetRTDataModule
from dsrt_lightning.training.resume import is_draws_state, parts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dsrt_lightning.loading.view import View


def read_checkpoint(path: str) -> dict[str, Any]:
    """Return a checkpoint, read without running code that it may contain.

    Raises:
        OSError: It cannot be read.
    """
    loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return loaded


@dataclass(frozen=True)
class TracedBatch:
    """What one rank got at one step.

    Attributes:
        part: The training set, ``train`` where there is one.
        step: Number of the training batch since the run began, from 0.
        epoch: Its epoch.
        index: Its number in the epoch.
        rank: The rank.
        cache_ids: int64 ``[rows]``.
        sample_ids: int64 ``[rows]``.
    """

    part: str
    step: int
    epoch: int
    index: int
    rank: int
    cache_ids: NDArray[np.int64]
    sample_ids: NDArray[np.int64]


def trace(
    datamodule: DatasetRTDataModule, checkpoint: Mapping[str, Any], steps: range, *, ranks: int | None = None
) -> Iterator[TracedBatch]:
    """Yield the batches of ``steps``, rank by rank, without reading a payload.

    Steps before the checkpoint are what the run trained on, steps after it what a resume will. Every epoch is taken to
    have as many batches as those before the checkpoint had.

    Args:
        datamodule: Of the run's config.
        checkpoint: A Lightning checkpoint of the run.
        steps: Training batches, counted from 0 since the run began.
        ranks: Number of ranks; None takes the global batch of the state and the config's batch size.

    Raises:
        StateMismatchError: The checkpoint has no state of these draws.
        ConfigError: The global batch does not divide by the ranks.
    """
    states = [value for value in checkpoint.values() if is_draws_state(value)]
    if not states:
        raise StateMismatchError("the checkpoint holds no dsrt.draws state; it was not saved by a DatasetRTDataModule")
    datamodule.setup("fit")
    trained = _num_trained(checkpoint)
    parts = parts_of(states[0])
    names = [name for name in datamodule.datasets if name.partition(".")[0] == "train"]
    if len(parts) == 1:
        parts = dict(zip(names, parts.values(), strict=True))
    for name in names:
        if name not in parts:
            raise StateMismatchError(f"the checkpoint has draws for {', '.join(parts)} but the config trains on {name}")
        history = _History.of(datamodule.datasets[name].view, parts[name], trained)
        rows = datamodule.plan(name).loader.batch_size
        yield from history.batches(name, steps, ranks or max(1, history.global_batch // rows))


@dataclass(frozen=True)
class _History:
    """Where a run's epochs began, counted in batches."""

    view: View
    global_batch: int
    epoch: int
    epoch_start: int
    batches_per_epoch: int

    @classmethod
    def of(cls, view: View, state: Mapping[str, Any], trained: int) -> _History:
        global_batch = int(state["global_batch"])
        epoch, _, samples = check_state(state, view.identity(global_batch))
        plan = BatchPlan(view.stream(global_batch).epoch_length, global_batch)
        index = samples // global_batch
        epoch_start = trained - index
        whole = epoch_start // epoch if epoch else len(plan)
        return cls(view, global_batch, epoch, epoch_start, whole)

    def batches(self, part: str, steps: range, ranks: int) -> Iterator[TracedBatch]:
        if self.global_batch % ranks:
            raise ConfigError(f"a global batch of {self.global_batch} rows does not divide by {ranks} ranks")
        stream, records = self.view.stream(self.global_batch), self.view.records
        rows = self.global_batch // ranks
        for step in steps:
            epochs, index = divmod(step - self.epoch_start, self.batches_per_epoch)
            epoch = self.epoch + epochs
            for rank in range(ranks):
                start = index * self.global_batch + rank * rows
                positions = stream.positions(epoch, 0, start, rows)
                cache_ids, sample_ids = records.ids(records.rows(positions))
                yield TracedBatch(part, step, epoch, index, rank, cache_ids, sample_ids)


def _num_trained(checkpoint: Mapping[str, Any]) -> int:
    try:
        return int(checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["total"]["processed"])
    except KeyError as error:
        raise StateMismatchError(f"the checkpoint has no count of trained batches ({error} is missing)") from error
