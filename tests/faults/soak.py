"""Live with one cache for a while: train, be killed, resume on other ranks and workers, lose files, repair, rebuild.

    python soak.py WORK SECONDS [SEED]

Every sample delivered is compared with `soak_model`, which knows nothing of the package. Exit code 1 if one was wrong.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from abandoned_iterators import usage
from damage import flip_byte
from soak_model import NAME, Records, options
from soak_training import REFUSED, WRONG, Shared, Topology, prepare, train

from dsrt_lightning.errors import CacheConflictError
from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.cache import open_cache
from dsrt_lightning.store.repair import repair_cache
from dsrt_lightning.store.verify import verify_cache

PATIENCE_S = 120
SETTLED = 40  # acts
PROCESSES_ARE_RARE = 12  # A training with worker processes takes as long as this many without.


class WrongError(Exception):
    """Something is not as the model has it."""


class Soak:
    """One cache, its mirror, the last state of a training on it, and what happened so far."""

    def __init__(self, work: Path, chooser: random.Random) -> None:
        self._work, self._chooser = work, chooser
        self.cache, self.mirror = work / "caches" / NAME, work / "mirror" / NAME
        self.state = work / "state.json"
        # What processes say that are killed, too.
        self._errors = (work / "stderr").open("ab")
        self.shared = Shared()
        self.survived: Counter[str] = Counter()
        self._topology = Topology()
        build(self.mirror.parent)
        build(self.cache.parent)

    def train(self) -> None:
        """Resume, perhaps on other ranks and workers, and end by itself."""
        self._finish(self._start_training())

    def kill_training(self) -> None:
        child = self._start_training(num_batches=10**6)
        time.sleep(self._chooser.uniform(0, 0.3))
        os.kill(child, signal.SIGKILL)
        if self._finish(child, killed=True):
            self.survived["trainings killed"] += 1

    def damage_and_train(self) -> None:
        """Break files, train on what is left, and repair."""
        damaged = self._damage()
        self._finish(self._start_training(), damaged)
        self._repair(damaged)

    def damage_under_training(self) -> None:
        """Break files under a training, and repair them under the next one."""
        child = self._start_training()
        time.sleep(self._chooser.uniform(0, 0.2))
        damaged = self._damage()
        self._finish(child, damaged)
        child = self._start_training()
        self._repair(damaged)
        self._finish(child, damaged)

    def kill_repair(self) -> None:
        damaged = self._damage()
        self._kill_soon(lambda: repair_cache(self.cache, self.mirror), "repairs killed", longest_s=0.02)
        self._repair(damaged)

    def kill_rebuild(self) -> None:
        shutil.rmtree(self.cache)
        self._kill_soon(lambda: build(self.cache.parent), "builds killed", longest_s=0.3)
        build(self.cache.parent)
        self._check_equal_to_mirror()

    def refuse_another_mirror(self) -> None:
        """A repair from another cache is refused, and changes nothing."""
        other = build(self._work / "other", seed=1)
        try:
            repair_cache(self.cache, other)
            raise WrongError("a mirror of another cache was accepted")
        except CacheConflictError:
            shutil.rmtree(other.parent)

    def train_here(self) -> None:
        """Train in this very process, whose memory and descriptors are watched; it is left in the middle of a pass."""
        topology = self._next_topology(with_processes=False)
        try:
            train(self.cache, self.state, topology, self.shared, self._chooser.randint(1, 40))
        except SystemExit as end:
            raise WrongError(f"a training on {topology} ended with {end.code}") from end

    def _next_topology(self, with_processes: bool = True) -> Topology:
        topology = Topology.random(self._chooser)
        if not with_processes or self._chooser.randrange(PROCESSES_ARE_RARE):
            topology = topology.without_processes()
        self.survived["topology changes"] += topology != self._topology
        self._topology = topology
        return topology

    def _start_training(self, num_batches: int | None = None) -> int:
        topology, num_batches = self._next_topology(), num_batches or self._chooser.randint(1, 200)
        prepare(self.state)
        return self._in_child(lambda: train(self.cache, self.state, topology, self.shared, num_batches))

    def _finish(self, child: int, damaged: tuple[str, ...] = (), killed: bool = False) -> bool:
        """Wait for a training and judge its end; return whether it was killed by us."""
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == REFUSED and damaged:
            self.survived["trainings refused broken files"] += 1
        elif code != 0 and not (killed and code == -signal.SIGKILL):
            raise WrongError(f"a training on {self._topology} ended with {code}, damaged: {damaged}")
        return code == -signal.SIGKILL

    def _in_child(self, act: Callable[[], object]) -> int:
        """Act in a forked process, which ends with 0, or as ``act`` says by SystemExit; return its id."""
        child = os.fork()
        if child:
            return child
        code = WRONG
        try:
            os.dup2(self._errors.fileno(), sys.stderr.fileno())
            signal.alarm(PATIENCE_S)
            act()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _kill_soon(self, act: Callable[[], object], what: str, longest_s: float) -> None:
        child = self._in_child(act)
        time.sleep(self._chooser.uniform(0, longest_s))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            raise WrongError(f"{what}: ended with {code}")
        self.survived[what] += code != 0

    def _damage(self) -> tuple[str, ...]:
        """Break the manifest, or one to three other files; return which."""
        files = [entry.path for entry in open_cache(self.cache).manifest.files]
        chosen = (
            ["manifest.json"]
            if self._chooser.random() < 0.1
            else self._chooser.sample(files, self._chooser.randint(1, 3))
        )
        for name in chosen:
            how = self._chooser.choice((self._flip, self._truncate, Path.unlink))
            how(self.cache / name)
            self.survived["files damaged"] += 1
        return tuple(sorted(chosen))

    def _flip(self, file: Path) -> None:
        """Flip bytes of a copy that takes the file's place: under `verify="first"`, files do not change in place."""
        copy = file.with_name(f"{file.name}.flipped")
        shutil.copy(file, copy)
        for _ in range(self._chooser.randint(1, 5)):
            flip_byte(copy, self._chooser.randrange(file.stat().st_size))
        os.replace(copy, file)

    def _truncate(self, file: Path) -> None:
        """Truncate a file, or a copy that takes its place where a training may look at it through views."""
        if self._topology.in_python:
            copy = file.with_name(f"{file.name}.truncated")
            shutil.copy(file, copy)
            os.replace(copy, file)
        os.truncate(file, self._chooser.randrange(file.stat().st_size))

    def _repair(self, damaged: tuple[str, ...]) -> None:
        repair = repair_cache(self.cache, self.mirror)
        if repair.problems or not set(repair.replaced) <= set(damaged):
            raise WrongError(f"damaged {damaged} but repaired {repair}")
        self._check_equal_to_mirror()

    def _check_equal_to_mirror(self) -> None:
        """The cache, and nothing else, is there and is what it was in the beginning."""
        if contents(self.cache) != contents(self.mirror) or os.listdir(self.cache.parent) != [NAME]:
            raise WrongError(f"{self.cache} is not what was built: {problems(self.cache)}")


def build(root: Path, seed: int = 0) -> Path:
    (result,) = build_caches(Records(seed), root, progress=False, **options())
    return result.unwrap().path


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def problems(path: Path) -> list[str]:
    return [*verify_cache(path), *os.listdir(path.parent)]


def main(work: Path, seconds: float, seed: int) -> int:
    # Of what killed trainings leave to it.
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"
    chooser = random.Random(seed)
    soak = Soak(work, chooser)
    often = (soak.train, soak.kill_training, soak.damage_and_train, soak.damage_under_training, soak.train_here)
    first = (*often, soak.kill_repair, soak.kill_rebuild, soak.refuse_another_mirror)
    deadline = time.monotonic() + seconds
    baseline = None
    wrong = rounds = 0
    while time.monotonic() < deadline or rounds < len(first):
        act = first[rounds] if rounds < len(first) else chooser.choice(first + 2 * often)
        try:
            act()
        except Exception:
            print(f"wrong in act {rounds} ({act.__name__}) of seed {seed}:\n{traceback.format_exc()}")
            print(f"the end of {work}/stderr:\n{(work / 'stderr').read_text()[-2000:]}", flush=True)
            wrong = 1
            break
        rounds += 1
        if rounds == SETTLED:  # By then, what is kept has been made.
            baseline = usage()
    wrong = max(wrong, soak.shared.wrong)
    print(f"acts: {rounds}; samples checked: {soak.shared.samples}; wrong samples: {soak.shared.wrong}")
    print(f"faults survived: {', '.join(f'{count} {what}' for what, count in sorted(soak.survived.items()))}")
    if soak.state.exists():
        print(f"last state: {soak.state.read_text()}")
    if baseline:
        threads, descriptors, resident = (after - before for after, before in zip(usage(), baseline, strict=True))
        print(f"growth since act {SETTLED}: {threads} threads, {descriptors} descriptors, {resident >> 10} KiB")
        wrong = max(wrong, int(threads > 0 or descriptors > 0))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())))
