"""The dataset in code: look at its metadata, change it, index it, iterate over its draws."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from torch.utils.data import Dataset

from dsrt_lightning._core import RawReader
from dsrt_lightning.draws.mix import Mixing
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.errors import ConfigError
from dsrt_lightning.loading.assemble import decode_samples, read_samples
from dsrt_lightning.loading.sample import Sample
from dsrt_lightning.loading.view import Records, View
from dsrt_lightning.population.mixed import MixedPopulation
from dsrt_lightning.population.population import Population
from dsrt_lightning.store.cache_set import Verify, open_caches

if TYPE_CHECKING:
    import polars as pl

    from dsrt_lightning.store.cache_set import CacheSet

# Draws that iteration decodes at a time: enough to keep the reader threads busy, few enough to begin early.
_CHUNK = 64


class RTDataset(Dataset[Sample]):
    """Records of one or more caches, the population chosen from them, and how it is drawn.

    Indexing is by population position. Nothing here changes a file: :meth:`update_metadata` replaces the population
    at once, and iterators that run keep the one they began with.

    Args:
        caches: The opened caches.
        population: The chosen rows and weights.
        seed: In ``[0, 2**64)``.
        sampling: How an epoch is drawn.

    Attributes:
        is_edited: Whether it was changed in code since it was made.
    """

    def __init__(
        self, caches: CacheSet, population: Population | MixedPopulation, *, seed: int, sampling: Sampling | Mixing
    ) -> None:
        self.view = View(Records(caches, population), sampling, seed)
        self.is_edited = False
        self._frame: pl.DataFrame | None = None
        self._epoch = 0
        self._pass = 0

    @property
    def caches(self) -> CacheSet:
        """The opened caches."""
        return self.view.records.caches

    @property
    def population(self) -> Population | MixedPopulation:
        """The present population."""
        return self.view.records.population

    @property
    def sampling(self) -> Sampling | Mixing:
        """How an epoch is drawn."""
        return self.view.sampling

    @property
    def seed(self) -> int:
        """The seed of the draws."""
        return self.view.seed

    def get_metadata(self) -> pl.DataFrame:
        """Return the population as a frame: ``cache_id, sample_id, <columns>, weight``, a row each.

        Before the first update those are the rows that rules chose, or every record once, with weight 1.
        """
        if self._frame is None:
            self._frame = self.population.frame()
        return self._frame

    def update_metadata(self, frame: pl.DataFrame | pl.LazyFrame) -> None:
        """Make ``frame`` the population: its rows, in its order, with its weights.

        Rows may be left out or repeated; ``weight`` defaults to 1; further columns are kept for samples' metadata.

        Raises:
            MetadataError: A column is missing or an id is unknown.
            WeightError: A weight is not finite, negative, or all are zero.
            EmptyPopulationError: There is no row. In all cases nothing has changed.
            ConfigError: The dataset mixes several populations, which their rules alone can change.
        """
        if isinstance(self.sampling, Mixing):
            raise ConfigError(
                f"a mix of {len(self.sampling.ratios)} populations cannot be replaced by one frame; change its rules"
            )
        collected = frame.lazy().collect()
        population = Population.from_frame(self.caches, collected)
        self.view = View(Records(self.caches, population), self.sampling, self.seed)
        self._frame = collected
        self.is_edited = True

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration draw the first pass of ``epoch``."""
        if epoch != self._epoch:
            self._epoch, self._pass = epoch, 0

    def __len__(self) -> int:
        """Rows of the population."""
        return len(self.population)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        """Return the sample at a population position, or the list of a slice of them.

        Raises:
            IndexError: The position is outside the population.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Return the samples at several population positions, read together."""
        size = len(self)
        positions = np.asarray(indices, dtype=np.int64).reshape(-1)
        outside = (positions < -size) | (positions >= size)
        if outside.any():
            raise IndexError(f"position {positions[outside][0]} is outside the population of {size} rows")
        return list(read_samples(self.view.records, np.where(positions < 0, positions + size, positions)))

    def get_item(self, cache_id: int, sample_id: int) -> Sample:
        """Return a record of the population by its ids.

        Raises:
            KeyError: The population holds no such record.
        """
        position = self.population.find(cache_id, sample_id)
        return self[position]

    def __iter__(self) -> Iterator[Sample]:
        """Yield the draws of one pass over the epoch; each further iteration is the epoch's next pass."""
        view, epoch, pass_ = self.view, self._epoch, self._pass
        self._pass += 1
        return _iterate(view, epoch, pass_)


def _iterate(view: View, epoch: int, pass_: int) -> Iterator[Sample]:
    records = view.records
    stream = view.stream(global_batch=1)
    starts = iter(range(0, stream.epoch_length, _CHUNK))
    waiting: deque[np.ndarray] = deque()
    touch_ahead = not records.caches.codec.gives_views
    reader = RawReader(records.caches.shards, threads=2, max_batches=4, max_bytes=64 << 20, touch_ahead=touch_ahead)
    try:
        while True:
            while reader.can_submit() and (start := next(starts, None)) is not None:
                count = min(_CHUNK, stream.epoch_length - start)
                positions = stream.positions(epoch, pass_, start, count)
                reader.submit(records.rows(positions))
                waiting.append(positions)
            if not waiting:
                return
            yield from decode_samples(records, reader.next(), waiting.popleft())
    finally:
        reader.close()


def open_dataset(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    seed: int = 0,
    sampling: Sampling | str | dict[str, Any] | None = None,
    epoch_length: int | None = None,
    verify: Verify = "first",
    allow_pickle: bool = False,
) -> RTDataset:
    """Open caches as one dataset of all their records, each with weight 1.

    Args:
        paths: One cache or several; all must have been built with the same codec and schema.
        seed: In ``[0, 2**64)``.
        sampling: A mode's name, its options, or a :class:`~dsrt_lightning.draws.sampling.Sampling`. The default draws
            by weight with replacement.
        epoch_length: Draws of an epoch over all ranks; None takes as many as there are rows.
        verify: When records are checked against their CRC32C: ``first`` (read by this process), ``always``, ``never``.
        allow_pickle: Open caches whose samples are pickled. Reading one runs code it contains; trust its origin.

    Raises:
        CacheNotFoundError: A path holds no complete cache.
        CacheConflictError: The same cache was named twice.
        ConfigError: The caches differ in codec or schema.
        PickleNotAllowedError: A cache holds pickles and ``allow_pickle`` is False.
    """
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed} but must be in [0, 2^64)")
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    caches = open_caches(listed, verify=verify, allow_pickle=allow_pickle)
    chosen = Sampling.of(sampling if sampling is not None else "weighted", epoch_length=epoch_length)
    return RTDataset(caches, Population.all_rows(caches), seed=seed, sampling=chosen)
