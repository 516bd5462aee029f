"""Readers and what happens around them: other threads, signals, forks, and the end of the process."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_threads import in_child, in_many_threads, reader_threads
from raw_caches import write_cache

from dsrt_lightning._core import RawReader, ShardSet

RECORDS = [bytes([i]) * 100 for i in range(200)]
OPTIONS: dict[str, Any] = {"threads": 2, "max_batches": 4, "max_bytes": 1 << 20}


@pytest.fixture
def shards(tmp_path: Path) -> ShardSet:
    return ShardSet([write_cache(tmp_path / "a", RECORDS, level=3)], "first")


def full_reader(shards: ShardSet) -> RawReader:
    """With all records submitted as often as it takes."""
    reader = RawReader(shards, **OPTIONS)
    while reader.can_submit():
        reader.submit(np.arange(200))
    return reader


def test_readers_dropped_after_one_batch_leave_no_threads_or_descriptors(shards: ShardSet) -> None:
    gc.collect()
    with_one = full_reader(shards)
    assert len(reader_threads()) >= OPTIONS["threads"]
    with_one.close()
    before = len(reader_threads()), len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        full_reader(shards).next()
    assert (len(reader_threads()), len(os.listdir("/proc/self/fd"))) == before


@in_many_threads
def test_forked_child_is_refused_at_once_and_may_make_its_own_reader(shards: ShardSet) -> None:
    reader = full_reader(shards)
    inherited = [list(reader.next())]

    def work() -> None:
        refusal = "opened before a fork, .* open it in the worker, or start workers with spawn or forkserver"
        for call in (reader.next, lambda: reader.submit(np.arange(3)), reader.can_submit):
            with pytest.raises(RuntimeError, match=refusal):
                call()
        reader.close()
        inherited.clear()
        assert list(full_reader(shards).next()) == RECORDS

    assert [in_child(work) for _ in range(10)] == [0] * 10
    assert list(reader.next()) == RECORDS


@in_many_threads
def test_forked_child_may_drop_the_reader(shards: ShardSet) -> None:
    readers = [full_reader(shards)]
    assert [in_child(readers.clear) for _ in range(10)] == [0] * 10
    assert list(readers[0].next()) == RECORDS


@pytest.fixture
def slow_reader(tmp_path: Path) -> RawReader:
    """Whose batches take long and little memory: the same large record is checked again and again."""
    files = write_cache(tmp_path / "large", [bytes(1 << 24)], shard_bytes=1 << 25)
    return RawReader(ShardSet([files], "always"), **OPTIONS)


def test_waiting_consumer_lets_other_threads_run(slow_reader: RawReader) -> None:
    go, steps = threading.Event(), []

    def step() -> None:
        go.wait()
        steps.append(1)

    thread = threading.Thread(target=step)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # From here on this thread runs until it lets go of the GIL by itself.
    try:
        slow_reader.submit(np.zeros(200, np.int64))
        go.set()
        slow_reader.next()
        steps_while_waiting = len(steps)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert steps_while_waiting == 1


def test_signal_handler_ends_a_waiting_next(slow_reader: RawReader) -> None:
    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        slow_reader.submit(np.zeros(100_000, np.int64))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(KeyboardInterrupt):
            slow_reader.next()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert slow_reader.pending == 1


def test_interpreter_exits_cleanly_with_a_half_consumed_reader(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import numpy as np
from dsrt_lightning._core import RawReader, ShardSet
from raw_caches import write_cache
files = write_cache(Path(sys.argv[1]), [bytes(100)] * 1000, level=3)
reader = RawReader(ShardSet([files], "first"), threads=2, max_batches=8, max_bytes=1 << 20)
for _ in range(8):
    reader.submit(np.arange(1000))
views = list(reader.next())
print(len(views))
"""
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "1000\n", "")
