"""What tests of native threads need: which ones live, and forked children."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest


def reader_threads() -> set[int]:
    """Return the ids of threads of readers; those that other tests left behind may end at any moment."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if (task / "comm").read_text().strip() == "dsrt-reader":
                found.add(int(task.name))
    return found


# From Python 3.12 on, os.fork() warns of what these tests are about.
in_many_threads = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def in_child(work: Callable[[], None]) -> int:
    """Exit status of ``work`` in a forked child, 0 if it returned."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # A hang ends as a failure.
        try:
            work()
        finally:
            os._exit(int(sys.exc_info()[0] is not None))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
