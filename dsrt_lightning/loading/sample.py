"""What a user gets for one record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsrt_lightning.population.mixed import MixedPopulation
    from dsrt_lightning.population.population import Population


class Sample:
    """One decoded record with its metadata.

    Attributes:
        data: What the codec makes of the stored bytes. Arrays are read-only views; copy before writing to them.
        cache_id: Which cache it comes from.
        sample_id: Its row in that cache.
    """

    __slots__ = ("_metadata", "_population", "_position", "cache_id", "data", "sample_id")

    def __init__(
        self, data: Any, cache_id: int, sample_id: int, population: Population | MixedPopulation, position: int
    ) -> None:
        self.data = data
        self.cache_id = cache_id
        self.sample_id = sample_id
        self._population = population
        self._position = position
        self._metadata: Mapping[str, Any] | None = None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The row's metadata columns, ``weight`` among them, as the population has them; looked up when asked for."""
        if self._metadata is None:
            self._metadata = self._population.metadata(self._position)
        return self._metadata

    def __repr__(self) -> str:
        return f"Sample(cache_id={self.cache_id}, sample_id={self.sample_id}, data={type(self.data).__name__})"
