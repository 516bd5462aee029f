"""Kill repairs at each system call and at random times, and fail each call: no file gets worse, the next one finishes.

python repairs.py WORK NUM_RANDOM STRIDE
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from damage import flip_byte, truncate
from injection import HALVE, KILL, Injector
from scale import tell
from small_caches import Kind, build

from dsrt_lightning.errors import CorruptCacheError
from dsrt_lightning.store.repair import Repair, repair_cache
from dsrt_lightning.store.verify import verify_cache

KIND = Kind("arrays", "dictionary")  # Which has every kind of file.


def shards_and_others(cache: Path) -> None:
    flip_byte(cache / "shards/000000.bin", 5)
    (cache / "dictionary.zst").unlink()
    truncate(cache / "index.bin", by=1)


def all_shards(cache: Path) -> None:
    shutil.rmtree(cache / "shards")


def manifest(cache: Path) -> None:
    (cache / "manifest.json").unlink()


DAMAGES: tuple[Callable[[Path], None], ...] = (shards_and_others, all_shards, manifest)


class Case:
    """A broken cache and its mirror, in an empty folder."""

    def __init__(self, folder: Path, sound: Path, damage: Callable[[Path], None]) -> None:
        folder.mkdir()
        self.folder = folder
        self.cache, self.mirror = folder / "cache", folder / "mirror"
        shutil.copytree(sound, self.mirror)
        shutil.copytree(sound, self.cache)
        damage(self.cache)
        self._sound, self._broken = contents(self.mirror), contents(self.cache)

    def repair(self) -> Repair:
        return repair_cache(self.cache, self.mirror)

    def check(self) -> None:
        """Each file is as it was or as it must be; the next repair makes all so, and leaves nothing else."""
        found = contents(self.cache)
        for name in self._sound:
            assert found.get(name) in (self._broken.get(name), self._sound[name]), f"{name} is worse than before"
        assert self.repair().problems == ()
        assert contents(self.cache) == self._sound
        assert contents(self.mirror) == self._sound
        assert sorted(os.listdir(self.folder)) == ["cache", "mirror"]
        assert list(verify_cache(self.cache)) == []
        shutil.rmtree(self.folder)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def start_repair(injector: Injector, case: Case, kill_at: int = 0) -> int:
    """Repair in a new process, which dies at call ``kill_at``; return its id."""
    child = os.fork()
    if child == 0:
        try:
            injector.watch(case.folder)
            injector.arm(kill_at, KILL)
            os._exit(0 if not case.repair().problems else 2)
        finally:
            os._exit(1)
    return child


def kill_at_each_call(injector: Injector, work: Path, sound: Path, damage: Callable[[Path], None], stride: int) -> int:
    """Return how often a repair was killed."""
    for killed in itertools.count():
        number = 1 + killed * stride
        tell(f"{damage.__name__}: killed at call {number}")
        case = Case(work / f"{damage.__name__}-{number}", sound, damage)
        _, status = os.waitpid(start_repair(injector, case, number), 0)
        case.check()
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "the repair failed"
            return killed


def kill_at_random_times(injector: Injector, work: Path, sound: Path, num_kills: int) -> int:
    chooser = random.Random(13)
    longest_s = 0.01
    killed = attempts = 0
    while killed < num_kills:
        attempts += 1
        damage, delay_s = chooser.choice(DAMAGES), chooser.uniform(0, longest_s)
        tell(f"{damage.__name__}: killed after {delay_s} s, attempt {attempts}")
        case = Case(work / f"random-{attempts}", sound, damage)
        child = start_repair(injector, case)
        time.sleep(delay_s)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        # Aims at the whole of a repair, however long one takes at the moment.
        longest_s *= 1.1 if os.WIFSIGNALED(status) else 0.8
        killed += os.WIFSIGNALED(status)
        case.check()
    return killed


def fail_each_call(injector: Injector, work: Path, sound: Path, stride: int) -> Counter[str]:
    tried: Counter[str] = Counter()
    for damage in DAMAGES:
        for fault, sticks in [(errno.EIO, False), (errno.ENOSPC, True), (errno.EINTR, False), (HALVE, False)]:
            number, fired = 1 - stride, "first"
            while fired:
                number += stride
                tell(f"{damage.__name__}: call {number} fails with {errno.errorcode.get(fault, 'half')}")
                case = Case(work / f"{damage.__name__}-{fault}-{number}", sound, damage)
                injector.watch(case.folder)
                injector.arm(number, fault, sticks=sticks)
                try:
                    named = list(case.repair().problems)
                except (OSError, CorruptCacheError) as error:
                    named = [str(error)]
                fired = injector.disarm()
                assert all(str(case.folder) in problem for problem in named), named
                if fault == HALVE:
                    assert named == []
                tried[fired] += 1
                case.check()
    del tried[""]
    return tried


def main(work: Path, num_random: int, stride: int) -> None:
    injector = Injector()
    sound = build(work, KIND).unwrap().path
    num_calls = sum(kill_at_each_call(injector, work, sound, damage, stride) for damage in DAMAGES)
    killed = kill_at_random_times(injector, work, sound, num_random)
    print(f"repairs killed: {num_calls} at a system call, each in turn, {killed} at a random time; files made worse: 0")
    tried = fail_each_call(injector, work, sound, stride)
    counts = ", ".join(f"{name} {n}" for name, n in tried.most_common())
    print(f"system calls of a repair that failed, in turn: {tried.total()} ({counts}); files made worse: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
