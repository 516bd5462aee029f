"""Which rows may take the place of one that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dsrt_lightning import _core
from dsrt_lightning.draws.mix import Mixing
from dsrt_lightning.draws.quota import class_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dsrt_lightning.draws.sampling import Sampling
    from dsrt_lightning.draws.stream import Drawable


class DrawableMix(Protocol):
    """What the candidates need of populations that are laid end to end."""

    @property
    def parts(self) -> Sequence[Drawable]:
        """The populations."""

    def part_at(self, position: int) -> tuple[int, int]:
        """Return the number of the part that ``position`` lies in, and the part's first position."""


def candidates(
    population: Drawable | DrawableMix, sampling: Sampling | Mixing, position: int, count: int
) -> NDArray[np.int64]:
    """Return positions that a draw of ``position`` may give instead, in the order in which to try them.

    They keep the shares: of the same part of a mix and, drawn by ``quota``, of the same class. Among those each is
    as likely as any other, so what stands in for the rows of a lost shard is spread over all that is left. They
    depend on the population and the position alone.

    Args:
        population: What is drawn from.
        sampling: How it is drawn.
        position: A population position.
        count: How many to return at most.

    Returns:
        int64 ``[min(count, rows to choose from)]`` population positions without repeats; ``position`` may be one.
    """
    if isinstance(sampling, Mixing):
        number, start = population.part_at(position)  # type: ignore[union-attr]
        part = population.parts[number]  # type: ignore[union-attr]
        return candidates(part, sampling.samplings[number], position - start, count) + start
    if sampling.mode == "quota":
        assert sampling.column is not None
        rows = class_rows(population, sampling.column, position)  # type: ignore[arg-type]
        return rows[_some(len(rows), position, count)]
    return _some(len(population), position, count)  # type: ignore[arg-type]


def _some(size: int, seed: int, count: int) -> NDArray[np.int64]:
    return _core.ShuffleDraws(size, size, seed).draw(0, 0, 0, min(count, size))
