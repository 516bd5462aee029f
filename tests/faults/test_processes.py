"""Processes, threads and iterators come and go: nothing hangs, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scale import FULL, count

Run = Callable[..., str]
only_in_full = pytest.mark.skipif(not FULL, reason="starts many interpreters; run `make faults`")


def test_fork_while_threads_read_works_or_is_refused_at_once(run_script: Run) -> None:
    run_script("forks.py", count(fast=2, full=100))


def test_dataset_may_be_given_to_processes_of_every_start_method(run_script: Run) -> None:
    run_script("start_methods.py", count(fast=4, full=100), *count(fast=["fork"], full=["fork", "forkserver", "spawn"]))


@only_in_full
def test_killed_worker_or_training_process_is_an_error_soon_and_leaves_nothing(run_script: Run) -> None:
    run_script("killed_workers.py", 3)


@only_in_full
def test_killed_rank_ends_the_others_with_an_error(run_script: Run) -> None:
    run_script("killed_rank.py")


def test_iterators_dropped_after_one_batch_leave_no_thread_descriptor_or_memory(run_script: Run) -> None:
    run_script("abandoned_iterators.py", count(fast=19, full=10_000))


def test_many_caches_and_shards_need_few_descriptors(run_script: Run) -> None:
    run_script("many_files.py", count(fast=200, full=10_000), count(fast=40, full=400))


def test_interpreter_ends_cleanly_with_a_half_consumed_iterator(run_script: Run) -> None:
    run_script("exits.py", count(fast=1, full=15), *count(fast=["native threads"], full=[]))
