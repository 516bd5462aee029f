"""Mode weighted_once: a weighted order without replacement."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import reference_draws as reference
from chi_square import chi_square, chi_square_limit
from fake_population import FakePopulation, weighted_population
from hypothesis import given
from hypothesis import strategies as st

from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.draws.stream import DrawStream

ONCE = Sampling("weighted_once")
WEIGHTS = st.lists(st.floats(5e-324, 1e300), min_size=1, max_size=40)


@given(weights=WEIGHTS, seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**32 - 1))
def test_the_order_is_the_reference(weights: list[float], seed: int, epoch: int) -> None:
    stream = DrawStream(weighted_population(weights), ONCE, seed)
    key = reference.derive_key(seed, 3, epoch, 2)
    assert stream.positions(epoch, 2, 0, len(weights)).tolist() == reference.weighted_order(weights, key)


@given(size=st.integers(1, 5000), part=st.floats(0, 1), seed=st.integers(0, 2**64 - 1))
def test_a_shorter_epoch_is_the_beginning_of_the_whole_order(size: int, part: float, seed: int) -> None:
    population = FakePopulation(np.arange(1.0, size + 1) ** 3)
    whole = DrawStream(population, ONCE, seed).positions(0, 0, 0, size)
    length = max(1, int(part * size))
    short = DrawStream(population, Sampling("weighted_once", length), seed).positions(0, 0, 0, length)
    np.testing.assert_array_equal(np.sort(whole), np.arange(size))
    np.testing.assert_array_equal(short, whole[:length])


def test_every_order_is_as_likely_as_drawing_row_by_row() -> None:
    weights = [1.0, 2.0, 4.0, 8.0]
    stream = DrawStream(weighted_population(weights), ONCE, 5)
    drawn = [tuple(stream.positions(epoch, 0, 0, 4).tolist()) for epoch in range(20_000)]
    orders = list(itertools.permutations(range(4)))
    counts = [drawn.count(order) for order in orders]
    expected = []
    for order in orders:
        chance, left = 1.0, sum(weights)
        for row in order:
            chance, left = chance * weights[row] / left, left - weights[row]
        expected.append(20_000 * chance)
    assert chi_square(counts, expected) < chi_square_limit(len(orders) - 1)


def test_exponential_times_are_minus_the_logarithm() -> None:
    for word in [0, 2**64 - 1, 2**63, *(reference.philox(i, 0, 0)[0] for i in range(10_000))]:
        expected = -math.log((2 * (word >> 12) + 1) * 2.0**-53)
        assert reference.exponential_time(word) == pytest.approx(expected, rel=1e-15)


def test_rows_far_lighter_than_the_rest_come_last() -> None:
    weights = [1e-300, 1e300, 1.0, 1e299]
    for seed in range(20):
        order = DrawStream(weighted_population(weights), ONCE, seed).positions(0, 0, 0, 4).tolist()
        assert order[2:] == [2, 0]


def test_going_back_to_an_earlier_epoch_draws_it_again() -> None:
    stream = DrawStream(FakePopulation(np.arange(1.0, 1001)), ONCE, 3)
    first = stream.positions(0, 0, 0, 1000)
    stream.positions(1, 0, 0, 10)
    np.testing.assert_array_equal(stream.positions(0, 0, 500, 500), first[500:])


def test_an_epoch_longer_than_the_population_is_refused() -> None:
    with pytest.raises(ValueError, match="epoch_length is 5 but the population has 4 rows, each drawn at most once"):
        DrawStream(weighted_population([1, 2, 3, 4]), Sampling("weighted_once", 5), 0)


def test_a_weight_that_cannot_be_drawn_is_refused_at_the_first_draw() -> None:
    stream = DrawStream(weighted_population([1, 2, 0]), ONCE, 0)
    with pytest.raises(ValueError, match=r"weights\[2\] is 0\.0+ but must be finite and above 0"):
        stream.positions(0, 0, 0, 1)
