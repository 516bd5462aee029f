"""One measurement in a process of its own, so that builds and other systems leave no trace in it.

python -m benchmarks.case WORKLOAD CASE --data FOLDER --size full [--build]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.data import SIZES, Data

Measures = dict[str, float]


@dataclass(frozen=True)
class Case:
    """One system doing one workload.

    Attributes:
        system: ``ours``, ``limit`` or a peer, whose package is imported by its cases alone.
        store: Returns the store, which it builds where it is missing.
        run: Returns what was measured: seconds for the workload, or MiB of memory.
    """

    system: str
    store: Callable[[Data], Path]
    run: Callable[[Data, Path], Measures]


@dataclass(frozen=True)
class Row:
    """One line of the table: by what factor a measure of ours is better than the baseline's.

    Attributes:
        ours, base, limit: ``case.measure``; smaller is better. ``limit`` is what the machine allows.
        target: The factor to reach; None where none was set.
        amount, unit: What the seconds are for, to show speeds; amount 0 shows the measure itself.
    """

    name: str
    ours: str
    base: str
    limit: str | None
    target: float | None
    amount: Callable[[Data], float] = lambda data: 0
    unit: str = "s"


def time_passes(make: Callable[[], Iterable[Any]], check: Callable[[Any], int], rows: int, passes: int) -> Measures:
    """Return the seconds of the first pass, with whatever starts in it, and the median of the further ones.

    Args:
        make: Begins a pass.
        check: Returns the rows of a sound batch.
        rows: That every pass must deliver.
        passes: At least 2.
    """
    seconds = []
    for _ in range(passes):
        began = time.perf_counter()
        found = sum(check(batch) for batch in make())
        seconds.append(time.perf_counter() - began)
        if found != rows:
            raise ValueError(f"a pass delivered {found} rows of {rows}")
    return {"first": seconds[0], "steady": statistics.median(seconds[1:])}


def warm(store: Path) -> None:
    """Read every file of a store once, in order: systems reclaim pages that were not used for a while."""
    block = bytearray(8 << 20)
    for path in sorted(store.rglob("*")):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                while file.readinto(block):
                    pass


def load(workload: str) -> Any:
    """Return the module of a workload: its ``CASES`` and ``ROWS``."""
    return import_module(f"benchmarks.{workload}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("case")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--size", choices=list(SIZES), required=True)
    parser.add_argument("--build", action="store_true", help="only make the store")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    import torch  # noqa: F401  Imports are in no time.

    case: Case = load(arguments.workload).CASES[arguments.case]
    data = Data(arguments.data.absolute(), SIZES[arguments.size])
    store = case.store(data)
    if store != data.root:  # It reads one.
        warm(store)
    print(json.dumps({} if arguments.build else case.run(data, store)))


if __name__ == "__main__":
    main()
