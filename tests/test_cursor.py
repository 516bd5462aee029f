"""The position in the draws, and the state that checkpoints keep."""

from __future__ import annotations

import pytest

from dsrt_lightning.draws.batch_plan import BatchPlan
from dsrt_lightning.draws.cursor import Cursor, StreamIdentity
from dsrt_lightning.errors import StateMismatchError

IDENTITY = StreamIdentity(population="3f9c1e" + "0" * 58, population_size=812, sampling="shuffle", seed=7)


def cursor(batch_size=4, world_size=1, length=20, identity=IDENTITY):
    return Cursor(identity, BatchPlan(length, batch_size, 0, world_size))


def advanced(count, **kwargs):
    made = cursor(**kwargs)
    for _ in range(count):
        made.advance()
    return made


def test_state_holds_primitives_and_every_documented_key():
    state = advanced(2).state_dict()
    assert state == {
        "format": "dsrt.draws",
        "version": 1,
        "epoch": 0,
        "pass": 0,
        "samples": 8,
        "seed": 7,
        "population": IDENTITY.population,
        "population_size": 812,
        "sampling": "shuffle",
        "global_batch": 4,
    }


def test_loading_a_state_restores_it():
    state = advanced(3).state_dict()
    other = cursor()
    other.load_state_dict(state)
    assert other.state_dict() == state


def test_a_state_is_equal_on_every_rank():
    states = []
    for rank in range(3):
        made = Cursor(IDENTITY, BatchPlan(24, 2, rank, 3))
        made.advance()
        states.append(made.state_dict())
    assert states[0] == states[1] == states[2]


def test_naming_the_present_epoch_again_changes_nothing():
    made = advanced(2)
    made.set_epoch(0)
    assert made.samples == 8


def test_another_epoch_starts_at_its_first_pass():
    made = advanced(2)
    made.set_epoch(3)
    assert (made.epoch, made.pass_, made.samples) == (3, 0, 0)


def test_rewinding_before_anything_was_consumed_changes_nothing():
    made = cursor()
    made.rewind()
    made.rewind()
    assert (made.pass_, made.samples) == (0, 0)


def test_rewinding_after_consumption_starts_the_next_pass():
    made = advanced(1)
    made.rewind()
    assert (made.epoch, made.pass_, made.samples) == (0, 1, 0)


def test_rewinding_right_after_loading_keeps_the_loaded_position():
    made = cursor()
    made.load_state_dict(advanced(2).state_dict())
    made.rewind()
    assert made.samples == 8


def test_a_state_at_the_end_of_a_pass_continues_with_the_next():
    made = cursor()
    made.load_state_dict(advanced(5).state_dict())
    assert (made.pass_, made.samples) == (1, 0)


def test_batches_in_flight_are_not_counted():
    assert advanced(3).state_dict(in_flight=1)["samples"] == 8


def test_a_partial_last_batch_in_flight_is_given_back_whole():
    made = Cursor(IDENTITY, BatchPlan(10, 4, drop_last=False))
    for _ in range(3):
        made.advance()
    assert made.state_dict()["samples"] == 10
    assert made.state_dict(in_flight=1)["samples"] == 8


def test_a_state_fits_another_batch_size_since_it_counts_samples():
    made = cursor(batch_size=2, world_size=1)
    made.load_state_dict(advanced(3).state_dict())
    assert made.samples == 12


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"format": "other"}, ["'other'", "'dsrt.draws'"]),
        ({"version": 2}, ["version 2", "version 1"]),
        ({"population": "a210b7" + "0" * 58, "population_size": 790}, ["a210b7", "790 rows", "3f9c1e", "812 rows"]),
        ({"sampling": "weighted"}, ["'weighted'", "'shuffle'"]),
        ({"seed": 8}, ["8", "7"]),
        ({"samples": -1}, ["samples", "-1"]),
        ({"epoch": "1"}, ["epoch", "'1'"]),
        ({"pass": True}, ["pass", "True"]),
    ],
)
def test_a_state_of_other_draws_is_refused_with_both_values_and_moves_nothing(change, texts):
    made = advanced(1)
    with pytest.raises(StateMismatchError) as refusal:
        made.load_state_dict({**advanced(3).state_dict(), **change})
    assert all(text in str(refusal.value) for text in texts)
    assert made.samples == 4


@pytest.mark.parametrize("key", ["epoch", "pass", "samples", "seed", "population", "population_size", "sampling"])
def test_a_truncated_state_is_refused_naming_what_it_lacks(key):
    state = advanced(1).state_dict()
    del state[key]
    with pytest.raises(StateMismatchError, match=f"lacks {key}"):
        cursor().load_state_dict(state)
