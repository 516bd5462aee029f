"""Is it the loader? A callback that measures while a run trains, and says it in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities import CombinedLoader, rank_zero_info, rank_zero_warn

from dsrt_lightning.loading.loader import RTLoader
from dsrt_lightning.loading.stats import LoaderStats

# A loader that keeps up makes the model wait for little more than its first batch.
_KEEPS_UP = 0.1


class LoaderProfile(pl.Callback):
    """Logs how the training loaders keep up with the model, and tells at the end which of the two was slower.

    Entries go to the trainer's loggers, if there are any, and are those of this rank since the entry before:
    ``loader/wait_fraction`` of the time, ``loader/samples_per_s``, ``loader/bytes_per_s``, ``loader/queue_depth``,
    and ``loader/read_s`` and ``loader/decode_s``, a batch's seconds summed over threads and workers. Of several
    training loaders they are those of all together. See :class:`~dsrt_lightning.loading.stats.LoaderStats`.

    Args:
        every_n_steps: Training batches from one entry to the next; None takes the trainer's ``log_every_n_steps``.

    Raises:
        ValueError: ``every_n_steps`` is below 1.
    """

    def __init__(self, every_n_steps: int | None = None) -> None:
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(f"every_n_steps is {every_n_steps} but must be at least 1")
        self._every_n_steps = every_n_steps
        self._loaders: list[RTLoader] = []
        self._of_earlier_loaders = self._at_start = self._at_entry = LoaderStats()
        self._num_batches = 0

    @property
    def stats(self) -> LoaderStats:
        """What the training loaders handed out since the fit began, and what that took."""
        return self._of_earlier_loaders + _together(self._loaders) - self._at_start

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin to measure."""
        self._loaders = list(_loaders(trainer.train_dataloader))
        if not self._loaders:
            rank_zero_warn("LoaderProfile: no training loader is an RTLoader, so there is nothing to measure")
        self._of_earlier_loaders = LoaderStats()
        self._at_start, self._at_entry = _together(self._loaders), LoaderStats()
        self._num_batches = 0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Go over to the epoch's loaders, if they were made anew."""
        loaders = list(_loaders(trainer.train_dataloader))
        if loaders != self._loaders:
            self._of_earlier_loaders += _together(self._loaders)
            self._loaders = loaders

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log, when it is time."""
        self._num_batches += 1
        if self._num_batches % (self._every_n_steps or max(1, trainer.log_every_n_steps)):  # type: ignore[attr-defined]
            return
        now = self.stats
        since, self._at_entry = now - self._at_entry, now
        metrics = {
            "loader/wait_fraction": since.wait_fraction,
            "loader/samples_per_s": since.samples_per_s,
            "loader/bytes_per_s": since.bytes_per_s,
            "loader/queue_depth": since.queue_depth,
            "loader/read_s": since.read_s / max(1, since.batches),
            "loader/decode_s": since.decode_s / max(1, since.batches),
        }
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=trainer.global_step)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say which of the two was slower."""
        if self.stats.batches:
            rank_zero_info(verdict(self.stats))


def verdict(stats: LoaderStats) -> str:
    """Return in a sentence whether the model or the loader is the bottleneck, and what to do."""
    waited = f"the model waited {stats.wait_fraction:.0%} of the time for data".replace("%", " %")
    if stats.wait_fraction < _KEEPS_UP:
        return f"{waited}: the model is the bottleneck"
    advice = (
        "make the transform cheaper, or raise workers"
        if stats.decode_s > stats.read_s
        else "raise threads, or workers if there are some"
    )
    return (
        f"{waited}: the loader is the bottleneck; over all threads and workers reading took {stats.read_s:.3g} s, "
        f"decoding {stats.decode_s:.3g} s: {advice}"
    )


def _loaders(loaders: Any) -> Iterator[RTLoader]:
    """Yield those of ours in what a trainer or a module calls its training loaders."""
    if isinstance(loaders, RTLoader):
        yield loaders
    elif isinstance(loaders, CombinedLoader):
        yield from _loaders(loaders.iterables)
    elif isinstance(loaders, (dict, list, tuple)):
        for loader in loaders.values() if isinstance(loaders, dict) else loaders:
            yield from _loaders(loader)


def _together(loaders: list[RTLoader]) -> LoaderStats:
    """Return the sums over loaders that are iterated side by side: the same time passes for all of them."""
    all_stats = [loader.stats() for loader in loaders]
    longest = max((stats.elapsed_s for stats in all_stats), default=0.0)
    return replace(sum(all_stats, LoaderStats()), elapsed_s=longest)
