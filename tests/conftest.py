"""What all tests share: a cache directory of their own, and the digits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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


class example_modules:
    """Within it, an example's modules can be imported as its scripts import them."""

    def __init__(self, name: str) -> None:
        self._folder = os.fspath(ROOT / "examples" / name)

    def __enter__(self) -> None:
        self._before = set(sys.modules)
        sys.path.insert(0, self._folder)

    def __exit__(self, *_: object) -> None:
        sys.path.remove(self._folder)
        for name in set(sys.modules) - self._before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(self._folder):
                del sys.modules[name]
