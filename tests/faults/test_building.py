"""Whatever fails while a cache is built, it is absent or complete, and the next build succeeds and leaves nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from scale import count

Run = Callable[..., str]
# In full every kind of cache is built, here one or two.
SOME_KINDS = count(fast=["ragged-zstd"], full=[])


def test_each_system_call_of_a_build_may_fail(run_script: Run, injector: Path) -> None:
    run_script("failing_calls.py", *SOME_KINDS, preload=injector)


def test_builder_killed_at_each_system_call_and_at_random_times_loses_nothing(run_script: Run, injector: Path) -> None:
    run_script("kills.py", count(fast=20, full=600), *count(fast=["bytes-none"], full=[]), preload=injector)


def test_ctrl_c_at_a_random_time_cleans_up(run_script: Run) -> None:
    run_script("interrupts.py", count(fast=20, full=500))


def test_everything_is_on_the_disk_before_it_is_published(run_script: Run, injector: Path) -> None:
    run_script("durable_order.py", preload=injector)


def test_of_several_builders_of_one_cache_one_wins_and_nothing_is_mixed(run_script: Run) -> None:
    run_script("rivals.py", count(fast=10, full=300), 4)


def test_disk_that_is_full_or_read_only_is_an_os_error_and_publishes_nothing(run_script: Run) -> None:
    in_a_namespace = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*in_a_namespace, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode != 0:
        pytest.skip("this system does not let its users mount a file system of their own")
    run_script("small_disks.py", 4096, *SOME_KINDS, prefix=in_a_namespace)
