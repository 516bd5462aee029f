"""Imports the examples' modules as their scripts do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
