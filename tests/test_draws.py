"""The laws of every draw stream, and the modes sequential, shuffle and weighted."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_draws as reference
from chi_square import chi_square, chi_square_limit
from fake_population import FakePopulation, uniform_population, weighted_population
from hypothesis import given
from hypothesis import strategies as st

from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.draws.stream import DrawStream

GOLDEN = json.loads((Path(__file__).parent / "golden" / "draws.json").read_text())
SEEDS = st.integers(0, 2**64 - 1)
SMALL = st.integers(0, 2**32 - 1)


def stream_of(case: dict[str, Any]) -> DrawStream:
    population = FakePopulation(np.array(case["weights"], dtype=np.float64), case.get("columns", {}))
    return DrawStream(population, Sampling.of(case["sampling"]), case["seed"], global_batch=case.get("global_batch"))


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_the_draws_are_the_golden_draws(case: dict[str, Any]) -> None:
    """These orders are part of the format: whoever resumes a checkpoint of an older release continues them.

    A change here means that every saved run silently trains on other samples. If it must be, it is a new format
    version of the state, not new numbers in the file.
    """
    draws = stream_of(case).positions(case["epoch"], case["pass"], case["start"], len(case["draws"]))
    assert draws.tolist() == case["draws"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_pieces_of_any_size_equal_the_whole(case: dict[str, Any]) -> None:
    stream = stream_of(case)
    whole = stream.positions(3, 1, 0, stream.epoch_length)
    for size in (1, 3, 7):
        starts = range(0, stream.epoch_length, size)
        pieces = [stream.positions(3, 1, at, min(size, stream.epoch_length - at)) for at in reversed(starts)]
        np.testing.assert_array_equal(np.concatenate(pieces[::-1]), whole)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_a_pickled_stream_draws_the_same(case: dict[str, Any]) -> None:
    stream = stream_of(case)
    copy = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(copy.positions(1, 0, 0, 5), stream.positions(1, 0, 0, 5))


@pytest.mark.parametrize("mode", ["shuffle", "weighted", "weighted_once"])
def test_seed_epoch_and_pass_each_give_another_order(mode: str) -> None:
    population = uniform_population(1000)
    first, other_seed = (DrawStream(population, Sampling.of(mode), seed) for seed in (7, 8))
    orders = [
        first.positions(0, 0, 0, 1000),
        first.positions(1, 0, 0, 1000),
        first.positions(0, 1, 0, 1000),
        other_seed.positions(0, 0, 0, 1000),
    ]
    for one, another in itertools.combinations(orders, 2):
        assert (one == another).mean() < 0.02


@given(num_rows=st.integers(1, 40), epoch_length=st.integers(1, 100), epoch=SMALL)
def test_sequential_goes_round_the_table(num_rows: int, epoch_length: int, epoch: int) -> None:
    stream = DrawStream(uniform_population(num_rows), Sampling("sequential", epoch_length), 0)
    expected = [reference.sequential(num_rows, epoch_length, epoch, at) for at in range(epoch_length)]
    assert stream.positions(epoch, 5, 0, epoch_length).tolist() == expected


@given(num_rows=st.integers(1, 300), epoch_length=st.integers(1, 20), seed=SEEDS, epoch=SMALL, pass_=SMALL)
def test_shuffle_is_the_reference(num_rows: int, epoch_length: int, seed: int, epoch: int, pass_: int) -> None:
    stream = DrawStream(uniform_population(num_rows), Sampling("shuffle", epoch_length), seed)
    expected = [reference.shuffle(num_rows, epoch_length, seed, epoch, pass_, at) for at in range(epoch_length)]
    assert stream.positions(epoch, pass_, 0, epoch_length).tolist() == expected


@given(num_rows=st.integers(1, 3000), seed=SEEDS, epoch=SMALL)
def test_a_shuffled_epoch_holds_every_row_once(num_rows: int, seed: int, epoch: int) -> None:
    draws = DrawStream(uniform_population(num_rows), Sampling("shuffle"), seed).positions(epoch, 0, 0, num_rows)
    np.testing.assert_array_equal(np.sort(draws), np.arange(num_rows))


@given(num_rows=st.integers(1, 50), epoch_length=st.integers(1, 120), seed=SEEDS)
def test_shuffle_repeats_no_row_before_all_were_drawn_over_epochs_of_any_length(
    num_rows: int, epoch_length: int, seed: int
) -> None:
    stream = DrawStream(uniform_population(num_rows), Sampling("shuffle", epoch_length), seed)
    num_epochs = 2 * num_rows // epoch_length + 2
    run = np.concatenate([stream.positions(epoch, 0, 0, epoch_length) for epoch in range(num_epochs)])
    for at in range(0, len(run), num_rows):
        assert len(set(run[at : at + num_rows].tolist())) == len(run[at : at + num_rows])


@pytest.mark.parametrize("num_rows", [2, 3, 4, 5])
def test_every_order_of_a_tiny_population_is_equally_likely(num_rows: int) -> None:
    stream = DrawStream(uniform_population(num_rows), Sampling("shuffle", num_rows * 120_000), 11)
    orders = stream.positions(0, 0, 0, num_rows * 120_000).reshape(-1, num_rows)
    names = orders @ (num_rows ** np.arange(num_rows))
    _, counts = np.unique(names, return_counts=True)
    assert len(counts) == math.factorial(num_rows)
    assert chi_square(counts, 120_000 / len(counts)) < chi_square_limit(len(counts) - 1)


@pytest.mark.parametrize("num_rows", [7, 16, 50])
def test_every_pair_of_rows_is_equally_likely_to_come_first(num_rows: int) -> None:
    stream = DrawStream(uniform_population(num_rows), Sampling("shuffle", num_rows * 40_000), 11)
    orders = stream.positions(0, 0, 0, num_rows * 40_000).reshape(-1, num_rows)
    pairs = np.bincount(orders[:, 0] * num_rows + orders[:, 1], minlength=num_rows**2).reshape(num_rows, num_rows)
    assert np.diag(pairs).sum() == 0
    counts = pairs[~np.eye(num_rows, dtype=bool)]
    assert chi_square(counts, 40_000 / len(counts)) < chi_square_limit(len(counts) - 1)


def test_neighbours_of_a_large_shuffle_are_independent() -> None:
    num_rows = 1_000_000
    draws = DrawStream(uniform_population(num_rows), Sampling("shuffle"), 3).positions(0, 0, 0, num_rows)
    bins = 40
    for distance in (1, 2, 1000, 1001):  # the grid of the network has 1000 columns
        here, there = draws[:-distance] * bins // num_rows, draws[distance:] * bins // num_rows
        counts = np.bincount(here * bins + there, minlength=bins * bins)
        assert chi_square(counts, len(here) / bins**2) < chi_square_limit(bins * bins - 1)


def test_one_bit_of_the_seed_changes_the_whole_shuffle() -> None:
    population = uniform_population(100_000)
    base = DrawStream(population, Sampling("shuffle"), 0).positions(0, 0, 0, 1000)
    for bit in range(64):
        other = DrawStream(population, Sampling("shuffle"), 1 << bit).positions(0, 0, 0, 1000)
        assert (base == other).sum() <= 2
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.2


WEIGHTS = st.lists(st.floats(5e-324, 1e300), min_size=1, max_size=20)


@given(weights=WEIGHTS, seed=SEEDS, epoch=SMALL, pass_=SMALL, start=st.integers(0, 2**62))
def test_weighted_is_the_reference(weights: list[float], seed: int, epoch: int, pass_: int, start: int) -> None:
    epoch_length = 2**62 + 50 if epoch == 0 else 50
    start = start if epoch == 0 else start % 50
    stream = DrawStream(weighted_population(weights), Sampling("weighted", epoch_length), seed)
    count = min(5, epoch_length - start)
    expected = [reference.weighted(weights, seed, epoch, pass_, start + i) for i in range(count)]
    assert stream.positions(epoch, pass_, start, count).tolist() == expected


@given(weights=WEIGHTS)
def test_the_alias_table_gives_every_row_its_share(weights: list[float]) -> None:
    table = reference.alias_table(weights)
    shares = [0] * len(weights)
    for column, (threshold, alias) in enumerate(table):
        shares[column] += threshold
        shares[alias] += reference.WORD - threshold
    total = sum(reference.whole_weights(weights))
    for share, whole in zip(shares, reference.whole_weights(weights), strict=True):
        assert abs(share / (reference.WORD * len(weights)) - whole / total) < 2**-50


def test_equal_weights_draw_the_same_with_and_without_a_table() -> None:
    without = DrawStream(uniform_population(1000), Sampling("weighted"), 5).positions(2, 0, 0, 1000)
    nearly = np.ones(1000)
    nearly[500] = 1 + 2**-52
    with_table = DrawStream(FakePopulation(nearly), Sampling("weighted"), 5).positions(2, 0, 0, 1000)
    np.testing.assert_array_equal(with_table, without)


def test_weights_scaled_by_a_power_of_two_draw_the_same() -> None:
    weights = np.arange(1.0, 100.0)
    one, other = (DrawStream(FakePopulation(weights * scale), Sampling("weighted"), 5) for scale in (1.0, 2.0**-300))
    np.testing.assert_array_equal(one.positions(0, 0, 0, 99), other.positions(0, 0, 0, 99))


def test_9000_to_1000_balanced_draws_half_and_half() -> None:
    weights = np.concatenate([np.full(9000, 1 / 9000), np.full(1000, 1 / 1000)])
    draws = DrawStream(FakePopulation(weights), Sampling("weighted", 1_000_000), 7).positions(0, 0, 0, 1_000_000)
    classes = np.bincount((draws >= 9000).astype(int))
    assert chi_square(classes, 500_000) < chi_square_limit(1)
    rows = np.bincount(draws, minlength=10_000)
    assert chi_square(rows[:9000], 500_000 / 9000) < chi_square_limit(8999)
    assert chi_square(rows[9000:], 500_000 / 1000) < chi_square_limit(999)


def test_weights_1_2_4_8_draw_their_shares() -> None:
    draws = DrawStream(weighted_population([1, 2, 4, 8]), Sampling("weighted", 1_000_000), 7).positions(
        0, 0, 0, 1_000_000
    )
    counts = np.bincount(draws)
    assert chi_square(counts, 1_000_000 * np.array([1, 2, 4, 8]) / 15) < chi_square_limit(3)
    np.testing.assert_allclose(100 * counts / 1_000_000, [6.7, 13.3, 26.7, 53.3], atol=0.15)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((-1, 0, 0, 1), r"epoch is -1 but must lie in \[0, 2\^32\)"),
        ((2**32, 0, 0, 1), r"epoch is 4294967296 but must lie in"),
        ((0, -2, 0, 1), r"pass is -2 but must lie in \[0, 2\^32\)"),
        ((0, 0, -3, 1), "1 draws from position -3 do not lie in the epoch of 10 draws"),
        ((0, 0, 0, -4), "-4 draws from position 0 do not lie in the epoch of 10 draws"),
        ((0, 0, 8, 3), "3 draws from position 8 do not lie in the epoch of 10 draws"),
        ((0, 0, 2**63 - 1, 2**63 - 1), "do not lie in the epoch of 10 draws"),
    ],
)
def test_numbers_outside_the_epoch_are_refused(arguments: tuple[int, int, int, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DrawStream(uniform_population(10), Sampling("shuffle"), 0).positions(*arguments)


def test_a_run_of_more_than_2_to_the_63_draws_is_refused() -> None:
    stream = DrawStream(uniform_population(10), Sampling("shuffle", 2**40), 0)
    assert len(stream.positions(2**23 - 1, 0, 2**40 - 4, 4)) == 4
    with pytest.raises(ValueError, match=r"epoch 8388608 of 1099511627776 draws each goes past draw 2\^63"):
        stream.positions(2**23, 0, 0, 1)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match=rf"seed is {seed} but must lie in \[0, 2\^64\)"):
        DrawStream(uniform_population(10), Sampling("shuffle"), seed)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_a_weight_that_cannot_be_drawn_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=r"weights\[2\] is .* but must be finite and above 0"):
        DrawStream(weighted_population([1, 2, weight]), Sampling("weighted"), 0)
