"""Kill a loader's worker, then a training process that has workers: an error soon, and nothing left behind.

python killed_workers.py WORK NUM_KILLS
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scale import tell
from vanishing_files import build

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.loading.sample import Sample

SHARED_MEMORY = Path("/dev/shm")
PATIENCE_S = 30


def slowly(sample: Sample) -> dict[str, np.ndarray]:
    time.sleep(0.001)
    return {"i": sample.data["i"], "x": sample.data["x"].copy()}


def children(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        yield from map(int, task.read_text().split())


def descendants(process: int) -> Iterator[int]:
    for child in children(process):
        yield child
        yield from descendants(child)


def workers_of(process: int) -> list[int]:
    """Return the processes that a fork server made for ``process``: its children's children."""
    return [worker for child in children(process) for worker in descendants(child)]


def shared_memory_of(process: int) -> set[str]:
    """Return what a process has in /dev/shm: torch's blocks, and semaphores."""
    mapped = re.findall(rf"{SHARED_MEMORY}/(\S+)", Path(f"/proc/{process}/maps").read_text())
    return {*mapped, *(path.name for path in SHARED_MEMORY.glob(f"torch_{process}_*"))}


def is_gone(names: set[str]) -> bool:
    return not names & set(os.listdir(SHARED_MEMORY))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def train(cache: Path, kill_one_worker: bool) -> None:
    """Read batches from two workers, for ever or until one of them is killed."""
    loader = RTLoader(open_dataset(cache, epoch_length=10**6), batch_size=4, workers=2, transform=slowly)
    batches = iter(loader)
    next(batches)
    print("ready", flush=True)
    if kill_one_worker:
        os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
    start = time.monotonic()
    try:
        for _ in batches:
            pass
    except RuntimeError as error:
        if "worker" not in str(error):
            raise
        print(f"{time.monotonic() - start:.1f}", flush=True)


def start_training(cache: Path, temporary: Path, kill_one_worker: bool) -> subprocess.Popen[str]:
    temporary.mkdir()
    command = [sys.executable, __file__, "train", cache, str(int(kill_one_worker))]
    environment = {**os.environ, "TMPDIR": os.fspath(temporary)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill_a_worker(cache: Path, temporary: Path) -> float:
    """Return after how many seconds the training process was told."""
    process = start_training(cache, temporary, kill_one_worker=True)
    names = shared_memory_of(process.pid)
    output, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 0
    wait_until(lambda: is_gone(names), "shared memory goes")
    return float(output)


def kill_the_training(cache: Path, temporary: Path) -> None:
    process = start_training(cache, temporary, kill_one_worker=False)
    family = [process.pid, *descendants(process.pid)]
    assert len(family) >= 4, family
    names = set().union(*map(shared_memory_of, family))
    assert names, "not even semaphores"
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(is_running, family)), "the workers of a killed process end")
    wait_until(lambda: is_gone(names), "shared memory goes")


def main(work: Path, num_kills: int) -> None:
    cache = build(work / "caches", "none")
    slowest_s = 0.0
    for number in range(num_kills):
        tell(f"worker {number}")
        slowest_s = max(slowest_s, kill_a_worker(cache, work / f"tmp-worker-{number}"))
        tell(f"training process {number}")
        kill_the_training(cache, work / f"tmp-training-{number}")
    left = list(work.glob("tmp-*/*"))
    assert not left, left
    assert os.listdir(work / "caches") == ["large"]
    print(f"killed workers: {num_kills}, error after at most {slowest_s:.1f} s; killed training processes: {num_kills}")
    print("left in /dev/shm, the temporary and the cache directory: 0")


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(Path(sys.argv[2]), sys.argv[3] == "1")
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]))
