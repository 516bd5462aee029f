"""Fork while threads read, in every state that a loader can be in; every child must end by itself, and soon.

python forks.py WORK NUM_FORKS
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from scale import tell
from vanishing_files import build

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.loading.dataset import RTDataset
from dsrt_lightning.loading.sample import Sample

PATIENCE_S = 20
WAYS_OUT = ("spawn", "forkserver")


def as_it_is(sample: Sample) -> dict[str, np.ndarray]:
    """A transform: with one, batches are made by Python threads."""
    return dict(sample.data)


@contextmanager
def threads_reading(dataset: RTDataset, pause_s: float = 0) -> Iterator[None]:
    """Have two threads read single records all the while."""
    stop = threading.Event()

    def read() -> None:
        while not stop.wait(pause_s):
            _ = dataset[7].data["i"]

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def in_child(act: Callable[[], None]) -> None:
    """Fork; the child acts and exits 0, or is killed when it takes too long."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.dump_traceback_later(PATIENCE_S / 2)
            signal.alarm(PATIENCE_S)
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != -signal.SIGALRM, f"the child hung for {PATIENCE_S} s"
    assert code == 0, f"the child ended with {code}"


def read_records(dataset: RTDataset) -> None:
    for position in (0, 7, 59):
        assert int(dataset[position].data["i"]) == position


def iterate_anew(loader: RTLoader) -> None:
    assert sum(len(batch["i"]) for batch in loader) == 56


def go_on(begun: Iterator[object]) -> None:
    """Ask an iterator of the parent for more: it refuses with the way out, as soon as it needs its threads."""
    try:
        for _ in begun:
            pass
        refusal = "none"
    except RuntimeError as error:
        refusal = str(error)
    assert any(way in refusal for way in WAYS_OUT), refusal


def main(work: Path, num_forks: int) -> None:
    for compression in ("none", "zstd"):
        dataset = open_dataset(build(work / compression, compression), sampling="sequential")
        loaders = [RTLoader(dataset, batch_size=8, transform=transform) for transform in (None, as_it_is)]
        for number in range(num_forks // 2):
            tell(f"{compression}: fork {number}")
            with threads_reading(dataset):
                in_child(partial(read_records, dataset))
                for iterable in (dataset, *loaders):
                    begun = iter(iterable)
                    next(begun)
                    in_child(partial(go_on, begun))
                for loader in loaders:
                    in_child(partial(iterate_anew, loader))
    print(f"forks while threads read, with iterators begun and anew: {6 * 2 * (num_forks // 2)}; hung: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
