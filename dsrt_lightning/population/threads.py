"""Work that releases the GIL, spread over the processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MIN_ITEMS = 16  # for fewer, starting threads costs more than they save
_MAX_THREADS = 8  # by then memory is the limit


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what the function gives for each item, in order; the first exception that it raises is raised here."""
    if len(items) < _MIN_ITEMS:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_THREADS)) as pool:
        return list(pool.map(function, items))
