"""A population that is nothing but weights and class columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class FakePopulation:
    weights: NDArray[np.float64]
    columns: dict[str, list[Any]] = field(default_factory=dict)
    tables: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def uniform(self) -> bool:
        return bool(np.all(self.weights == self.weights[0]))

    def group_codes(self, column: str) -> tuple[NDArray[np.int32], list[Any]]:
        values = sorted(set(self.columns[column]))
        return np.array([values.index(value) for value in self.columns[column]], dtype=np.int32), values

    def table(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        if name not in self.tables:
            self.tables[name] = make()
            self.tables[name].flags.writeable = False
        return self.tables[name]


def uniform_population(size: int) -> FakePopulation:
    return FakePopulation(np.ones(size))


def weighted_population(weights: Sequence[float]) -> FakePopulation:
    return FakePopulation(np.array(weights, dtype=np.float64))
