"""What all tests share: a cache directory of their own, and the digits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cache_builders import numbers
from example_modules import example_modules
from hypothesis import settings

from dsrt_lightning import open_dataset
from dsrt_lightning.loading.dataset import RTDataset

# A busy machine is no failure: hypothesis judges results, not times.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _own_snapshot_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache directory out of the tests, also of the processes that they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSRT_CACHE_DIR", os.fspath(tmp_path_factory.mktemp("dsrt_cache_dir")))
        yield


@pytest.fixture(scope="session")
def digits_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``caches/digits``, built by the example; read it, do not write to it."""
    root = tmp_path_factory.mktemp("digits")
    with example_modules("digits"):
        from build import build

        build(os.fspath(root / "caches"))
    return root


@pytest.fixture(scope="session")
def numbers_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """48 numbers; read it, do not write to it."""
    return str(numbers(tmp_path_factory.mktemp("caches")))


@pytest.fixture
def dataset(numbers_cache: str) -> RTDataset:
    """The numbers, shuffled."""
    return open_dataset(numbers_cache, seed=5, sampling="shuffle")


@pytest.fixture
def cfg(numbers_cache: str) -> dict[str, Any]:
    """A configuration that trains on 24 of them and validates on 12."""
    return {
        "caches": [numbers_cache],
        "seed": 7,
        "rules": [{"keep": "score >= 2"}],
        "train": {
            "rules": [{"keep": "label < 2"}, {"weight": {"balance": "label"}}],
            "sampling": {"mode": "weighted", "epoch_length": 20},
            "loader": {"batch_size": 4},
        },
        "val": {"rules": [{"keep": "label = 2"}], "loader": {"batch_size": 5}},
    }
