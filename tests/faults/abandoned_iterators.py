"""Drop iterators after one batch, many times: threads, descriptors and memory stay flat.

python abandoned_iterators.py WORK NUM_ITERATORS
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from scale import tell
from vanishing_files import build

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.loading.sample import Sample

# Allocators and interpreters settle within a few megabytes; a leak of 10,000 batches would be far above.
SPARE_BYTES = 24 << 20
PATIENCE_S = 5
PROCESSES_ARE_SLOWER = 20  # times


def copied(sample: Sample) -> dict[str, np.ndarray]:
    return {"i": sample.data["i"], "x": sample.data["x"].copy()}


def usage() -> tuple[int, int, int]:
    """Return threads, open descriptors and resident bytes of this process."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), resident


def abandon(iterable: Iterable[object], times: int) -> None:
    for _ in range(times):
        next(iter(iterable))


def check_flat(name: str, iterable: Iterable[object], times: int) -> int:
    """Return by how many bytes memory grew."""
    tell(name)
    abandon(iterable, max(3, times // 10))
    threads, descriptors, resident = usage()
    abandon(iterable, times)
    # Python counts a thread as joined shortly before the system has ended it, and what a worker sent may still arrive.
    patient_until = time.monotonic() + PATIENCE_S
    threads_after, descriptors_after, resident_after = usage()
    while (threads_after > threads or descriptors_after > descriptors) and time.monotonic() < patient_until:
        os.sched_yield()
        threads_after, descriptors_after, resident_after = usage()
    assert threads_after <= threads, f"{name}: {threads} threads became {threads_after}"
    assert descriptors_after <= descriptors, f"{name}: {descriptors} descriptors became {descriptors_after}"
    grown = resident_after - resident
    assert grown < SPARE_BYTES, f"{name}: memory grew by {grown} bytes"
    return grown


def main(work: Path, num_iterators: int) -> None:
    dataset = open_dataset(build(work, "zstd"), sampling="sequential")
    loader: Callable[..., RTLoader] = lambda **options: RTLoader(dataset, batch_size=8, **options)  # noqa: E731
    iterables: dict[str, tuple[Iterable[object], int]] = {
        "native threads": (loader(), num_iterators),
        "Python threads": (loader(transform=copied), num_iterators),
        "the dataset": (dataset, num_iterators),
        "two processes": (loader(transform=copied, workers=2), num_iterators // PROCESSES_ARE_SLOWER),
    }
    for name, (iterable, times) in iterables.items():
        if not times:
            continue
        grown = check_flat(name, iterable, times)
        print(f"iterators of {name} dropped after one batch: {times}; threads +0, descriptors +0, {grown >> 10} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
