"""Every record once, without an array that says so."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsrt_lightning.store.cache_set import CacheSet


class ListedRows:
    """The record numbers of all records, caches in the order they were given: computed where they are asked for.

    Record numbers count the caches in another order; within a cache both go up by one.
    """

    def __init__(self, caches: CacheSet) -> None:
        bases = {cache.cache_id: base for cache, base in zip(caches.caches, caches.bases, strict=True)}
        *starts, self._size = accumulate((cache.num_records for cache in caches.listed), initial=0)
        self._cache_ids = np.array([cache.cache_id for cache in caches.listed], np.int64)
        self._starts = np.array(starts, np.int64)
        self._shifts = np.array([bases[cache.cache_id] for cache in caches.listed], np.int64) - self._starts

    def __len__(self) -> int:
        """Records."""
        return self._size

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the record numbers at positions in ``[0, len)``, int64 of the same shape."""
        if not self._shifts.any():
            return np.array(positions, np.int64)
        return positions + self._shifts[np.searchsorted(self._starts, positions, side="right") - 1]

    def are(self, start: int, cache_ids: NDArray[np.int64], sample_ids: NDArray[np.int64]) -> bool:
        """Return whether ids ``[n]`` are those of positions ``[start, start + n)`` in ``[0, len)``."""
        end = start + len(sample_ids)
        first, last = np.searchsorted(self._starts, [start, end - 1], side="right") - 1
        if first == last:  # as nearly always: no array that repeats numbers
            if not (cache_ids == self._cache_ids[first]).all():
                return False
            return bool((sample_ids == np.arange(start - self._starts[first], end - self._starts[first])).all())
        starts = self._starts[first : last + 1]
        lengths = np.diff(starts.clip(start), append=end)
        if not (cache_ids == np.repeat(self._cache_ids[first : last + 1], lengths)).all():
            return False
        return bool((sample_ids == np.arange(start, end) - np.repeat(starts, lengths)).all())
