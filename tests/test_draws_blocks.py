"""Mode blocks: a shuffle that stays within windows of whole blocks."""

from __future__ import annotations

import numpy as np
import pytest
import reference_draws as reference
from fake_population import uniform_population
from hypothesis import given, settings
from hypothesis import strategies as st

from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.draws.stream import DrawStream


def blocks(block_records: int, window_records: int, epoch_length: int | None = None) -> Sampling:
    return Sampling("blocks", epoch_length, block_records=block_records, window_records=window_records)


@settings(max_examples=30)
@given(
    num_rows=st.integers(1, 60),
    epoch_length=st.integers(1, 100),
    block=st.integers(1, 70),
    per_window=st.integers(1, 5),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 1000),
)
def test_the_draws_are_the_reference(
    num_rows: int, epoch_length: int, block: int, per_window: int, seed: int, epoch: int
) -> None:
    window = block * per_window
    stream = DrawStream(uniform_population(num_rows), blocks(block, window, epoch_length), seed)
    first = epoch * epoch_length
    last = min(first + epoch_length, (first // num_rows + 2) * num_rows)  # two cycles are enough
    cycles = range(first // num_rows, (last - 1) // num_rows + 1)
    rows = {cycle: reference.blocks_cycle(num_rows, block, window, seed, cycle, 1) for cycle in cycles}
    expected = [rows[at // num_rows][at % num_rows] for at in range(first, last)]
    assert stream.positions(epoch, 1, 0, last - first).tolist() == expected


@given(num_rows=st.integers(1, 3000), block=st.integers(1, 100), per_window=st.integers(1, 9))
def test_an_epoch_holds_every_row_once(num_rows: int, block: int, per_window: int) -> None:
    draws = DrawStream(uniform_population(num_rows), blocks(block, block * per_window), 1).positions(0, 0, 0, num_rows)
    np.testing.assert_array_equal(np.sort(draws), np.arange(num_rows))


def test_the_draws_of_a_window_lie_in_its_blocks() -> None:
    draws = DrawStream(uniform_population(10_000), blocks(10, 200), 1).positions(0, 0, 0, 10_000)
    windows = (draws // 10).reshape(-1, 200)
    assert {len(np.unique(window)) for window in windows} == {20}


@pytest.mark.parametrize(("block", "window", "expected"), [(100, 25_600, 1.25), (100, 6_400, 2.0), (100, 1_600, 5.0)])
def test_batches_vary_more_than_a_full_shuffle_by_batch_over_blocks_per_window(
    block: int, window: int, expected: float
) -> None:
    """The mixing that the documentation states: 1 + B / w, for batches of B rows and w blocks in a window.

    Measured where it is worst: the property of a record is its place in the table, so a block is all alike.
    """
    num_rows, batch = 1_000_000, 64
    variances = [
        DrawStream(uniform_population(num_rows), sampling, 1)
        .positions(0, 0, 0, num_rows)
        .reshape(-1, batch)
        .mean(1)
        .var()
        for sampling in (blocks(block, window), Sampling("shuffle"))
    ]
    assert variances[0] / variances[1] == pytest.approx(expected, rel=0.15)


def test_sizes_larger_than_the_population_shuffle_it_whole() -> None:
    one, other = (
        DrawStream(uniform_population(100), sampling, 1).positions(0, 0, 0, 100)
        for sampling in (blocks(100, 100), blocks(2**62, 2**62))
    )
    np.testing.assert_array_equal(one, other)
    assert sorted(one.tolist()) == list(range(100))
