"""Hand an open dataset to new processes of each start method while threads of this one read.

python start_methods.py WORK NUM_RUNS METHOD...
"""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from multiprocessing.context import BaseContext
from pathlib import Path

from forks import as_it_is, threads_reading
from scale import tell
from vanishing_files import build

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.loading.dataset import RTDataset

PATIENCE_S = 60
AT_ONCE = 4


def read_everything(dataset: RTDataset) -> None:
    """What a worker may do with a dataset: single records, and loaders with threads of their own."""
    assert [int(dataset[i].data["i"]) for i in (0, 59)] == [0, 59]
    for transform in (None, as_it_is):
        loader = RTLoader(dataset, batch_size=8, transform=transform)
        assert [int(i) for batch in loader for i in batch["i"]] == list(range(56))


def run(context: BaseContext, dataset: RTDataset) -> None:
    processes = [context.Process(target=read_everything, args=(dataset,)) for _ in range(AT_ONCE)]  # type: ignore[attr-defined]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode is not None, f"hung for {PATIENCE_S} s"
        assert process.exitcode == 0, process.exitcode


def main(work: Path, num_runs: int, methods: list[str]) -> None:
    warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)  # Python 3.12 advises what is tested here.
    dataset = open_dataset(build(work, "zstd"), sampling="sequential")
    counts = []
    for method in methods:
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload(["torch", "dsrt_lightning.loading.loader"])
        for number in range(0, num_runs, AT_ONCE):
            tell(f"{method}: run {number}")
            with threads_reading(dataset, pause_s=0.001):
                batches = iter(RTLoader(dataset, batch_size=8))
                next(batches)
                run(context, dataset)
        counts.append(f"{method} {num_runs}")
    print(f"processes given an open dataset while threads read: {', '.join(counts)}; hung or wrong: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
