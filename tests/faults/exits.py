"""End interpreters whose loaders are half consumed, in every way that one may end.

python exits.py WORK NUM_EXITS [ITERATOR...]
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from abandoned_iterators import copied
from scale import tell
from vanishing_files import build

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.loading.dataset import RTDataset

PATIENCE_S = 60
PROCESSES_ARE_SLOWER = 5  # times

kept: list[Iterator[object]] = []  # until the interpreter clears its modules


def end_of_the_script() -> None:
    pass


def exit_call() -> None:
    sys.exit(0)


def uncaught_exception() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # Its traceback is no news.
    raise ValueError("a bug in somebody's training script")


WAYS: dict[Callable[[], None], int] = {end_of_the_script: 0, exit_call: 0, uncaught_exception: 1}


def end_interpreter(begin: Callable[[], Iterator[object]], way: Callable[[], None]) -> bool:
    """Fork; return whether this is the child, which then ends as the whole script does. The parent checks how."""
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)
        kept.append(begin())
        next(kept[0])
        way()
        return True
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != -signal.SIGALRM, f"hung for {PATIENCE_S} s"
    assert code == WAYS[way], f"ended with {code}"
    return False


def beginnings(dataset: RTDataset) -> dict[str, Callable[[], Iterator[object]]]:
    def loader(**options: object) -> Callable[[], Iterator[object]]:
        return lambda: iter(RTLoader(dataset, batch_size=4, **options))  # type: ignore[arg-type]

    return {
        "native threads": loader(),
        "Python threads": loader(transform=copied),
        "the dataset": lambda: iter(dataset),
        "two processes": loader(transform=copied, workers=2),
    }


def main(work: Path, num_exits: int, names: list[str]) -> None:
    dataset = open_dataset(build(work, "zstd"), sampling="sequential")
    counts = []
    for name, begin in beginnings(dataset).items():
        if names and name not in names:
            continue
        times = num_exits // (PROCESSES_ARE_SLOWER if "processes" in name else 1)
        for number in range(times):
            way = list(WAYS)[number % len(WAYS)]
            tell(f"{name}: {way.__name__}, {number}")
            if end_interpreter(begin, way):
                return
        counts.append(f"{name} {times}")
    print(f"interpreters ended with a half-consumed iterator: {', '.join(counts)}; crashed or hung: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
