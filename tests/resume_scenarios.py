"""Interrupted Lightning runs: random scenarios, and what must hold for each.

A scenario trains on a tiny cache, is stopped at checkpoints of several kinds, resumes from each, and must in the end
have trained on exactly the batches of the run that nobody stopped. The expected batches come from the draws alone.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.strategies import SingleDeviceStrategy
from safe_loading import SAFELY

from dsrt_lightning import CacheInput, DatasetRTDataModule, build_caches
from dsrt_lightning.draws.batch_plan import BatchPlan
from dsrt_lightning.draws.sampling import Sampling

MODES: tuple[dict[str, Any], ...] = (
    {"mode": "sequential"},
    {"mode": "shuffle"},
    {"mode": "weighted"},
    {"mode": "weighted_once"},
    {"mode": "quota", "column": "label", "shares": "equal"},
    {"mode": "blocks", "block_records": 4, "window_records": 12},
)

MOMENTS = ("step", "last_batch", "epoch_end", "validation_end", "exception", "sigint", "sigterm")


class Killed(Exception):
    """Ends a run the way a lost machine does: nothing is saved behind the checkpoint."""


class Interrupted(Exception):
    """What a training step raises when an exception is due."""


class _Numbers:
    name = "numbers"

    def __iter__(self):
        for i in range(48):
            yield CacheInput({"id": np.int64(i)}, {"label": i % 3, "score": 1.0 + i % 4})


def build_numbers(root: Path) -> Path:
    """Build the cache of all scenarios: 48 records that hold their own number."""
    (result,) = build_caches([_Numbers()], root, codec="arrays", progress=False)
    return Path(result.path)


@dataclass(frozen=True)
class Scenario:
    """One run and its interruptions.

    Attributes:
        batch_size: Rows of a global batch.
        ranks: Number of ranks of the run, then of each resume, in turn; simulated one after the other.
        stops: Moments and the number of trained batches at which each is due; the run resumes after each.
    """

    size: int = 20
    batch_size: int = 3
    sampling: dict[str, Any] = field(default_factory=lambda: {"mode": "shuffle"})
    max_epochs: int = 3
    max_steps: int = -1
    accumulate: int = 1
    limit_train_batches: int | None = None
    val_check_interval: int | float | None = None
    reload_every_n: int = 0
    workers: int = 0
    read_estimate: bool = False
    late_restore: bool = False
    ranks: tuple[int, ...] = (1,)
    stops: tuple[tuple[str, int], ...] = ()


def random_scenario(rng: random.Random) -> Scenario:
    """Return a scenario with every property drawn at random."""
    size = rng.randint(6, 40)
    ranks = rng.choice(((1,), (1,), (1,), (2,), (2, 1, 2), (1, 2)))
    batch_size = rng.choice((2, 2, 4)) if 2 in ranks else rng.randint(1, 5)
    batch_size = min(batch_size, size // 2)
    if 2 in ranks:
        batch_size -= batch_size % 2
    sampling = dict(rng.choice(MODES))
    if rng.random() < 0.4:
        sampling["epoch_length"] = rng.randint(max(3, 2 * batch_size), size)
    length = sampling.get("epoch_length", size) // batch_size
    limit = rng.randint(1, length) if rng.random() < 0.25 else None
    per_epoch = limit or length
    epochs = rng.randint(1, 4)
    accumulate = rng.choice((1, 1, 2, 3))
    total = epochs * per_epoch
    interval = rng.choice((None, None, 0.5, rng.randint(1, per_epoch)))
    steps = rng.randint(1, max(1, total // accumulate)) if rng.random() < 0.3 else -1
    due = sorted(rng.sample(range(1, total + 1), min(total, rng.randint(1, 3))))
    return Scenario(
        size=size,
        batch_size=batch_size,
        sampling=sampling,
        max_epochs=epochs,
        max_steps=steps,
        accumulate=accumulate,
        limit_train_batches=limit,
        val_check_interval=interval,
        reload_every_n=rng.choice((0, 0, 0, 1, 2)),
        read_estimate=rng.random() < 0.3,
        late_restore=rng.random() < 0.2,
        ranks=ranks,
        stops=tuple((rng.choice(MOMENTS), at) for at in due),
    )


class _Recorder(lightning.LightningModule):
    """Trains one weight and notes the ids of every batch that was trained to its end."""

    def __init__(self, scenario: Scenario, trained: list[list[int]]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.scenario = scenario
        self.trained = trained
        self.interrupt: tuple[str, int] | None = None

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor:
        self._interrupt_if_due()
        self.trained.append(batch["id"].tolist())
        return (self.weight * batch["id"].float().mean()).sum()

    def _interrupt_if_due(self) -> None:
        if self.interrupt is None or len(self.trained) + 1 < self.interrupt[1]:
            return
        moment = self.interrupt[0]
        if moment == "exception":
            raise Interrupted
        if moment == "sigint":
            os.kill(os.getpid(), signal.SIGINT)
        if moment == "sigterm":
            os.kill(os.getpid(), signal.SIGTERM)

    def validation_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        if self.scenario.read_estimate:
            assert self.trainer.estimated_stepping_batches > 0
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class Stop(lightning.Callback):
    """Saves a checkpoint at the moment that is due, and kills the run."""

    def __init__(self, moment: str, due: int, path: Path) -> None:
        self.moment, self.due, self.path = moment, due, path
        self.saved: int | None = None

    def _save(self, trainer: lightning.Trainer, module: _Recorder) -> None:
        trainer.save_checkpoint(self.path)
        self.saved = len(module.trained)

    def _save_and_die(self, trainer: lightning.Trainer, module: _Recorder) -> None:
        self._save(trainer, module)
        raise Killed

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *_: Any) -> None:
        due = len(module.trained) >= self.due
        last = trainer.fit_loop.epoch_loop.batch_progress.is_last_batch
        if due and (self.moment == "step" or (self.moment == "last_batch" and last)):
            self._save_and_die(trainer, module)

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if self.moment == "epoch_end" and len(module.trained) >= self.due:
            self._save_and_die(trainer, module)

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if self.moment == "validation_end" and not trainer.sanity_checking and len(module.trained) >= self.due:
            self._save_and_die(trainer, module)

    def on_exception(self, trainer: lightning.Trainer, module: Any, exception: BaseException) -> None:
        if not isinstance(exception, Killed):
            self._save(trainer, module)


class _OneOfRanks(SingleDeviceStrategy):
    """One rank of several, without the others; nothing here needs their gradients."""

    def __init__(self, rank: int, ranks: int, late_restore: bool) -> None:
        super().__init__("cpu")
        self.global_rank, self.world_size = rank, ranks
        self._late_restore = late_restore

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        """Whether a checkpoint is restored after the loaders exist, as sharded strategies do."""
        return self._late_restore


def datamodule(scenario: Scenario, cache: Path, ranks: int = 1) -> DatasetRTDataModule:
    """Return the scenario's datamodule over :func:`build_numbers`' cache."""
    weighs = Sampling.of(scenario.sampling).uses_weights
    return DatasetRTDataModule(
        {
            "caches": [str(cache)],
            "seed": 11,
            "rules": [{"head": scenario.size}, *([{"weight": {"expr": "score"}}] if weighs else [])],
            "train": {
                "sampling": scenario.sampling,
                "loader": {"batch_size": scenario.batch_size // ranks, "workers": scenario.workers},
            },
            "val": {"rules": [{"head": 4}], "loader": {"batch_size": 2}},
        }
    )


def expected_batches(scenario: Scenario, cache: Path, num_batches: int) -> list[list[int]]:
    """Return the ids of the first batches of the uninterrupted run, from the draws alone."""
    module = datamodule(scenario, cache)
    module.setup("fit")
    view = module.datasets["train"].view
    stream = view.stream(global_batch=scenario.batch_size)
    plan = BatchPlan(stream.epoch_length, scenario.batch_size)
    per_epoch = min(len(plan), scenario.limit_train_batches or len(plan))
    batches = []
    for number in range(num_batches):
        epoch, index = divmod(number, per_epoch)
        positions = stream.positions(epoch, 0, index * scenario.batch_size, scenario.batch_size)
        batches.append(view.records.rows(positions).tolist())
    return batches


def fit(
    scenario: Scenario, cache: Path, trained: list[list[int]], stop: Stop | None, resume: Path | None, ranks: int = 1
) -> bool:
    """Run until the end or the stop, noting the ids of global batches; return whether a checkpoint was made."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    of_ranks: list[list[list[int]]] = []
    for rank in range(ranks):
        own: list[list[int]] = [[]] * len(trained)
        own_stop = stop
        if stop is not None and rank > 0:
            own_stop = Stop(stop.moment, stop.due, stop.path.with_suffix(f".{rank}"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _fit_rank(scenario, cache, own, own_stop, resume, rank, ranks)
        of_ranks.append(own[len(trained) :])
    trained += [[i for part in parts for i in part] for parts in zip(*of_ranks, strict=True)]
    return stop is not None and stop.saved is not None


def _fit_rank(
    scenario: Scenario,
    cache: Path,
    trained: list[list[int]],
    stop: Stop | None,
    resume: Path | None,
    rank: int,
    ranks: int,
) -> None:
    model = _Recorder(scenario, trained)
    if stop is not None and stop.moment in ("exception", "sigint", "sigterm"):
        model.interrupt = (stop.moment, stop.due)
    with tempfile.TemporaryDirectory() as root:
        trainer = lightning.Trainer(
            default_root_dir=root,
            max_epochs=scenario.max_epochs,
            max_steps=scenario.max_steps,
            accumulate_grad_batches=scenario.accumulate,
            limit_train_batches=scenario.limit_train_batches,
            val_check_interval=scenario.val_check_interval,
            reload_dataloaders_every_n_epochs=scenario.reload_every_n,
            strategy=_OneOfRanks(rank, ranks, scenario.late_restore),
            accelerator="cpu",
            devices=1,
            callbacks=[stop] if stop else [],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=1,
        )
        try:
            trainer.fit(model, datamodule=datamodule(scenario, cache, ranks), ckpt_path=resume, **SAFELY)
        except (
            Killed,
            Interrupted,
            KeyboardInterrupt,
            SystemExit,
            lightning.pytorch.utilities.exceptions.SIGTERMException,
        ):
            if stop is None or stop.saved is None:
                raise


def run(scenario: Scenario, cache: Path) -> str | None:
    """Run a scenario; return None if it trained what it should, else what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        whole: list[list[int]] = []
        fit(scenario, cache, whole, None, None)
        if whole != expected_batches(scenario, cache, len(whole)):
            return f"the uninterrupted run differs from its draws: {whole}"
        trained: list[list[int]] = []
        resume: Path | None = None
        for number, (moment, due) in enumerate(scenario.stops):
            stop = Stop(moment, due, Path(folder) / f"{number}.ckpt")
            if not fit(scenario, cache, trained, stop, resume, scenario.ranks[number % len(scenario.ranks)]):
                break  # the run ended before the moment came
            assert stop.saved is not None
            del trained[stop.saved :]
            if trained != whole[: len(trained)]:
                return f"before stop {number} ({moment}): {trained} is not the beginning of {whole}"
            resume = stop.path
        else:
            fit(scenario, cache, trained, None, resume, scenario.ranks[len(scenario.stops) % len(scenario.ranks)])
    if trained != whole:
        return f"resumed: {trained}; uninterrupted: {whole}"
    return None
