"""Cold data: our loader on files that the page cache does not hold, beside what their disk gives, in one run.

python -m benchmarks.cold --data build/bench/cold

Before each measurement every page of the files is dropped (posix_fadvise, checked with mincore), and the first part of
an epoch is read, each record once: what every part costs when the data are much larger than memory, so that pages are
gone before they are needed again. What the disk reads in vain counts then too: "read" tells its bytes for each byte of
a record. To measure under a limit instead: systemd-run --scope -p MemoryMax=2G make cold.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import describe
from benchmarks.synthetic import FIELD, Records, check, write_cache

SIZES = [4 << 10, 192 << 10]
BATCH_BYTES = 8 << 20
PART = 8  # of an epoch, that one of so many is read
LIMIT_S = 5.0
# Draws of which the mixing is told, and into how many parts the table is cut for it.
MIXED_DRAWS, MIXED_PARTS = 256, 1000
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Order:
    """A mode of sampling; blocks and windows in bytes."""

    mode: str
    block: int = 0
    window: int = 0

    def sampling(self, size: int) -> Any:
        """Return it for records of ``size`` bytes."""
        from dsrt_lightning.draws.sampling import Sampling

        if self.mode != "blocks":
            return Sampling(self.mode)  # type: ignore[arg-type]
        block = max(1, self.block // size)
        return Sampling("blocks", block_records=block, window_records=self.window // self.block * block)

    def __str__(self) -> str:
        if self.mode != "blocks":
            return self.mode
        return f"blocks of {self.block >> 10:,} KiB in windows of {self.window >> 20} MiB"


ORDERS = [
    Order("sequential"),
    *(Order("blocks", block, 256 << 20) for block in (16 << 20, 4 << 20, 1 << 20, 256 << 10)),
    Order("blocks", 1 << 20, 32 << 20),
    Order("shuffle"),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("build/bench/cold"), help="folder of the caches")
    parser.add_argument("--gib", type=float, default=4, help="bytes of each cache")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES", help="of a record")
    parser.add_argument("--order", type=int, help="measure one of the orders, in this process")
    arguments = parser.parse_args()
    for size in arguments.sizes:
        records = Records(int(arguments.gib * 2**30) // size, size)
        store = arguments.data / f"records-{size}-{records.count}"
        write_cache(store, records)
        if arguments.order is not None:
            print(json.dumps(_read(store, records, ORDERS[arguments.order])))
            return
        print(f"\n{records.count:,} records of {size:,} bytes\n\n| | MB/s | read | mixing |\n| --- | --- | --- | --- |")
        for name, speed in _disk(store, size).items():
            print(f"| {name} | {speed / 1e6:,.0f} | | |", flush=True)
        for number, order in enumerate(ORDERS):
            command = [sys.executable, "-m", "benchmarks.cold", "--data", str(arguments.data)]
            options = ["--gib", str(arguments.gib), "--sizes", str(size), "--order", str(number)]
            done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True, text=True)
            speed, read = json.loads(done.stdout)
            print(f"| {order} | {speed / 1e6:,.0f} | {read:.2f} | {_mixing(records, order):.2f} |", flush=True)
    facts = [*describe({"ours": sys.executable}), _block_device(arguments.data)]
    print("\n".join(["", *(f"- {fact}" for fact in facts)]))


def _read(store: Path, records: Records, order: Order) -> tuple[float, float]:
    """Return our bytes a second over a part of an epoch, and what the disk read for each of them."""
    from dsrt_lightning import RTLoader, open_dataset

    _drop(store)
    dataset = open_dataset(store, seed=7, sampling=order.sampling(records.size))
    loader: Any = RTLoader(dataset, batch_size=max(1, BATCH_BYTES // records.size), fields=[FIELD, "sample_id"])
    read, began, count = _bytes_from_disk(), time.perf_counter(), 0
    batch: Any = None
    for batch in loader:
        count += len(batch[1])
        if count >= records.count // PART or time.perf_counter() - began > LIMIT_S:
            break
    seconds = time.perf_counter() - began
    read = _bytes_from_disk() - read
    check(batch[0].numpy(), batch[1].numpy(), records)
    return count * records.size / seconds, read / (count * records.size)


def _bytes_from_disk() -> int:
    """Return the bytes that the disk read for this process."""
    return int(re.search(r"^read_bytes: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)[1])  # type: ignore[index]


def _disk(store: Path, size: int) -> dict[str, float]:
    """Return what the disk gives without the page cache: in order, and records at random with some at a time."""
    shards = sorted((store / "shards").iterdir())
    _drop(store)
    measured = {"dd in order, direct": _dd(shards[0], "iflag=direct"), "dd in order": _dd(shards[0])}
    if fio := shutil.which("fio"):
        measured["fio, 8 MiB in order, 4 at a time"] = _fio(fio, shards[0], "read", 8 << 20, 4)
    for at_once in (1, 2, 8, 32):
        measured[f"pread of a record at random, direct, {at_once} at a time"] = _random(shards, size, at_once)
    return measured


def _dd(path: Path, *options: str) -> float:
    command = ["dd", f"if={path}", "of=/dev/null", "bs=8M", *options]
    text = subprocess.run(command, capture_output=True, check=True, text=True, env={**os.environ, "LC_ALL": "C"}).stderr
    found = re.search(r"(\d+) bytes .*, ([\d.e-]+) s,", text)
    assert found, text
    return int(found[1]) / float(found[2])


def _fio(fio: str, path: Path, kind: str, size: int, depth: int) -> float:
    options = {"name": "cold", "filename": path, "rw": kind, "bs": size, "iodepth": depth, "ioengine": "libaio"}
    options |= {"direct": 1, "readonly": 1, "time_based": 1, "runtime": 3, "output-format": "json"}
    command = [fio, *(f"--{name}={value}" for name, value in options.items())]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"])


def _random(shards: list[Path], size: int, at_once: int, duration_s: float = 2.0) -> float:
    files = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in shards]
    places = [(file, at) for file in files for at in range(0, os.fstat(file).st_size - size + 1, size)]
    began = time.perf_counter()

    def read(thread: int) -> int:
        # Anonymous maps are aligned as direct reads want it.
        buffer = mmap.mmap(-1, size)
        count = 0
        for place in np.random.default_rng(thread).permutation(len(places)).tolist():
            file, at = places[place]
            count += os.preadv(file, [buffer], at)
            if time.perf_counter() - began > duration_s:
                break
        return count

    with ThreadPoolExecutor(at_once) as pool:
        total = sum(pool.map(read, range(at_once)))
    seconds = time.perf_counter() - began
    for file in files:
        os.close(file)
    return total / seconds


def _mixing(records: Records, order: Order) -> float:
    """Return of how many parts of the table some consecutive draws are, against uniform ones.

    That is the share of the classes that a batch would hold of a table sorted by 1,000 of them.
    """
    from dsrt_lightning.draws.stream import DrawStream

    stream = DrawStream(_Rows(records.count), order.sampling(records.size), 7)
    starts = np.random.default_rng(0).integers(0, records.count - MIXED_DRAWS, 50).tolist()
    draws = (stream.positions(0, 0, start, MIXED_DRAWS) * MIXED_PARTS // records.count for start in starts)
    uniform = MIXED_PARTS * (1 - (1 - 1 / MIXED_PARTS) ** MIXED_DRAWS)
    return statistics.mean(len(np.unique(parts)) for parts in draws) / uniform


class _Rows:
    """A population of equal weights, as far as draws need one."""

    uniform = True

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _drop(store: Path) -> None:
    """Drop the pages of every file.

    Raises:
        RuntimeError: More than a thousandth of them stayed: somebody else has them mapped.
    """
    pages = kept = 0
    for path in (path for path in store.rglob("*") if path.is_file()):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for resident in _residence(file.fileno()):
                pages += 1
                kept += resident & 1
    if kept > pages / 1000:
        raise RuntimeError(f"{store}: {kept} of {pages} pages stayed in memory; who else has these files mapped?")


def _residence(descriptor: int) -> Iterator[int]:
    """Yield a byte for each page of a file, odd where it is in memory."""
    size = os.fstat(descriptor).st_size
    content = np.frombuffer(mmap.mmap(descriptor, size, prot=mmap.PROT_READ), np.uint8)
    pages = (ctypes.c_ubyte * -(-size // _PAGE_BYTES))()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(size), pages):
        raise OSError(ctypes.get_errno(), "mincore")
    yield from pages


def _block_device(path: Path) -> str:
    number = os.stat(path).st_dev
    queue = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue/read_ahead_kb")
    ahead = f"{queue.read_text().strip()} KiB" if queue.exists() else "unknown"
    return f"disk: {os.major(number)}:{os.minor(number)}, read-ahead of the system {ahead}"


if __name__ == "__main__":
    main()
