"""Mode quota: fixed class shares in every global batch, no row again before its class is exhausted."""

from __future__ import annotations

from collections import Counter
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
import reference_draws as reference
from chi_square import chi_square, chi_square_limit
from fake_population import FakePopulation
from hypothesis import given, settings
from hypothesis import strategies as st

from dsrt_lightning.draws.apportion import apportion
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.draws.stream import DrawStream


def population_of(sizes: list[int], weights: list[float] | None = None) -> FakePopulation:
    """Return a population of classes 0, 1, ... of these sizes, their rows in turn."""
    labels = [c for turn in range(max(sizes)) for c, size in enumerate(sizes) if turn < size]
    return FakePopulation(np.ones(sum(sizes)) if weights is None else np.array(weights), {"label": labels})


def quota(epoch_length: int, shares: Any = "equal") -> Sampling:
    return Sampling("quota", epoch_length, column="label", shares=shares)


@st.composite
def quotas(draw: st.DrawFn) -> dict[str, Any]:
    shares = draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    sizes = draw(st.lists(st.integers(1, 12), min_size=len(shares), max_size=len(shares)))
    epoch_length = draw(st.integers(-(-sum(shares) // min(shares)), 200))
    return {
        "shares": shares,
        "sizes": sizes,
        "epoch_length": epoch_length,
        "global_batch": draw(st.integers(1, 40)),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "weights": draw(st.sampled_from([None, "unequal"])),
    }


def stream_of(case: dict[str, Any]) -> DrawStream:
    sizes = case["sizes"]
    weights = None if case["weights"] is None else [1.0 + row % 3 for row in range(sum(sizes))]
    sampling = quota(case["epoch_length"], dict(enumerate(case["shares"])))
    return DrawStream(population_of(sizes, weights), sampling, case["seed"], global_batch=case["global_batch"])


def classes_of(stream: DrawStream, epoch: int = 0, pass_: int = 0) -> np.ndarray:
    labels = np.array(stream.population.columns["label"])  # type: ignore[attr-defined]
    return labels[stream.positions(epoch, pass_, 0, stream.epoch_length)]


@settings(max_examples=50)
@given(case=quotas(), epoch=st.integers(0, 1000), pass_=st.integers(0, 3))
def test_the_draws_are_the_reference(case: dict[str, Any], epoch: int, pass_: int) -> None:
    stream = stream_of(case)
    parts = apportion(case["shares"], case["epoch_length"], case["global_batch"])
    num_full = case["epoch_length"] // case["global_batch"]
    drawn = reference.schedule(num_full, parts.base, parts.extra, parts.tail, case["seed"], epoch, pass_)
    labels = stream.population.columns["label"]  # type: ignore[attr-defined]
    members = [[row for row, c in enumerate(labels) if c == number] for number in range(len(case["sizes"]))]
    expected = reference.quota(stream.population.weights.tolist(), members, drawn, case["seed"], epoch, pass_)
    assert stream.positions(epoch, pass_, 0, stream.epoch_length).tolist() == expected


@given(case=quotas(), epoch=st.integers(0, 5))
def test_pieces_of_any_size_equal_the_whole(case: dict[str, Any], epoch: int) -> None:
    stream = stream_of(case)
    whole = stream.positions(epoch, 0, 0, stream.epoch_length)
    for start in range(0, stream.epoch_length, 7):
        count = min(5, stream.epoch_length - start)
        np.testing.assert_array_equal(stream.positions(epoch, 0, start, count), whole[start : start + count])


@given(case=quotas(), epoch=st.integers(0, 5))
def test_every_batch_and_the_epoch_hold_each_share_to_within_one_draw(case: dict[str, Any], epoch: int) -> None:
    drawn = classes_of(stream_of(case), epoch)
    batch = case["global_batch"]
    for part in [drawn, *(drawn[at : at + batch] for at in range(0, len(drawn), batch))]:
        for number, share in enumerate(case["shares"]):
            exact = len(part) * share / sum(case["shares"])
            assert floor(exact) <= (part == number).sum() <= ceil(exact)


@given(case=quotas())
def test_no_row_is_drawn_again_before_its_class_is_exhausted_over_all_epochs(case: dict[str, Any]) -> None:
    stream = stream_of(case)
    run = np.concatenate([stream.positions(epoch, 0, 0, stream.epoch_length) for epoch in range(3)])
    labels = np.array(stream.population.columns["label"])  # type: ignore[attr-defined]
    for number, size in enumerate(case["sizes"]):
        rows = run[labels[run] == number]
        for at in range(0, len(rows), size):
            assert len(set(rows[at : at + size].tolist())) == len(rows[at : at + size])


def test_a_class_too_small_for_every_batch_is_spread_evenly_over_the_epoch() -> None:
    stream = DrawStream(population_of([900, 100]), quota(64_000, {0: 0.997, 1: 0.003}), 1, global_batch=64)
    has_rare = (classes_of(stream) == 1).reshape(-1, 64).any(1)
    error = np.cumsum(has_rare) - 64 * 0.003 * np.arange(1, 1001)
    assert np.abs(error).max() < 3


def test_which_classes_share_a_batch_changes_from_batch_to_batch() -> None:
    stream = DrawStream(population_of([10] * 10), quota(50_000), 1, global_batch=5)
    together = np.zeros((10, 10))
    for batch in classes_of(stream).reshape(-1, 5):
        together[np.ix_(batch, batch)] += 1
    pairs = together[np.triu_indices(10, 1)]
    np.testing.assert_allclose(pairs / 10_000, 2 / 9, rtol=0.1)  # 5 of 10 classes at random


def test_classes_within_a_batch_are_in_random_order() -> None:
    stream = DrawStream(population_of([10, 10]), quota(80_000), 1, global_batch=4)
    patterns = Counter(map(tuple, classes_of(stream).reshape(-1, 4).tolist()))
    assert len(patterns) == 6
    assert chi_square(list(patterns.values()), 20_000 / 6) < chi_square_limit(5)


def test_heavier_rows_of_a_class_come_first_in_proportion_to_their_weights() -> None:
    weights = [1.0, 1.0, 2.0, 3.0, 3.0, 5.0]  # class 0 has rows 0, 2, 4; class 1 has rows 1, 3, 5
    stream = DrawStream(population_of([3, 3], weights), quota(2), 1, global_batch=2)
    first = np.array([np.sort(stream.positions(0, pass_, 0, 2)) for pass_ in range(10_000)])
    rows = np.bincount(first.ravel(), minlength=6)
    np.testing.assert_array_equal(rows.reshape(3, 2).sum(0), 10_000)
    assert chi_square(rows[[0, 2, 4]], 10_000 * np.array([1, 2, 3]) / 6) < chi_square_limit(2)
    assert chi_square(rows[[1, 3, 5]], 10_000 * np.array([1, 3, 5]) / 9) < chi_square_limit(2)


def test_rows_outside_the_named_classes_are_not_drawn() -> None:
    stream = DrawStream(population_of([5, 5, 5]), quota(60, {2: 1, 0: 1}), 1, global_batch=6)
    assert Counter(classes_of(stream).tolist()) == {0: 30, 2: 30}


def test_many_classes_and_few_rows_in_a_batch() -> None:
    stream = DrawStream(population_of([3] * 1000), quota(6_000), 1, global_batch=16)
    drawn = classes_of(stream)
    assert set(Counter(drawn.tolist()).values()) == {6}
    assert all(len(set(batch.tolist())) == 16 for batch in drawn.reshape(-1, 16))


@pytest.mark.parametrize(
    ("sampling", "global_batch", "text"),
    [
        (quota(60), None, "give global_batch"),
        (quota(60), 0, "global_batch is 0 but must be at least 1"),
        (
            quota(60, {0: 1, 7: 3}),
            6,
            r"class 7 of column 'label' has share 3 but 0 rows; .* \(classes with rows: 0, 1\)",
        ),
        (
            quota(10, {0: 99, 1: 1}),
            5,
            r"class 1 of column 'label' has a share of 0\.1 draws in an epoch of 10 and would",
        ),
    ],
)
def test_a_quota_that_cannot_be_met_is_refused(sampling: Sampling, global_batch: int | None, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DrawStream(population_of([5, 5]), sampling, 0, global_batch=global_batch)
