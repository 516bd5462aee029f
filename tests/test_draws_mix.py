"""Mixing: several populations by ratio, each drawn on without gaps."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import reference_draws as reference
from fake_population import FakePopulation, uniform_population
from hypothesis import given, settings
from hypothesis import strategies as st

from dsrt_lightning.draws.apportion import apportion, whole_shares
from dsrt_lightning.draws.mix import Mixing, MixStream
from dsrt_lightning.draws.sampling import Sampling

SHUFFLE = Sampling("shuffle")
GOLDEN = [8, 13, 7, 4, 8, 0, 3, 5, 12, 4, 11, 6]


def mix(sizes: list[int], ratios: list[float], seed: int = 7, global_batch: int = 8, **options: Any) -> MixStream:
    mixing = Mixing(tuple(ratios), (SHUFFLE,) * len(sizes), **options)
    return MixStream([uniform_population(size) for size in sizes], mixing, seed, global_batch=global_batch)


def by_component(stream: MixStream, draws: np.ndarray) -> list[np.ndarray]:
    """Return each component's own rows in the order of the draws."""
    ends = np.cumsum([0, *(len(population) for population in stream.populations)])
    return [draws[(draws >= low) & (draws < high)] - low for low, high in itertools.pairwise(ends)]


@settings(max_examples=30)
@given(
    components=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=5),
    global_batch=st.integers(1, 30),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 100),
)
def test_the_draws_are_the_reference(
    components: list[tuple[int, int]], global_batch: int, seed: int, epoch: int
) -> None:
    sizes, ratios = [size for size, _ in components], [float(ratio) for _, ratio in components]
    stream = mix(sizes, ratios, seed, global_batch, stop="none", epoch_length=60)
    parts = apportion(whole_shares(ratios), 60, global_batch)
    schedule_seed = reference.mix_component_seed(seed, len(sizes))
    drawn = reference.schedule(60 // global_batch, parts.base, parts.extra, parts.tail, schedule_seed, epoch, 1)
    expected = []
    for c, occurrence in zip(drawn, reference.occurrences(drawn, epoch, len(sizes)), strict=True):
        own_epoch, place = divmod(occurrence, sizes[c])
        own_seed = reference.mix_component_seed(seed, c)
        expected.append(sum(sizes[:c]) + reference.shuffle(sizes[c], sizes[c], own_seed, own_epoch, 1, place))
    assert stream.positions(epoch, 1, 0, 60).tolist() == expected
    assert stream.positions(epoch, 1, 13, 40).tolist() == expected[13:53]


def test_the_draws_are_the_golden_draws() -> None:
    """Part of the format, as tests/golden/draws.json is: a saved run continues this order."""
    assert mix([5, 9], [1, 2.5]).positions(3, 1, 0, 12).tolist() == GOLDEN


def test_each_component_is_its_own_stream_drawn_on_over_the_epochs_of_the_mix() -> None:
    stream = mix([30, 50], [1, 3], stop="none", epoch_length=40)
    run = np.concatenate([stream.positions(epoch, 0, 0, 40) for epoch in range(10)])
    for rows, component in zip(by_component(stream, run), stream.components, strict=True):
        length = component.epoch_length
        own = np.concatenate([component.positions(epoch, 0, 0, length) for epoch in range(-(-len(rows) // length))])
        np.testing.assert_array_equal(rows, own[: len(rows)])


def test_every_batch_holds_the_ratio() -> None:
    stream = mix([1000, 100], [3, 1], global_batch=8, stop="none", epoch_length=800)
    from_second = (stream.positions(0, 0, 0, 800) >= 1000).reshape(-1, 8).sum(1)
    assert set(from_second.tolist()) == {2}


def test_first_exhausted_ends_the_epoch_before_a_row_comes_again() -> None:
    stream = mix([30, 500], [1, 3])
    assert stream.epoch_length == 120
    first, second = by_component(stream, stream.positions(0, 0, 0, 120))
    assert sorted(first.tolist()) == list(range(30))
    assert len(set(second.tolist())) == len(second) == 90


def test_all_exhausted_ends_the_epoch_when_every_row_was_drawn() -> None:
    stream = mix([30, 500], [1, 3])
    longer = mix([30, 500], [1, 3], stop="all_exhausted")
    assert (stream.epoch_length, longer.epoch_length) == (120, 667)
    first, second = by_component(longer, longer.positions(0, 0, 0, 667))
    assert set(second.tolist()) == set(range(500))
    assert np.bincount(first).min() >= 5


def test_the_same_population_given_twice_is_drawn_independently() -> None:
    population = uniform_population(1000)
    mixing = Mixing((1, 1), (SHUFFLE, SHUFFLE))
    stream = MixStream([population, population], mixing, 7, global_batch=10)
    one, other = by_component(stream, stream.positions(0, 0, 0, stream.epoch_length))
    assert (one == other).mean() < 0.02
    assert set(one.tolist()) == set(other.tolist()) == set(range(1000))


def test_a_quota_component_keeps_its_shares_in_every_batch_of_the_mix() -> None:
    classes = FakePopulation(np.ones(40), {"label": [row % 2 for row in range(40)]})
    mixing = Mixing((1, 1), (Sampling("quota", column="label"), SHUFFLE), stop="none", epoch_length=160)
    stream = MixStream([classes, uniform_population(40)], mixing, 7, global_batch=16)
    for batch in stream.positions(0, 0, 0, 160).reshape(-1, 16):
        assert np.bincount(batch[batch < 40] % 2).tolist() == [4, 4]


def test_components_draw_in_any_mode() -> None:
    population = FakePopulation(np.arange(1.0, 41), {"label": [row % 2 for row in range(40)]})
    samplings = (
        Sampling("sequential"),
        Sampling("weighted"),
        Sampling("weighted_once", 10),
        Sampling("quota", column="label"),
        Sampling("blocks", block_records=5, window_records=10),
    )
    mixing = Mixing((1, 2, 3, 4, 5), samplings, stop="none", epoch_length=300)
    stream = MixStream([population] * 5, mixing, 7, global_batch=20)
    whole = stream.positions(2, 0, 0, 300)
    pieces = [stream.positions(2, 0, start, 4) for start in range(0, 300, 4)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    copy = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(copy.positions(2, 0, 0, 300), whole)


def test_the_text_names_ratios_and_samplings() -> None:
    assert Mixing((0.7, 0.3), (SHUFFLE, Sampling("weighted", 50))).text() == (
        "mix stop=first_exhausted [0.7 shuffle] [0.3 weighted epoch_length=50]"
    )
    assert Mixing((1,), (SHUFFLE,), "none", 9).text() == "mix stop=none epoch_length=9 [1.0 shuffle]"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ratios": (), "samplings": ()}, "there are 0 ratios and 0 samplings"),
        ({"ratios": (1, 2), "samplings": (SHUFFLE,)}, "there are 2 ratios and 1 samplings"),
        ({"ratios": (0,), "samplings": (SHUFFLE,)}, r"ratios\[0\] is 0 but must be finite and above 0"),
        (
            {"ratios": (1,), "samplings": (SHUFFLE,), "stop": "never"},
            "stop is 'never' but must be one of first_exhausted",
        ),
        ({"ratios": (1,), "samplings": (SHUFFLE,), "stop": "none"}, "epoch_length is None with stop 'none'"),
        ({"ratios": (1,), "samplings": (SHUFFLE,), "epoch_length": 5}, "epoch_length is 5 with stop 'first_exhausted'"),
        ({"ratios": (1,), "samplings": (SHUFFLE,), "stop": "none", "epoch_length": 0}, "epoch_length is 0 but must be"),
    ],
)
def test_a_wrong_mixing_is_refused_with_its_value(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Mixing(**options)


def test_a_mix_that_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ratios\[1\] is 0\.001 and comes to 0 of 10 draws in an epoch"):
        mix([10, 10], [1, 0.001], stop="none", epoch_length=10)
    with pytest.raises(ValueError, match="there are 1 populations but 2 ratios"):
        MixStream([uniform_population(3)], Mixing((1, 1), (SHUFFLE, SHUFFLE)), 0, global_batch=1)
    with pytest.raises(ValueError, match="global_batch is 0"):
        mix([10, 10], [1, 1], global_batch=0)
    with pytest.raises(ValueError, match="seed is -1"):
        mix([10, 10], [1, 1], seed=-1)
