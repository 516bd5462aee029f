"""Memory does not grow with the data: private memory not with the population, peak memory within configured bounds."""

from __future__ import annotations

from collections.abc import Callable

from scale import count

Run = Callable[..., str]
BOUND_MIB = 4


def test_private_memory_of_no_process_grows_with_the_population(run_script: Run) -> None:
    sizes = count(fast=(20_000, 500_000), full=(20_000, 10_000_000))
    run_script("memory.py", *sizes, BOUND_MIB, *count(fast=[1], full=[0, 1, 2, 4]))


def test_little_memory_is_enough_for_what_is_configured_and_less_is_refused_cleanly(run_script: Run) -> None:
    run_script("low_memory.py", count(fast=12 << 10, full=4 << 10))
