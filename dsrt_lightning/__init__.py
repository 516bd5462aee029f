"""Cached, selectable, exactly resumable training data for PyTorch Lightning.

Preprocess once; after that an experiment is a YAML file that selects, weights and orders the records of immutable
caches, and a checkpoint taken anywhere resumes it exactly. Public names are loaded when first used, so that a
worker process that unpickles a dataset imports neither Polars nor Lightning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsrt_lightning.loading.batch_sampler import RTBatchSampler as RTBatchSampler
    from dsrt_lightning.loading.dataset import open_dataset as open_dataset
    from dsrt_lightning.loading.device import DevicePrefetcher as DevicePrefetcher
    from dsrt_lightning.loading.loader import RTLoader as RTLoader
    from dsrt_lightning.loading.nodes import BatchNode as BatchNode
    from dsrt_lightning.loading.nodes import DevicePrefetchNode as DevicePrefetchNode
    from dsrt_lightning.store.build import build_caches as build_caches
    from dsrt_lightning.store.sources import CacheInput as CacheInput
    from dsrt_lightning.training.cli import DatasetRTCLI as DatasetRTCLI
    from dsrt_lightning.training.config import DatasetRTConfig as DatasetRTConfig
    from dsrt_lightning.training.datamodule import DatasetRTDataModule as DatasetRTDataModule
    from dsrt_lightning.training.profile import LoaderProfile as LoaderProfile

_MODULE_OF = {
    "BatchNode": "loading.nodes",
    "CacheInput": "store.sources",
    "DatasetRTCLI": "training.cli",
    "DatasetRTConfig": "training.config",
    "DatasetRTDataModule": "training.datamodule",
    "DevicePrefetchNode": "loading.nodes",
    "DevicePrefetcher": "loading.device",
    "LoaderProfile": "training.profile",
    "RTBatchSampler": "loading.batch_sampler",
    "RTLoader": "loading.loader",
    "build_caches": "store.build",
    "open_dataset": "loading.dataset",
}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
