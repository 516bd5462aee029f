"""Which positions form which rank's batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrt_lightning.draws.batch_plan import BatchPlan


def global_batches(plan_of_rank, world_size):
    """Return each global batch as the list of valid positions over all ranks, and each rank's row counts."""
    batches, rows = [], []
    plans = [plan_of_rank(rank) for rank in range(world_size)]
    samples = 0
    for _ in range(len(plans[0])):
        parts = [plan.slice_at(samples) for plan in plans]
        batches.append([p for part in parts for p in range(part.start, part.start + part.num_valid)])
        rows.append([part.num_rows for part in parts])
        samples = plans[0].after(samples)
    return batches, rows


sizes = st.tuples(st.integers(1, 200), st.integers(1, 9), st.integers(1, 8))


@given(sizes)
def test_evaluation_visits_every_position_exactly_once_over_all_ranks(size):
    length, batch_size, world_size = size
    batches, _ = global_batches(
        lambda rank: BatchPlan(length, batch_size, rank, world_size, drop_last=False), world_size
    )
    assert [position for batch in batches for position in batch] == list(range(length))


@given(sizes)
def test_all_ranks_get_equally_many_batches_of_equal_rows(size):
    length, batch_size, world_size = size
    plans = [BatchPlan(length, batch_size, rank, world_size, drop_last=False) for rank in range(world_size)]
    assert len({len(plan) for plan in plans}) == 1
    _, rows = global_batches(lambda rank: plans[rank], world_size)
    assert all(len(set(row)) == 1 and row[0] <= batch_size for row in rows)


@given(sizes)
def test_training_drops_only_what_does_not_fill_a_global_batch(size):
    length, batch_size, world_size = size
    if length < batch_size * world_size:
        return
    batches, _ = global_batches(lambda rank: BatchPlan(length, batch_size, rank, world_size), world_size)
    flat = [position for batch in batches for position in batch]
    assert flat == list(range(length - length % (batch_size * world_size)))


def test_global_batches_are_the_same_for_every_world_size_with_equal_global_batch():
    expected = None
    for world_size in (1, 2, 3, 4, 6, 8, 12, 24):
        batches, _ = global_batches(
            lambda rank, world_size=world_size: BatchPlan(250, 24 // world_size, rank, world_size), world_size
        )
        expected = expected or batches
        assert batches == expected


def test_a_pass_can_continue_at_a_position_that_no_batch_of_the_new_size_starts_at():
    plan = BatchPlan(epoch_length=100, batch_size=8)
    assert plan.num_left(52) == 6
    assert plan.slice_at(52).start == 52


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ({"epoch_length": 10, "batch_size": 32, "world_size": 2}, ["10", "64", "32", "2"]),
        ({"epoch_length": 10, "batch_size": 0}, ["0"]),
        ({"epoch_length": 10, "batch_size": 1, "rank": 2, "world_size": 2}, ["rank 2", "[0, 2)"]),
        ({"epoch_length": 0, "batch_size": 1}, ["0"]),
    ],
)
def test_impossible_plans_are_refused_with_their_numbers(arguments, numbers):
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the numbers are checked below
        BatchPlan(**arguments)
    assert all(number in str(refusal.value) for number in numbers)


def test_no_batch_exists_behind_the_end():
    with pytest.raises(ValueError, match="position 96 of 100"):
        BatchPlan(epoch_length=100, batch_size=32).slice_at(96)
