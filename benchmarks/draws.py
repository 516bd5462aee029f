"""What draws cost in CPU time, a mode a line: building the stream, seeking into an epoch, drawing on from its start.

python benchmarks/draws.py --rows 10000000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsrt_lightning.draws.mix import Mixing, MixStream
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.draws.stream import DrawStream

GLOBAL_BATCH = 256
NUM_SEEKS = 200


class Rows:
    """A population of classes whose sizes and weights differ."""

    def __init__(self, num_rows: int, num_classes: int, *, uniform: bool) -> None:
        random = np.random.default_rng(0)
        self.uniform = uniform
        self.weights = np.ones(num_rows) if uniform else random.exponential(size=num_rows)
        self.codes = np.minimum(random.geometric(2 / num_classes, num_rows), num_classes).astype(np.int32) - 1
        self.num_classes = num_classes

    def __len__(self) -> int:
        return len(self.weights)

    def group_codes(self, column: str) -> tuple[NDArray[np.int32], list[Any]]:
        return self.codes, list(range(self.num_classes))

    def table(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        return make()


def report(name: str, make: Callable[[], DrawStream | MixStream]) -> None:
    began = time.process_time()
    stream = make()
    built = time.process_time()
    stream.positions(0, 0, 0, GLOBAL_BATCH)
    first = time.process_time()
    starts = np.random.default_rng(1).integers(0, stream.epoch_length // GLOBAL_BATCH, NUM_SEEKS) * GLOBAL_BATCH
    sought = time.process_time()
    for start in starts.tolist():
        stream.positions(0, 0, start, 1)
    ended = time.process_time()
    count = min(stream.epoch_length, 2_000_000) // GLOBAL_BATCH
    for batch in range(count):
        stream.positions(0, 0, batch * GLOBAL_BATCH, GLOBAL_BATCH)
    drawn = time.process_time()
    seek_us = (ended - sought) / NUM_SEEKS * 1e6
    draw_ns = (drawn - ended) / count / GLOBAL_BATCH * 1e9
    print(
        f"{name:36} build {built - began:6.2f} s   first batch {(first - built) * 1e3:8.2f} ms   "
        f"seek {seek_us:8.1f} us   {draw_ns:6.0f} ns a draw"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    equal, unequal = (Rows(arguments.rows, 10, uniform=uniform) for uniform in (True, False))
    many = Rows(arguments.rows, 1000, uniform=True)
    print(f"{arguments.rows} rows, global batches of {GLOBAL_BATCH}")

    def of(population: Rows, **options: Any) -> Callable[[], DrawStream]:
        return lambda: DrawStream(population, Sampling(**options), 7, global_batch=GLOBAL_BATCH)

    report("sequential", of(equal, mode="sequential"))
    report("shuffle", of(equal, mode="shuffle"))
    report("weighted, equal weights", of(equal, mode="weighted"))
    report("weighted", of(unequal, mode="weighted"))
    report("weighted_once", of(unequal, mode="weighted_once"))
    report("quota, 10 classes", of(equal, mode="quota", column="label"))
    report("quota, 10 classes, weights inside", of(unequal, mode="quota", column="label"))
    report("quota, 1000 classes", of(many, mode="quota", column="label"))
    report("blocks of 1000, windows of 256000", of(equal, mode="blocks", block_records=1000, window_records=256_000))
    samplings = (Sampling("shuffle"), Sampling("weighted"))
    report(
        "mix of shuffle and weighted",
        lambda: MixStream([equal, unequal], Mixing((3, 1), samplings), 7, global_batch=256),
    )


if __name__ == "__main__":
    main()
