"""Interrupted runs train on what an uninterrupted run trains on: a fast slice of ``make fuzz``."""

from __future__ import annotations

import random

import pytest
from resume_scenarios import MODES, MOMENTS, Scenario, build_numbers, random_scenario, run


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return build_numbers(tmp_path_factory.mktemp("caches"))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("due", [1, 4, 6])
def test_every_checkpoint_moment_resumes_exactly(cache, moment, due):
    assert run(Scenario(stops=((moment, due),)), cache) is None


@pytest.mark.parametrize("sampling", MODES, ids=lambda sampling: sampling["mode"])
def test_every_mode_resumes_exactly_three_times_in_a_row(cache, sampling):
    scenario = Scenario(sampling=sampling, batch_size=4, stops=(("step", 2), ("exception", 6), ("validation_end", 9)))
    assert run(scenario, cache) is None


@pytest.mark.parametrize("seed", range(25))
def test_a_random_run_with_random_interruptions_resumes_exactly(cache, seed):
    scenario = random_scenario(random.Random(seed))
    assert run(scenario, cache) is None, scenario


def test_a_run_that_moves_between_two_ranks_and_one_resumes_exactly(cache):
    stops = (("step", 3), ("exception", 8), ("epoch_end", 10))
    assert run(Scenario(batch_size=4, max_epochs=4, ranks=(2, 1, 2), stops=stops), cache) is None


def test_a_resume_with_worker_processes_is_exact(cache):
    assert run(Scenario(workers=2, max_epochs=2, stops=(("exception", 8),)), cache) is None
