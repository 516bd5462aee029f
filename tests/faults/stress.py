"""Build, read, abandon and damage from many threads at once; for sanitizers, which watch every access of the core.

    DSRT_CORE=build/asan/_core....so python stress.py WORK SECONDS

Imports neither torch nor Polars: whatever is reported comes from the core or from how Python calls it.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np


def use_core(path: str) -> None:
    """Let this build of the core stand for the package's own."""
    spec = importlib.util.spec_from_file_location("dsrt_lightning._core", path)
    assert spec is not None
    assert spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    sys.modules["dsrt_lightning._core"] = core
    spec.loader.exec_module(core)


if core := os.environ.get("DSRT_CORE"):
    use_core(core)

from small_caches import KINDS, Kind, build  # noqa: E402

from dsrt_lightning._core import BatchReader, RawReader  # noqa: E402
from dsrt_lightning.errors import CorruptCacheError  # noqa: E402
from dsrt_lightning.store.cache_set import CacheSet, open_caches  # noqa: E402

ROWS_PER_BATCH = 16
Act = Callable[[random.Random], None]


class Stress:
    """What the threads do, to caches that they share."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._opened: dict[Kind, CacheSet] = {}
        for kind in KINDS:
            path = build(work / kind.name, kind).unwrap().path
            self._opened[kind] = open_caches(path, allow_pickle=True)
            _ = self._opened[kind].shards
        self.acts: tuple[Act, ...] = (self.read, self.gather, self.iterate, self.abandon, self.rebuild, self.damage)

    def read(self, chooser: random.Random) -> None:
        kind = chooser.choice(KINDS)
        caches = self._opened[kind]
        rows = self._rows(chooser, caches)
        for row, record in zip(rows, caches.shards.read_many(rows), strict=True):
            self._check(kind, caches, int(row), record)

    def gather(self, chooser: random.Random) -> None:
        caches = self._opened[chooser.choice([kind for kind in KINDS if kind.codec in ("arrays", "ragged")])]
        fields = range(len(caches.codec.fields))  # type: ignore[attr-defined]
        layout = caches.codec.layout()  # type: ignore[attr-defined]
        reader = BatchReader(caches.shards, layout, fields, threads=3, max_batches=4, max_bytes=1 << 20)
        for _ in range(chooser.randrange(12)):
            while reader.can_submit():
                reader.submit(self._rows(chooser, caches))
            batch = reader.next()
            assert len(batch[0][0]) == ROWS_PER_BATCH
        if chooser.random() < 0.5:
            reader.close()

    def iterate(self, chooser: random.Random) -> None:
        kind = chooser.choice(KINDS)
        caches = self._opened[kind]
        reader = RawReader(caches.shards, threads=2, max_batches=2, max_bytes=1 << 16)
        rows = self._rows(chooser, caches)
        reader.submit(rows)
        for row, record in zip(rows, reader.next(), strict=True):
            self._check(kind, caches, int(row), record)

    def abandon(self, chooser: random.Random) -> None:
        """Drop a reader that works, and keep what it gave."""
        caches = self._opened[chooser.choice(KINDS)]
        reader = RawReader(caches.shards, threads=2, max_batches=3, max_bytes=1 << 16)
        for _ in range(3):
            reader.submit(self._rows(chooser, caches))
        views = reader.next()
        del reader
        assert sum(len(view) for view in views) > 0

    def rebuild(self, chooser: random.Random) -> None:
        root = self._work / f"own-{threading.get_ident()}"
        build(root, chooser.choice(KINDS)).unwrap()
        shutil.rmtree(root)

    def damage(self, chooser: random.Random) -> None:
        """Truncate the shard of an own copy between two readings."""
        kind = Kind("bytes", "none")
        copy = self._work / f"copy-{threading.get_ident()}"
        shutil.copytree(self._opened[kind].caches[0].path, copy)
        caches = open_caches(copy, verify="always")
        rows = np.arange(caches.num_records)
        caches.shards.read_many(rows)
        os.truncate(copy / "shards/000000.bin", 0)
        try:
            caches.shards.read_many(rows)
        except CorruptCacheError:
            pass
        else:
            raise AssertionError("a truncated shard was read")
        finally:
            shutil.rmtree(copy)

    def _rows(self, chooser: random.Random, caches: CacheSet) -> np.ndarray:
        return np.array([chooser.randrange(caches.num_records) for _ in range(ROWS_PER_BATCH)])

    def _check(self, kind: Kind, caches: CacheSet, row: int, record: memoryview) -> None:
        expected = kind.sample(row)
        found = caches.codec.decode(record)
        equal = found == expected if kind.codec == "bytes" else (found["image"] == expected["image"]).all()
        assert equal, f"wrong bytes in record {row} of {kind.name}"


def main(work: Path, seconds: float) -> None:
    stress = Stress(work)
    deadline = time.monotonic() + seconds
    done: Counter[str] = Counter()
    failed = threading.Event()

    def act(seed: int) -> None:
        chooser = random.Random(seed)
        try:
            while time.monotonic() < deadline and not failed.is_set():
                chosen = chooser.choice(stress.acts)
                chosen(chooser)
                done[chosen.__name__] += 1
        except BaseException:
            traceback.print_exc()
            failed.set()

    threads = [threading.Thread(target=act, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed.is_set(), "see above"
    print(f"acts of 4 threads in {seconds:g} s: {dict(done)}; wrong: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
