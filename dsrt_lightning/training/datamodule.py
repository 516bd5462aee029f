"""``trainer.fit(model, datamodule=DatasetRTDataModule(cfg))``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning
import torch.distributed
from lightning.pytorch.utilities import CombinedLoader

from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.errors import ConfigError
from dsrt_lightning.loading.dataset import RTDataset
from dsrt_lightning.loading.loader import RTLoader
from dsrt_lightning.population.population import Population
from dsrt_lightning.population.snapshot import prepare
from dsrt_lightning.store.cache_set import CacheSet, open_caches
from dsrt_lightning.training.config import SPLITS, DatasetRTConfig, SetConfig, load_config
from dsrt_lightning.training.imports import resolve_callable
from dsrt_lightning.training.resume import ExactResume, TrainingDraws

_SPLITS_OF_STAGE: dict[str | None, tuple[str, ...]] = {
    "fit": ("train", "val"),
    "validate": ("val",),
    "test": ("test",),
    "predict": ("predict",),
    None: SPLITS,
}


class DatasetRTDataModule(lightning.LightningDataModule):
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
        self._draws = TrainingDraws()

    def prepare_data(self) -> None:
        """Write the snapshots of the splits that the run needs."""
        stage = self.trainer.state.fn if self.trainer is not None else None
        caches = self._open_caches()
        for name, part in self._sets(None if stage is None else str(stage.value)).items():
            self._population(caches, name, part)

    def setup(self, stage: str | None = None) -> None:
        """Map the populations of the splits of ``stage``, all splits for None.

        Raises:
            ConfigError: The config lacks a split that the stage needs.
            RuleError: A rule does not fit the metadata.
            EmptyPopulationError: A split's rules leave no row.
        """
        caches = self._open_caches()
        for name, part in self._sets(stage).items():
            population = self._population(caches, name, part)
            self.datasets[name] = RTDataset(caches, population, seed=self.cfg.seed, sampling=_sampling(name, part))
        if self.trainer is not None and not any(isinstance(c, ExactResume) for c in self.trainer.callbacks):
            self.trainer.callbacks.insert(0, ExactResume(self._draws, self._global_batch))

    def train_dataloader(self) -> RTLoader | CombinedLoader:
        """Return the training loader, at the restored position if a checkpoint was loaded.

        With ``train.sets`` it is a ``CombinedLoader`` over a dict of their loaders.
        """
        loaders = self._loaders("train")
        self._draws.begin(loaders)
        if len(loaders) == 1:
            return next(iter(loaders.values()))
        by_set = {name.removeprefix("train."): loader for name, loader in loaders.items()}
        return CombinedLoader(by_set, self.cfg.splits["train"].combine)

    def val_dataloader(self) -> list[RTLoader]:
        """Return the validation loaders, one a set; none if there is no such split."""
        return list(self._loaders("val").values()) if "val" in self.cfg.splits else []

    def test_dataloader(self) -> list[RTLoader]:
        """Return the test loaders, one a set."""
        return list(self._loaders("test").values())

    def predict_dataloader(self) -> list[RTLoader]:
        """Return the prediction loaders, one a set."""
        return list(self._loaders("predict").values())

    def state_dict(self) -> dict[str, Any]:
        """Return the training draws' state: primitives, equal on every rank, without a batch that was not trained."""
        return self._draws.state_dict(batch_in_flight=self._batch_in_flight())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the training draws from a checkpoint.

        Raises:
            StateMismatchError: The state belongs to other draws; raised when the loader is made if it is not yet.
        """
        self._draws.load_state_dict(state_dict)

    def _sets(self, stage: str | None) -> dict[str, SetConfig]:
        wanted = _SPLITS_OF_STAGE.get(stage, SPLITS)
        splits = {name: split for name, split in self.cfg.splits.items() if name in wanted}
        if stage is not None and wanted[0] not in splits:
            existing = ", ".join(self.cfg.splits) or "none"
            raise ConfigError(f"cfg: stage {stage!r} needs the split {wanted[0]!r} (splits: {existing})")
        return {key: part for name, split in splits.items() for key, part in split.expanded(name).items()}

    def _open_caches(self) -> CacheSet:
        return open_caches(self.cfg.caches, verify=self.cfg.verify, allow_pickle=self.cfg.allow_pickle)

    def _population(self, caches: CacheSet, name: str, part: SetConfig) -> Population:
        return prepare(
            caches,
            [*self.cfg.rules, *part.rules],
            where=f"{name}.rules",
            group_columns=_sampling(name, part).group_columns,
            with_metadata=part.loader.transform is not None,
        )

    def _loaders(self, split: str) -> dict[str, RTLoader]:
        if split not in self.cfg.splits:
            raise ConfigError(f"cfg: there is no split {split!r} (splits: {', '.join(self.cfg.splits)})")
        return {name: self._loader(name, part) for name, part in self.cfg.splits[split].expanded(split).items()}

    def _loader(self, name: str, part: SetConfig) -> RTLoader:
        if name not in self.datasets:
            existing = ", ".join(self.datasets) or "none"
            raise ConfigError(f"cfg: {name!r} is not set up (set up: {existing}); call setup first")
        loader = part.loader
        rank, world_size = self._topology()
        return RTLoader(
            self.datasets[name],
            batch_size=loader.batch_size,
            fields=loader.fields,
            transform=self._callable(loader.transform, f"{name}.loader.transform"),
            batch_transform=self._callable(loader.batch_transform, f"{name}.loader.batch_transform"),
            drop_last=name.startswith("train") if loader.drop_last is None else loader.drop_last,
            workers=loader.workers,
            threads=loader.threads,
            prefetch_batches=loader.prefetch_batches,
            prefetch_bytes=loader.prefetch_bytes,
            rank=rank,
            world_size=world_size,
        )

    def _callable(self, value: Any, where: str) -> Callable[..., Any] | None:
        return resolve_callable(value, allow=self.cfg.allow_imports, where=where)

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
        current = self.trainer.fit_loop.epoch_loop.batch_progress.current
        return bool(current.ready > current.processed)


def _sampling(name: str, part: SetConfig) -> Sampling:
    return part.sampling or Sampling.of("weighted" if name.startswith("train") else "sequential")
