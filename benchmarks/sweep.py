"""Our loader over record sizes and batch sizes, beside one memcpy a record from a map into a batch that is used again.

python -m benchmarks.sweep --data build/bench/sweep

What was measured is kept in the folder by record size, so that a sweep can be done in pieces: --sizes 64 256.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import describe
from benchmarks.limits import Gather
from benchmarks.synthetic import FIELD, Records, check, write_cache

if TYPE_CHECKING:
    from dsrt_lightning.loading.dataset import RTDataset

SIZES = [64 << 2 * step for step in range(10)]  # to 16 MiB
BATCHES = [1, 4, 16, 64, 256, 1024, 4096, 8192]
STORE_BYTES = 192 << 20  # one shard, so that the limit maps the same file
MAX_BATCH_BYTES = 256 << 20
TRIALS = 3
TRIAL_S = 0.15
# More than the loader keeps ready, so that only steady work is timed.
SKIPPED_BATCHES = 6


@dataclass(frozen=True)
class Point:
    """Medians over the trials, in bytes a second.

    Attributes:
        limit: One memcpy a record, by torch on one thread or two, or by NumPy on two, whatever is fastest.
    """

    size: int
    batch: int
    ours: float
    limit: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("build/bench/sweep"), help="folder of the caches, about 2 GB")
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES, default=SIZES, metavar="BYTES")
    parser.add_argument("--picture", type=Path, help="where to draw all sizes measured so far, as SVG")
    arguments = parser.parse_args()
    for size in arguments.sizes:
        write_cache(arguments.data / f"records-{size}", Records(STORE_BYTES // size, size))
    os.sync()
    for size in arguments.sizes:
        print(f"records of {_bytes(size)}", file=sys.stderr, flush=True)
        points = [asdict(point) for point in _measure(arguments.data, size)]
        (arguments.data / f"{size}.json").write_text(json.dumps(points) + "\n")
    files = [arguments.data / f"{size}.json" for size in SIZES]
    points = [Point(**point) for file in files if file.exists() for point in json.loads(file.read_text())]
    print("\n".join([*_table(points), "", *(f"- {line}" for line in describe({"ours": sys.executable}))]))
    if arguments.picture:
        from benchmarks.pictures import draw_sweep

        draw_sweep([asdict(point) for point in points], arguments.picture)


def _measure(root: Path, size: int) -> Iterator[Point]:
    records = Records(STORE_BYTES // size, size)
    dataset = _opened(root / f"records-{size}", records)
    table = _mapped(root / f"records-{size}", records)
    for batch in BATCHES:
        if batch * size > MAX_BATCH_BYTES:
            return
        gathers = (_select(table, batch, 1), _select(table, batch, 2), _take(table, batch))
        systems = [_ours(dataset, batch), *(_limit(table, batch, gather) for gather in gathers)]
        seconds: list[list[float]] = [[] for _ in systems]
        for trial in range(TRIALS):
            for turn in range(len(systems)):
                number = (trial + turn) % len(systems)
                seconds[number].append(_seconds_a_batch(systems[number]))
        ours, *limits = (batch * size / statistics.median(values) for values in seconds)
        yield Point(size, batch, ours, max(limits))
        del systems
        gc.collect()


def _seconds_a_batch(next_batch: Callable[[], object]) -> float:
    for _ in range(SKIPPED_BATCHES):
        next_batch()
    began, count, seconds = time.perf_counter(), 0, 0.0
    while seconds < TRIAL_S or count < SKIPPED_BATCHES:
        next_batch()
        count += 1
        seconds = time.perf_counter() - began
    return seconds / count


def _opened(store: Path, records: Records) -> RTDataset:
    """Return the records as a dataset, each of which was read once: a new map costs more than a copy."""
    from dsrt_lightning import RTLoader, open_dataset

    # The shuffle goes on through as many cycles as it takes.
    dataset = open_dataset(store, seed=7, sampling="shuffle", epoch_length=1 << 40)
    batch = min(1024, records.count)
    warm: Iterator[Any] = iter(RTLoader(dataset, batch_size=batch, fields=[FIELD, "sample_id"], prefetch_batches=1))
    for _ in range(-(-records.count // batch)):
        data, ids = next(warm)
    check(data.numpy(), ids.numpy(), records)
    return dataset


def _mapped(store: Path, records: Records) -> NDArray[np.int64]:
    """Return the same file as int64 ``[count, size / 8]``, each page touched once."""
    # Copy-on-write, since torch warns of arrays that it must not write.
    table = np.memmap(store / "shards" / "000000.bin", np.int64, "c").reshape(records.count, -1)
    table.reshape(-1)[:: 4096 // 8].sum()
    return table


def _ours(dataset: RTDataset, batch: int) -> Callable[[], object]:
    from dsrt_lightning import RTLoader

    return iter(RTLoader(dataset, batch_size=batch, fields=FIELD)).__next__


Gathering = Callable[[NDArray[np.int64]], object]


def _select(table: NDArray[np.int64], batch: int, threads: int) -> Gathering:
    import torch

    select = Gather(table, batch, threads)

    def gather(rows: NDArray[np.int64]) -> object:
        torch.set_num_threads(threads)
        return select(rows)

    return gather


def _take(table: NDArray[np.int64], batch: int) -> Gathering:
    """Return what gathers by NumPy on two threads, which is faster than torch for some sizes."""
    out = np.empty((batch, table.shape[1]), table.dtype)
    other = ThreadPoolExecutor(1)

    def gather(rows: NDArray[np.int64]) -> object:
        half = len(rows) // 2
        first = other.submit(np.take, table, rows[:half], 0, out[:half], "clip")
        np.take(table, rows[half:], 0, out[half : len(rows)], "clip")
        return first.result()

    return gather


def _limit(table: NDArray[np.int64], batch: int, gather: Gathering) -> Callable[[], object]:
    count = len(table)
    rows = np.tile(np.random.default_rng(1).permutation(count), -(-batch // count) + 1)

    def batches() -> Iterator[object]:
        while True:
            for start in range(0, count, batch):
                yield gather(rows[start : start + batch])

    return batches().__next__


def _table(points: list[Point]) -> list[str]:
    """Return bytes a second, samples a second, and the share of the limit, a row a record size."""
    batches = sorted({point.batch for point in points})
    lines = [
        "| record | " + " | ".join(f"batch {batch}" for batch in batches) + " |",
        "| --- " * (len(batches) + 1) + "|",
    ]
    for size in sorted({point.size for point in points}):
        row = {point.batch: point for point in points if point.size == size}
        cells = [_cell(row[batch]) if batch in row else "" for batch in batches]
        lines.append(f"| {_bytes(size)} | " + " | ".join(cells) + " |")
    return lines


def _cell(point: Point) -> str:
    return f"{point.ours / 1e9:.3g} GB/s, {_count(point.ours / point.size)}/s, {point.ours / point.limit:.2f}"


def _count(value: float) -> str:
    for unit, name in ((1e6, " M"), (1e3, " k"), (1, "")):
        if value >= unit:
            return f"{value / unit:.{0 if value / unit >= 99.5 else 1}f}{name}"
    return f"{value:.2f}"


def _bytes(size: int) -> str:
    for shift, name in ((20, "MiB"), (10, "KiB")):
        if size >> shift:
            return f"{size >> shift} {name}"
    return f"{size} B"


if __name__ == "__main__":
    main()
