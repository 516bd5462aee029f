"""Kill builders: at each system call in turn, then at random times.

python kills.py WORK NUM_RANDOM [KIND...]
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from injection import KILL, Injector
from scale import tell
from small_caches import KINDS, NAME, Kind, build, entries

from dsrt_lightning.errors import CacheNotFoundError
from dsrt_lightning.store.build_results import CacheBuilt, CacheReused
from dsrt_lightning.store.cache import open_cache
from dsrt_lightning.store.verify import verify_cache


def start_builder(injector: Injector, root: Path, kind: Kind, kill_at: int = 0) -> int:
    """Build in a new process, which dies at call ``kill_at``; return its id."""
    child = os.fork()
    if child == 0:
        try:
            injector.watch(root)
            injector.arm(kill_at, KILL)
            build(root, kind).unwrap()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def is_complete(root: Path, kind: Kind) -> bool:
    """Return whether the cache is there; then it must be whole."""
    try:
        cache = open_cache(root / NAME, allow_pickle=True)
    except CacheNotFoundError:
        return False
    assert list(verify_cache(cache.path)) == []
    assert cache.num_records == kind.num_records
    return True


def check_after_death(root: Path, kind: Kind) -> bool:
    """The cache is absent or complete, and the next build makes or keeps it and leaves nothing else."""
    was_complete = is_complete(root, kind)
    result = build(root, kind)
    assert isinstance(result, CacheReused if was_complete else CacheBuilt), result
    assert is_complete(root, kind)
    assert entries(root) == [NAME], entries(root)
    return was_complete


def kill_at_each_call(injector: Injector, work: Path, kind: Kind) -> int:
    number = 0
    while True:
        number += 1
        tell(f"{kind.name}: killed at call {number}")
        root = work / f"{kind.name}-{number}"
        root.mkdir()
        _, status = os.waitpid(start_builder(injector, root, kind, number), 0)
        check_after_death(root, kind)
        shutil.rmtree(root)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "the builder failed"
            return number - 1


def kill_at_random_times(injector: Injector, work: Path, kinds: list[Kind], num_kills: int) -> tuple[int, int]:
    """Return how many builders were killed, and how many of them had published."""
    chooser = random.Random(7)
    longest_s = 0.01
    killed = published = attempts = 0
    while killed < num_kills:
        attempts += 1
        kind = chooser.choice(kinds)
        root = work / f"random-{attempts}"
        root.mkdir()
        delay_s = chooser.uniform(0, longest_s)
        tell(f"{kind.name}: killed after {delay_s} s, attempt {attempts}")
        child = start_builder(injector, root, kind)
        time.sleep(delay_s)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        was_killed = os.WIFSIGNALED(status)
        # Aims at the whole of a build, however long one takes at the moment.
        longest_s *= 1.1 if was_killed else 0.8
        was_complete = check_after_death(root, kind)
        killed += was_killed
        published += was_killed and was_complete
        shutil.rmtree(root)
    return killed, published


def main(work: Path, num_random: int, kinds: list[Kind]) -> None:
    injector = Injector()
    num_calls = sum(kill_at_each_call(injector, work, kind) for kind in kinds)
    print(f"builders killed at a system call, at each in turn: {num_calls}; lost or broken caches: 0")
    killed, published = kill_at_random_times(injector, work, kinds, num_random)
    print(f"builders killed at a random time: {killed} ({published} had published); lost or broken caches: 0")


if __name__ == "__main__":
    chosen = sys.argv[3:]
    main(Path(sys.argv[1]), int(sys.argv[2]), [kind for kind in KINDS if not chosen or kind.name in chosen])
