"""A slice of `make soak`."""

from __future__ import annotations

from collections.abc import Callable

from scale import count


def test_cache_outlives_random_faults_kills_and_resumes_without_a_wrong_sample(run_script: Callable[..., str]) -> None:
    run_script("soak.py", count(fast=0, full=30), 1)
