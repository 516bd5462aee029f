"""Several populations of the same caches, laid end to end, without copying them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dsrt_lightning.store.lazy import lazy_property

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from dsrt_lightning.population.population import Population
    from dsrt_lightning.store.cache_set import CacheSet


class MixedPopulation:
    """Populations whose positions follow each other; each part stays in its own, mapped, files.

    Attributes:
        caches: What the record numbers of all parts count.
        parts: The populations.
    """

    def __init__(self, parts: Sequence[Population]) -> None:
        self.parts = tuple(parts)
        self.caches: CacheSet = parts[0].caches
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        """Rows of all parts."""
        return int(self._ends[-1])

    @lazy_property
    def digest(self) -> str:
        """SHA-256 in hex over the parts' digests in order; stored in checkpoints."""
        return hashlib.sha256("\n".join(["dsrt.mix.1", *(part.digest for part in self.parts)]).encode()).hexdigest()

    def rows_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the record numbers at positions, int64 of the same shape."""
        gathered = np.empty(positions.shape, np.int64)
        for part, chosen, own in self._split(positions):
            gathered[chosen] = part.rows_at(own)
        return gathered

    def weights_at(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights at positions, float64 of the same shape."""
        gathered = np.empty(positions.shape, np.float64)
        for part, chosen, own in self._split(positions):
            gathered[chosen] = part.weights[own]
        return gathered

    def metadata(self, position: int) -> dict[str, object]:
        """Return the columns of one row, as its part has them.

        Raises:
            IndexError: ``position`` is not in ``[0, P)``.
        """
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is not in [0, {len(self)})")
        number, start = self.part_at(position)
        return self.parts[number].metadata(position - start)

    def find(self, cache_id: int, sample_id: int) -> int:
        """Return the first position of a record.

        Raises:
            KeyError: No part has it.
        """
        for number, part in enumerate(self.parts):
            try:
                return self._start(number) + part.find(cache_id, sample_id)
            except KeyError:
                continue
        raise KeyError(f"the populations have no row of cache_id {cache_id}, sample_id {sample_id}")

    def frame(self) -> pl.DataFrame:
        """Return all rows as one metadata table, with null where a part lacks another's column."""
        import polars as pl

        return pl.concat([part.frame() for part in self.parts], how="diagonal")

    def part_at(self, position: int) -> tuple[int, int]:
        """Return the number of the part that ``position`` lies in, and the part's first position."""
        number = int(np.searchsorted(self._ends, position, side="right"))
        return number, self._start(number)

    def _start(self, number: int) -> int:
        return int(self._ends[number]) - len(self.parts[number])

    def _split(self, positions: NDArray[np.int64]) -> Iterator[tuple[Population, NDArray[np.bool_], NDArray[np.int64]]]:
        """Yield each part that is asked for, which of ``positions`` are in it, and their positions there."""
        numbers = np.searchsorted(self._ends, positions, side="right")
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            yield self.parts[number], chosen, positions[chosen] - self._start(number)
