"""Build, open and read with less and less memory: within the configured bounds it works, below them it is refused.

    python low_memory.py WORK STEP_KIB

The limit is that of the data segment (RLIMIT_DATA): all memory that a process can write to, and no mapped file.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from forks import as_it_is
from scale import tell

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.build_results import BuildFailed
from dsrt_lightning.store.sources import CacheInput

RECORD_BYTES = 1 << 20
NUM_RECORDS = 256
NUM_ROWS = 400_000
# What the acts below need at most, far less than the data they go through.
BUDGET_BYTES = 72 << 20
REFUSED, WRONG = 3, 4
PATIENCE_S = 60
Act = Callable[[Path], None]


class Large:
    """Large records."""

    name = "large"

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(self._count):
            yield CacheInput({"x": np.full(RECORD_BYTES, i % 251, np.uint8), "i": i}, {"i": i})


class Wide:
    """Small records with large metadata."""

    name = "wide"

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(NUM_ROWS):
            yield CacheInput({"i": i}, {"i": i, "text": f"{i:0200d}"})


def build(source: Any, root: Path, compression: str = "none") -> Path:
    options: dict[str, Any] = {"codec": "arrays", "shard_bytes": 64 << 20, "max_pending_bytes": 4 << 20}
    (result,) = build_caches(source, root, compression=compression, progress=False, **options)
    if isinstance(result, BuildFailed):
        assert os.listdir(root) == []
    return result.unwrap().path


def build_plain(work: Path, count: int = NUM_RECORDS) -> None:
    build(Large(count), work / "plain")


def build_compressed(work: Path, count: int = NUM_RECORDS) -> None:
    build(Large(count), work / "compressed", "zstd")


def read_batches(work: Path, count: int = NUM_RECORDS, **options: Any) -> None:
    dataset = open_dataset(work / "made/large", sampling="sequential", epoch_length=count)
    for batch in RTLoader(dataset, batch_size=2, prefetch_bytes=4 << 20, **options):
        assert (batch["x"][:, ::4096] == (batch["i"] % 251)[:, None]).all()


def read_samples(work: Path, count: int = NUM_RECORDS) -> None:
    read_batches(work, count, transform=as_it_is)


def open_wide(work: Path, count: int = NUM_RECORDS) -> None:
    dataset = open_dataset(work / "made/wide", sampling="shuffle")
    for position in range(0, NUM_ROWS, NUM_ROWS // count):
        assert dataset[position].metadata["text"] == f"{position:0200d}"


# Where a thread has its stack and no memory for its first frame, Python itself waits for it without end.
LEAST_BYTES = {read_samples: 24 << 20}
ACTS: tuple[Callable[..., None], ...] = (build_plain, build_compressed, read_batches, read_samples, open_wide)


def is_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, says that there is no memory, or none for a thread."""
    while error is not None:
        if isinstance(error, MemoryError) or any(word in str(error) for word in ("memory", "thread", "MemoryError")):
            return True
        error = error.__cause__ or error.__context__
    return False


def under_limit(act: Callable[[], None], budget_bytes: int) -> str:
    """Act in a forked process that may allocate so much more than it has; return what became of it."""
    child = os.fork()
    if child == 0:
        code = WRONG
        try:
            signal.alarm(PATIENCE_S)
            status = Path("/proc/self/status").read_text()
            limit = (int(status.split("VmData:")[1].split()[0]) << 10) + budget_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            act()
            code = 0
        except BaseException as error:
            code = REFUSED if is_of_memory(error) else WRONG
            if code == WRONG:
                traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, REFUSED), f"ended with {code}"
    return "done" if code == 0 else "refused"


def main(work: Path, step_bytes: int) -> None:
    build(Large(NUM_RECORDS), work / "made")
    build(Wide(), work / "made")
    outcomes: Counter[str] = Counter()
    for act in ACTS:
        for budget_bytes in range(LEAST_BYTES.get(act, 0), BUDGET_BYTES, step_bytes):
            tell(f"{act.__name__} with {budget_bytes} bytes")
            outcomes[under_limit(lambda: act(work, 4), budget_bytes)] += 1  # noqa: B023
            clear(work)
        tell(f"{act.__name__} of all records with {BUDGET_BYTES} bytes")
        assert under_limit(lambda: act(work), BUDGET_BYTES) == "done", f"{act.__name__} needs more"  # noqa: B023
        clear(work)
    print(
        f"built, opened and read {NUM_RECORDS * RECORD_BYTES >> 20} MiB, and {NUM_ROWS:,} rows of wide metadata in "
        f"{BUDGET_BYTES >> 20} MiB; with less: {outcomes['done']} done, {outcomes['refused']} refused; crashes: 0"
    )


def clear(work: Path) -> None:
    for name in ("plain", "compressed"):
        shutil.rmtree(work / name, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) << 10)
