"""Damage the files of an opened cache, then read on: an exception that names the file, or the right records.

python vanishing_files.py WORK NUM_RACES
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scale import tell

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.errors import CorruptCacheError
from dsrt_lightning.loading.dataset import RTDataset
from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.sources import CacheInput

NUM_RECORDS = 60
NUM_RECORDS_IN_A_RACE = 1500
Damage = Callable[[Path], None]
Read = Callable[[RTDataset], Iterator[tuple[int, bytes]]]


class Large:
    """Records of more than a page, so that what is cut off is gone."""

    name = "large"

    def __init__(self, num_records: int) -> None:
        self._num_records = num_records

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(self._num_records):
            yield CacheInput({"x": np.full(5000, i % 251, np.uint8), "i": i}, {"i": i})


def cut_off(file: Path) -> None:
    """Leave about half, in whole pages: the rest of a page would still be mapped."""
    page = os.sysconf("SC_PAGESIZE")
    os.truncate(file, file.stat().st_size // 2 // page * page)


def remove(file: Path) -> None:
    file.unlink()


def replace_by_another(file: Path) -> None:
    other = file.with_suffix(".other")
    other.write_bytes(bytes(file.stat().st_size - 1))
    os.replace(other, file)


def lose_the_disk(file: Path) -> None:
    """Take the pages away beneath a file that keeps its size: what a failing disk looks like."""
    other = file.with_suffix(".other")
    shutil.copy(file, other)
    os.truncate(file, 0)
    os.replace(other, file)


# What is raised where the file was read before, so that it is mapped, and where it was not.
EXPECTED: dict[Damage, tuple[type[Exception] | None, type[Exception] | None]] = {
    cut_off: (CorruptCacheError, CorruptCacheError),
    remove: (None, OSError),
    replace_by_another: (None, CorruptCacheError),
    lose_the_disk: (OSError, None),
}


def by_batches(dataset: RTDataset) -> Iterator[tuple[int, bytes]]:
    for batch in RTLoader(dataset, batch_size=7, threads=3, drop_last=False):
        for valid, i, x in zip(batch["valid"], batch["i"], batch["x"], strict=True):
            if valid:
                yield int(i), x.numpy().tobytes()


def by_position(dataset: RTDataset) -> Iterator[tuple[int, bytes]]:
    for position in range(len(dataset)):
        sample = dataset[position]
        yield int(sample.data["i"]), sample.data["x"].tobytes()


def by_iteration(dataset: RTDataset) -> Iterator[tuple[int, bytes]]:
    for sample in dataset:
        yield int(sample.data["i"]), sample.data["x"].tobytes()


READS: tuple[Read, ...] = (by_batches, by_position, by_iteration)


def build(root: Path, compression: str, num_records: int = NUM_RECORDS, shard_bytes: int = 1 << 17) -> Path:
    options = {"codec": "arrays", "compression": compression, "shard_bytes": shard_bytes, "progress": False}
    return build_caches(Large(num_records), root, **options)[0].unwrap().path  # type: ignore[arg-type]


def open_copy(sound: Path, copy: Path) -> RTDataset:
    shutil.copytree(sound, copy)
    return open_dataset(copy, sampling="sequential")


def read_all(dataset: RTDataset, read: Read) -> Exception | None:
    """Read every record; return what was raised, after nothing but right records."""
    count = 0
    try:
        for i, x in read(dataset):
            assert x == bytes([i % 251]) * 5000, f"wrong bytes in record {i}"
            count += 1
    except (CorruptCacheError, OSError) as error:
        return error
    assert count == len(dataset), count
    return None


def check(raised: Exception | None, expected: type[Exception] | None, file: Path) -> None:
    if expected is None:
        assert raised is None, repr(raised)
    else:
        assert isinstance(raised, expected), repr(raised)
        assert str(file) in str(raised), str(raised)


def damage_in_turn(sound: dict[str, Path], work: Path) -> int:
    """Every damage of a shard and of the index, before every way to read; return how many."""
    tried = 0
    for compression, path in sound.items():
        for read in READS:
            for damage, expected in EXPECTED.items():
                for name in ("shards/000001.bin" if compression == "none" else "shards/000000.bin", "index.bin"):
                    for was_read in (True, False):
                        tell(f"{compression}, {read.__name__}: {damage.__name__} {name}, read before: {was_read}")
                        copy = work / str(tried)
                        dataset = open_copy(path, copy)
                        if was_read:
                            assert read_all(dataset, read) is None
                        damage(copy / name)
                        check(read_all(dataset, read), expected[not was_read], copy / name)
                        shutil.rmtree(copy)
                        tried += 1
    return tried


def race(sound: Path, work: Path, num_races: int) -> int:
    """Truncate a shard at a random time of a pass; return how often that was noticed."""
    chooser = random.Random(11)
    noticed = 0
    pass_s = 0.02
    for number in range(num_races):
        copy = work / f"race-{number}"
        dataset = open_copy(sound, copy)
        assert read_all(dataset, by_batches) is None
        shard = copy / "shards/000000.bin"
        delay_s = chooser.uniform(0, pass_s)
        tell(f"race {number}: truncated after {delay_s} s")
        rival = threading.Thread(target=lambda: (time.sleep(delay_s), os.truncate(shard, 0)))  # noqa: B023
        rival.start()
        start = time.monotonic()
        raised = read_all(dataset, by_batches)
        pass_s = 0.9 * pass_s + 0.1 * (time.monotonic() - start)
        rival.join()
        assert raised is None or str(shard) in str(raised), raised
        noticed += raised is not None
        shutil.rmtree(copy)
    return noticed


def main(work: Path, num_races: int) -> None:
    sound = {compression: build(work / compression, compression) for compression in ("none", "zstd")}
    tried = damage_in_turn(sound, work)
    print(f"files cut off, removed, replaced or lost under an open dataset: {tried}; wrong bytes or signals: 0")
    noticed = race(build(work / "race", "none", NUM_RECORDS_IN_A_RACE, 1 << 30), work, num_races)
    print(f"shards truncated while threads read them: {num_races} ({noticed} noticed); wrong bytes or signals: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
