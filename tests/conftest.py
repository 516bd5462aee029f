"""What all tests share: a cache directory of their own, and the digits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_modules import example_modules
from hypothesis import settings

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
