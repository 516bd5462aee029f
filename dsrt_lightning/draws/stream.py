"""The draws of a population: which rows, in which order, as a pure function of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dsrt_lightning import _core
from dsrt_lightning.draws.quota import quota_draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsrt_lightning.draws.sampling import Sampling


class Drawable(Protocol):
    """What the draws need of a population."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """Float64 ``[P]``, finite and above 0."""

    @property
    def uniform(self) -> bool:
        """Whether all weights are equal."""

    def __len__(self) -> int: ...

    def group_codes(self, column: str) -> tuple[NDArray[np.int32], list[Any]]:
        """Return int32 ``[P]`` codes into the list of the column's values."""

    def table(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what ``make`` made, the first time or now; mapped where the population is."""


class DrawStream:
    """The draws of every epoch and pass over a population.

    A draw depends only on the population, sampling, seed, epoch, pass and position (``quota``: on ``global_batch``
    too): read in any order, in pieces of any size, on any rank, it is the same. Resuming needs only a position.

    Args:
        population: ``P >= 1`` rows.
        sampling: How they are drawn.
        seed: In ``[0, 2**64)``.
        global_batch: Rows of a batch over all ranks, ``>= 1``; ``quota`` needs it.

    Attributes:
        epoch_length: Draws of an epoch over all ranks.
        native: The draws themselves.

    Raises:
        ValueError: A number is out of range, or the population cannot be drawn like this.
    """

    def __init__(self, population: Drawable, sampling: Sampling, seed: int, *, global_batch: int | None = None) -> None:
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed is {seed} but must lie in [0, 2^64)")
        self.population = population
        self.sampling = sampling
        self.seed = seed
        self.global_batch = global_batch
        self.epoch_length = sampling.epoch_length or len(population)
        self.native = _NATIVE[sampling.mode](self)

    def positions(self, epoch: int, pass_: int, start: int, count: int) -> NDArray[np.int64]:
        """Return part of one epoch's draws.

        Args:
            epoch: In ``[0, 2**32)``.
            pass_: Iteration of that epoch, in ``[0, 2**32)``.
            start: First position in the epoch, counted over all ranks.
            count: Number of positions; ``start + count`` may not exceed ``epoch_length``.

        Returns:
            int64 ``[count]`` indices into the population's rows.

        Raises:
            ValueError: A number is out of range.
        """
        return self.native.draw(epoch, pass_, start, count)

    def __reduce__(self) -> tuple[Callable[..., DrawStream], tuple[object, ...]]:
        return _remake, (self.population, self.sampling, self.seed, self.global_batch)


def _remake(population: Drawable, sampling: Sampling, seed: int, global_batch: int | None) -> DrawStream:
    return DrawStream(population, sampling, seed, global_batch=global_batch)


def _sequential(stream: DrawStream) -> _core.Draws:
    return _core.SequentialDraws(len(stream.population), stream.epoch_length)


def _shuffle(stream: DrawStream) -> _core.Draws:
    return _core.ShuffleDraws(len(stream.population), stream.epoch_length, stream.seed)


def _weighted(stream: DrawStream) -> _core.Draws:
    population = stream.population
    table = None
    if not population.uniform:
        table = population.table("alias", lambda: _core.build_alias_table(population.weights))
    return _core.WeightedDraws(len(population), stream.epoch_length, stream.seed, table)


def _weighted_once(stream: DrawStream) -> _core.Draws:
    return _core.WeightedOnceDraws(stream.population.weights, stream.epoch_length, stream.seed)


def _quota(stream: DrawStream) -> _core.Draws:
    return quota_draws(stream.population, stream.sampling, stream.epoch_length, stream.seed, stream.global_batch)


def _blocks(stream: DrawStream) -> _core.Draws:
    block, window = stream.sampling.block_records, stream.sampling.window_records
    assert block is not None
    assert window is not None
    return _core.BlockDraws(len(stream.population), stream.epoch_length, stream.seed, block, window)


_NATIVE: dict[str, Callable[[DrawStream], _core.Draws]] = {
    "sequential": _sequential,
    "shuffle": _shuffle,
    "weighted": _weighted,
    "weighted_once": _weighted_once,
    "quota": _quota,
    "blocks": _blocks,
}
