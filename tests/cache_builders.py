"""Small caches that the loading and training tests read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dsrt_lightning import CacheInput, build_caches


class Records:
    """A source over a list of (sample, metadata)."""

    def __init__(self, name: str, records: Iterable[tuple[Any, dict[str, Any]]]) -> None:
        self.name = name
        self._records = list(records)

    def __iter__(self) -> Iterator[CacheInput]:
        for data, metadata in self._records:
            yield CacheInput(data, metadata)


def build(root: Path, name: str, records: Iterable[tuple[Any, dict[str, Any]]], **options: Any) -> Path:
    """Build one cache and return its path."""
    options = {"codec": "arrays", "progress": False, **options}
    (result,) = build_caches([Records(name, records)], root, **options)
    return result.unwrap().path


def numbers(root: Path, name: str = "numbers", count: int = 48, **options: Any) -> Path:
    """Build a cache whose record ``i`` holds ``{"id": i, "image": 2x3 filled with i}``; labels are ``i % 3``."""
    return build(
        root,
        name,
        [
            ({"id": np.int64(i), "image": np.full((2, 3), i, np.uint8)}, {"label": i % 3, "score": 1.0 + i % 4})
            for i in range(count)
        ],
        **options,
    )
