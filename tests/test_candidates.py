"""Which rows may take a lost one's place: few promises, each pinned."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fake_population import FakePopulation, uniform_population
from reference_draws import shuffle

from dsrt_lightning.draws.candidates import candidates
from dsrt_lightning.draws.mix import Mixing
from dsrt_lightning.draws.sampling import Sampling

SHUFFLE = Sampling.of("shuffle")
QUOTA = Sampling.of({"mode": "quota", "column": "label", "shares": "equal"})


class Laid:
    """Populations end to end."""

    def __init__(self, *parts):
        self.parts = parts

    def part_at(self, position):
        starts = np.cumsum([0, *(len(part) for part in self.parts)])
        number = int(np.searchsorted(starts, position, side="right")) - 1
        return number, int(starts[number])


def labelled(labels):
    return FakePopulation(np.ones(len(labels)), {"label": list(labels)})


def test_the_order_is_that_of_a_shuffle_whose_seed_is_the_position():
    named = candidates(uniform_population(1000), SHUFFLE, 7, 5).tolist()
    assert named == [87, 860, 551, 23, 613]  # part of what a run trained on: it does not change
    assert named == [shuffle(1000, 1000, 7, 0, 0, i) for i in range(5)]


@pytest.mark.parametrize("size", [1, 2, 48, 200])
def test_no_row_is_named_twice_and_every_row_of_a_small_population_is(size):
    named = candidates(uniform_population(size), SHUFFLE, size - 1, 100).tolist()
    assert len(set(named)) == len(named) == min(size, 100)
    assert set(named) <= set(range(size))


def test_they_lie_anywhere_so_that_a_lost_shard_is_spread_over_the_rest():
    first = [int(candidates(uniform_population(1000), SHUFFLE, position, 1)[0]) for position in range(300)]
    assert len(set(first)) > 200
    assert Counter(position // 500 for position in first)[0] in range(100, 200)


def test_under_quota_they_are_of_the_same_class():
    population = labelled("abacabadab")
    for position, label in enumerate(population.columns["label"]):
        named = candidates(population, QUOTA, position, 100).tolist()
        assert sorted(named) == [i for i in range(10) if population.columns["label"][i] == label]


def test_of_a_mix_they_are_of_the_same_part_and_there_of_the_same_class():
    mix = Laid(uniform_population(4), labelled("abab"))
    mixing = Mixing((1.0, 1.0), (SHUFFLE, QUOTA))
    assert sorted(candidates(mix, mixing, 3, 100).tolist()) == [0, 1, 2, 3]
    assert sorted(candidates(mix, mixing, 5, 100).tolist()) == [5, 7]
