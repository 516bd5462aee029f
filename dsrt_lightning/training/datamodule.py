"""``trainer.fit(model, datamodule=DatasetRTDataModule(cfg))``."""

from __future__ import annotations

import warnings
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed
from lightning.pytorch.utilities import CombinedLoader
from lightning.pytorch.utilities.model_helpers import is_overridden

from dsrt_lightning.draws.mix import Mixing
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.errors import ConfigError
from dsrt_lightning.loading.dataset import RTDataset
from dsrt_lightning.loading.loader import RTLoader
from dsrt_lightning.store.cache_set import CacheSet, open_caches
from dsrt_lightning.training.config import SPLITS, DatasetRTConfig
from dsrt_lightning.training.imports import resolve_callable
from dsrt_lightning.training.load_config import load_config
from dsrt_lightning.training.resume import ExactResume, TrainingDraws
from dsrt_lightning.training.splits import LoaderPlan, Planner

_SPLITS_OF_STAGE: dict[str | None, tuple[str, ...]] = {
    "fit": ("train", "val"),
    "validate": ("val",),
    "test": ("test",),
    "predict": ("predict",),
    None: SPLITS,
}


class DatasetRTDataModule(pl.LightningDataModule):
    """Applies a config's rules in ``setup`` and loads its splits; a checkpoint resumes the training draws exactly.

    ``prepare_data`` evaluates the rules once a node and writes each population as a snapshot; ``setup`` maps it on
    every rank, and makes it first where nobody did. Changing the config changes what is trained on, never a cache.

    Args:
        cfg: A YAML path, a mapping (OmegaConf's too), or a :class:`DatasetRTConfig`.

    Raises:
        ConfigError: Every unknown key and wrong value at once.
    """

    def __init__(self, cfg: DatasetRTConfig) -> None:
        super().__init__()
        self.cfg = load_config(cfg)
        self.save_hyperparameters({"cfg": self.cfg.plain()})
        self.datasets: dict[str, RTDataset] = {}
        self._plans_by_name: dict[str, LoaderPlan] = {}
        self._draws = TrainingDraws()

    def prepare_data(self) -> None:
        """Write the snapshots of the splits that the run needs."""
        stage = self.trainer.state.fn if self.trainer is not None else None
        caches = self._open_caches()
        for plan in self._plans(caches, None if stage is None else str(stage.value)):
            plan.prepare(caches, seed=self.cfg.seed)

    def setup(self, stage: str | None = None) -> None:
        """Map the populations of the splits of ``stage``, all splits for None.

        What ``datasets[name].update_metadata`` or ``set_sampling`` changed since an earlier call stays changed.

        Raises:
            ConfigError: The config lacks a split that the stage needs.
            RuleError: A rule does not fit the metadata.
            EmptyPopulationError: A split's rules leave no row.
        """
        caches = self._open_caches()
        for plan in self._plans(caches, stage):
            for text in [text for population in plan.populations for text in population.warnings()]:
                warnings.warn(text, stacklevel=2)
            # A population that was edited after an earlier `setup` is kept; files that rules join may have changed.
            if plan.name in self.datasets and self.datasets[plan.name].is_edited:
                continue
            self._plans_by_name[plan.name] = plan
            self.datasets[plan.name] = plan.prepare(caches, seed=self.cfg.seed)
        if stage == "fit":
            self._draws.clear()
        if self.trainer is not None:
            callbacks = self.trainer.callbacks  # type: ignore[attr-defined]  # set by its connectors
            if not any(isinstance(callback, ExactResume) for callback in callbacks):
                callbacks.insert(0, ExactResume(self._draws, self._global_batch))

    def set_sampling(self, name: str, sampling: Sampling | str | dict[str, Any]) -> None:
        """Draw a split's or set's next loader otherwise, for example with another ``epoch_length``.

        Called at the top of an overridden ``train_dataloader``, with ``Trainer(reload_dataloaders_every_n_epochs=1)``,
        it lets every epoch have a length of its own that may depend on ``self.trainer.current_epoch``.

        Args:
            name: ``train``, or ``train.labelled`` for a set.
            sampling: As in YAML. Mode ``quota`` needs the column that the config's sampling named.
        """
        if name not in self.datasets:
            raise ConfigError(f"set_sampling: {name!r} is not set up (set up: {', '.join(self.datasets) or 'none'})")
        dataset = self.datasets[name]
        records = dataset.view.records
        self.datasets[name] = RTDataset(
            records.caches, records.population, seed=dataset.seed, sampling=Sampling.of(sampling)
        )
        self.datasets[name].is_edited = True

    def train_dataloader(self) -> RTLoader | CombinedLoader:
        """Return the training loader, at the restored position if a checkpoint was loaded.

        With ``train.sets`` it is a ``CombinedLoader`` over a dict of their loaders.
        """
        loaders = self._loaders("train")
        combine = self.cfg.splits["train"].combine
        self._draws.begin(loaders, stay_at_end=combine == "max_size")
        if len(loaders) == 1:
            return next(iter(loaders.values()))
        by_set = {name.removeprefix("train."): loader for name, loader in loaders.items()}
        return CombinedLoader(by_set, combine)

    def val_dataloader(self) -> list[RTLoader]:
        """Return the validation loaders, one a set; none if there is no such split."""
        return list(self._loaders("val").values()) if "val" in self.cfg.splits else []

    def test_dataloader(self) -> list[RTLoader]:
        """Return the test loaders, one a set."""
        return list(self._loaders("test").values())

    def predict_dataloader(self) -> list[RTLoader]:
        """Return the prediction loaders, one a set."""
        return list(self._loaders("predict").values())

    def plan(self, name: str) -> LoaderPlan:
        """Return what the config says of a loader that is set up: ``train``, or ``train.labelled`` for a set."""
        return self._plans_by_name[name]

    def state_dict(self) -> dict[str, Any]:
        """Return the training draws' state: primitives, equal on every rank, without a batch that was not trained."""
        return self._draws.state_dict(batch_in_flight=self._batch_in_flight())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the training draws from a checkpoint.

        Raises:
            StateMismatchError: The state belongs to other draws; raised when the loader is made if it is not yet.
        """
        self._draws.load_state_dict(state_dict)

    def _plans(self, caches: CacheSet, stage: str | None) -> list[LoaderPlan]:
        if stage not in _SPLITS_OF_STAGE:
            stages = ", ".join(name for name in _SPLITS_OF_STAGE if name)
            raise ValueError(f"setup: the stage is {stage!r} but must be one of {stages}, or None for all")
        wanted = _SPLITS_OF_STAGE[stage]
        if stage is not None and wanted[0] not in self.cfg.splits:
            existing = ", ".join(self.cfg.splits) or "none"
            raise ConfigError(f"{self.cfg.where}: stage {stage!r} needs the split {wanted[0]!r} (splits: {existing})")
        planner = Planner(self.cfg, caches)
        return [plan for name in self.cfg.splits if name in wanted for plan in planner.loaders(name)]

    def _open_caches(self) -> CacheSet:
        return open_caches(self.cfg.caches, verify=self.cfg.verify, allow_pickle=self.cfg.allow_pickle)

    def _loaders(self, split: str) -> dict[str, RTLoader]:
        if split not in self.cfg.splits:
            existing = ", ".join(self.cfg.splits) or "none"
            raise ConfigError(f"{self.cfg.where}: there is no split {split!r} (splits: {existing})")
        plans = [plan for name, plan in self._plans_by_name.items() if name.partition(".")[0] == split]
        if not plans:
            existing = ", ".join(self.datasets) or "none"
            raise ConfigError(f"{self.cfg.where}: {split} is not set up (set up: {existing}); call setup first")
        return {plan.name: self._loader(plan) for plan in plans}

    def _loader(self, plan: LoaderPlan) -> RTLoader:
        rank, world_size = self._topology()
        settings = plan.loader.model_dump()
        for key in ("transform", "batch_transform"):
            where = f"{self.cfg.where}: {plan.name}.loader.{key}"
            settings[key] = resolve_callable(settings[key], allow=self.cfg.allow_imports, where=where)
        device = self._device() if settings.pop("device_prefetch") else None
        return RTLoader(self._dataset(plan), **settings, device=device, rank=rank, world_size=world_size)

    def _device(self) -> torch.device | None:
        """Return the run's GPU; None without one, and where a hook is written for batches before their transfer."""
        if self.trainer is None or self.trainer.strategy.root_device.type != "cuda":
            return None
        hooks = ("on_before_batch_transfer", "transfer_batch_to_device")
        owners = (self, self.trainer.lightning_module)
        if any(is_overridden(hook, owner) for hook in hooks for owner in owners):
            return None
        return self.trainer.strategy.root_device

    def _dataset(self, plan: LoaderPlan) -> RTDataset:
        dataset = self.datasets[plan.name]
        if getattr(self.trainer, "overfit_batches", 0) == 0:
            return dataset
        # The same batches in every epoch, as Lightning has it for DataLoaders.
        if isinstance(plan.sampling, Mixing):
            raise ConfigError(
                f"{self.cfg.where}: {plan.name}.mix: overfit_batches draws one population in order, not a mix"
            )
        records = dataset.view.records
        return RTDataset(records.caches, records.population, seed=dataset.seed, sampling=Sampling.of("sequential"))

    def _topology(self) -> tuple[int, int]:
        if self.trainer is not None:
            return self.trainer.global_rank, self.trainer.world_size
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1

    def _global_batch(self, world_size: int) -> int | None:
        train = self.cfg.train
        return None if train is None or train.sets else train.loader.batch_size * world_size

    def _batch_in_flight(self) -> bool:
        if self.trainer is None:
            return False
        current: Any = self.trainer.fit_loop.epoch_loop.batch_progress.current
        return bool(current.ready > current.processed)
