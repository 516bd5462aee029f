"""Work that releases the GIL, spread over the processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MIN_ITEMS = 16  # for fewer, starting threads costs more than they save
_MAX_THREADS = 8  # by then memory is the limit


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what the function gives for each item, in order; the first exception that it raises is raised here."""
    with begun_in_threads(function, items, worthwhile=len(items) >= _MIN_ITEMS) as results:
        return list(results)


@contextmanager
def begun_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], *, worthwhile: bool
) -> Iterator[Iterator[Result]]:
    """Begin the work of `map_in_threads` and give its results as they come, so that the caller can work meanwhile.

    Args:
        function, items: The work.
        worthwhile: Otherwise the caller works on each item when it asks for its result.
    """
    if not worthwhile:
        yield map(function, items)
        return
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_THREADS)) as pool:
        yield pool.map(function, items)
