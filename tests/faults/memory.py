"""Measure the private memory of a training process and of its workers, on a small and on a large population.

    python memory.py WORK SMALL LARGE BOUND_MIB WORKERS...

Private is what no other process shares and no file backs: of /proc/PID/smaps, `Private_Clean` and `Private_Dirty`, but
for maps of the cache and of the population. Those are listed too: the pages that nobody else has touched yet, which
the system takes back when it needs them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from forks import as_it_is
from killed_workers import workers_of
from scale import tell

from dsrt_lightning import RTLoader
from dsrt_lightning._core import ShardWriter
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.loading.dataset import RTDataset
from dsrt_lightning.population.snapshot import prepare
from dsrt_lightning.store.arrow_file import ArrowFile
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.durable import describe_file
from dsrt_lightning.store.manifest import METADATA, Compression, FileEntry, Manifest, MetadataColumn, StoredCodec

RULES = [{"weight": {"expr": "1 + i % 3"}}]
NUM_BATCHES, BATCH_SIZE = 200, 64
ROWS_AT_ONCE = 1 << 16


class Memory(NamedTuple):
    """Bytes of one process."""

    private: int
    own_file_pages: int


def build(path: Path, num_rows: int) -> Path:
    """Write a cache of records of 8 bytes, straight through the native writer: seconds for ten million."""
    (path / "shards").mkdir(parents=True)
    writer = ShardWriter(
        os.fspath(path),
        shard_bytes=1 << 28,
        alignment=16,
        level=None,
        dictionary=None,
        threads=1,
        max_pending_bytes=64 << 20,
    )
    metadata = ArrowFile(path / METADATA, pa.schema([("i", pa.int64())]))
    for start in range(0, num_rows, ROWS_AT_ONCE):
        numbers = np.arange(start, min(num_rows, start + ROWS_AT_ONCE))
        content = memoryview(numbers.tobytes())
        for at in range(0, len(content), 8):
            writer.append((content[at : at + 8],))
        metadata.write([pa.array(numbers)], len(numbers))
    metadata.close()
    index, *shards = [FileEntry(*entry) for entry in writer.finish().files]
    manifest = Manifest(
        name=path.name,
        fingerprint=None,
        codec=StoredCodec("arrays", {"fields": [{"name": "i", "dtype": "int64", "shape": []}]}),
        num_records=num_rows,
        record_alignment=16,
        max_record_bytes=8,
        compression=Compression.of("none"),
        metadata_columns=(MetadataColumn("i", "int64"),),
        files=(index, describe_file(path, METADATA), *shards),
    )
    (path / "manifest.json").write_bytes(manifest.to_bytes())
    return path


def dataset_of(cache: Path) -> RTDataset:
    caches = open_caches(cache)
    population = prepare(caches, RULES, where="memory.py", directory=cache.parent / "populations")
    return RTDataset(caches, population, seed=1, sampling=Sampling.of("weighted"))


def train(cache: Path, num_workers: int) -> None:
    """Read some batches, then print the memory of this process and of its workers."""
    loader = RTLoader(dataset_of(cache), batch_size=BATCH_SIZE, workers=num_workers, transform=as_it_is)
    batches = iter(loader)
    for _ in range(NUM_BATCHES):
        next(batches)
    print(json.dumps([memory_of(process, cache.parent) for process in (os.getpid(), *workers_of(os.getpid()))]))


def memory_of(process: int, files: Path) -> Memory:
    private = own_file_pages = 0
    is_file = False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_file = os.fspath(files) in line
        elif line.startswith(("Private_Clean:", "Private_Dirty:")):
            size = int(line.split()[1]) << 10
            private, own_file_pages = private + size * (not is_file), own_file_pages + size * is_file
    return Memory(private, own_file_pages)


def run(*arguments: object) -> str:
    """Run this script again: what building and rules allocate is not what a training process has."""
    return subprocess.run(
        [sys.executable, __file__, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main(work: Path, small: int, large: int, bound_mib: float, worker_counts: list[int]) -> None:
    start = time.monotonic()
    tell(f"building {large} rows")
    caches = [work / f"{num_rows}" / "cache" for num_rows in (small, large)]
    for cache, num_rows in zip(caches, (small, large), strict=True):
        run("build", cache, num_rows)
    print(f"private memory on {large:,} rows beyond that on {small:,} (both made in {time.monotonic() - start:.0f} s):")
    for num_workers in worker_counts:
        tell(f"{num_workers} workers")
        few, many = ([Memory(*one) for one in json.loads(run("train", cache, num_workers))] for cache in caches)
        assert len(few) == len(many) == 1 + num_workers
        pairs = {"training process": (few[:1], many[:1]), "each worker": (few[1:], many[1:])}
        told = []
        for who, (before, after) in pairs.items():
            if after:
                growth = max(one.private for one in after) - max(one.private for one in before)
                pages = max(one.own_file_pages for one in after)
                told.append(
                    f"{who} {max(one.private for one in after) / 2**20:.0f} MiB, {growth / 2**20:+.1f} MiB "
                    f"(and up to {pages / 2**20:.0f} MiB of file pages)"
                )
                assert growth <= bound_mib * 2**20, f"{num_workers} workers: {told[-1]}"
        print(f"  {num_workers} workers: {'; '.join(told)}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build", cache, num_rows]:
            dataset_of(build(Path(cache), int(num_rows)))
        case ["train", cache, num_workers]:
            train(Path(cache), int(num_workers))
        case [_, small, large, bound_mib, *worker_counts]:
            # On a disk: pages of a file in memory never are anything but dirty.
            with tempfile.TemporaryDirectory(prefix="dsrt-memory-") as folder:
                main(Path(folder), int(small), int(large), float(bound_mib), list(map(int, worker_counts)))
