"""One population with its draws, never changed once made, so that running iterators keep theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dsrt_lightning.draws.cursor import StreamIdentity
from dsrt_lightning.draws.mix import Mixing, MixStream
from dsrt_lightning.draws.stream import DrawStream
from dsrt_lightning.population.mixed import MixedPopulation
from dsrt_lightning.population.population import Population

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsrt_lightning.draws.sampling import Sampling
    from dsrt_lightning.store.cache_set import CacheSet


@dataclass(frozen=True)
class Records:
    """The rows of a population and the caches they lie in; all that a worker process needs.

    Attributes:
        caches: The opened caches.
        population: Its ``rows`` are record numbers of ``caches``.
    """

    caches: CacheSet
    population: Population | MixedPopulation

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the record numbers of population positions, int64 of the same shape."""
        return self.population.rows_at(positions)

    def ids(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return ``(cache_id, sample_id)`` of record numbers, each int64 of the same shape."""
        bases = np.asarray(self.caches.bases, dtype=np.int64)
        ordinals = np.searchsorted(bases, rows, side="right") - 1
        cache_ids = np.array([cache.cache_id for cache in self.caches.caches], dtype=np.int64)
        return cache_ids[ordinals], rows - bases[ordinals]


@dataclass(frozen=True)
class View:
    """Records and how they are drawn."""

    records: Records
    sampling: Sampling | Mixing
    seed: int

    def stream(self, global_batch: int) -> DrawStream | MixStream:
        """Return the draws for batches of ``global_batch`` rows over all ranks."""
        population = self.records.population
        if isinstance(self.sampling, Mixing):
            assert isinstance(population, MixedPopulation), "a mixing draws from several populations"
            return MixStream(population.parts, self.sampling, self.seed, global_batch=global_batch)
        assert isinstance(population, Population), "a sampling draws from one population"
        return DrawStream(population, self.sampling, self.seed, global_batch=global_batch)

    def identity(self, global_batch: int) -> StreamIdentity:
        """Return what a state of these draws belongs to."""
        population = self.records.population
        return StreamIdentity(
            population=population.digest,
            population_size=len(population),
            sampling=self.sampling.text(),
            seed=self.seed,
            global_batch=global_batch if self.sampling.uses_global_batch else None,
        )
