"""Open many caches, and one of many shards, with few descriptors.

python many_files.py WORK NUM_CACHES NUM_SHARDS
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from damage import sign_manifest
from scale import tell

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.sources import CacheInput

NUM_DESCRIPTORS = 64


class Numbers:
    name = "numbers"

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(self._count):
            yield CacheInput({"i": i, "x": np.full(24, i, np.int32)}, {"i": i})


def make_caches(root: Path, count: int) -> list[Path]:
    """Copy one cache many times, each copy under a name of its own, which makes it another cache."""
    original = build_caches(Numbers(2), root / "original", codec="arrays", progress=False)[0].unwrap().path
    manifest = json.loads((original / "manifest.json").read_text())
    paths = [root / f"cache-{number:05d}" for number in range(count)]
    for path in paths:
        shutil.copytree(original, path)
        manifest["name"] = path.name
        sign_manifest(manifest)
        (path / "manifest.json").write_text(json.dumps(manifest))
    return paths


def check_all_arrive(paths: list[Path], num_records: int) -> None:
    dataset = open_dataset(paths, sampling="shuffle")
    assert len(dataset) == num_records
    assert dataset.get_metadata().height == num_records
    loader = RTLoader(dataset, batch_size=64, drop_last=False, fields=["i", "x", "cache_id", "valid"])
    seen = 0
    for i, x, _, valid in loader:
        assert (x == i[:, None]).all()
        seen += int(valid.sum())
    assert seen == num_records
    assert dataset[num_records - 1].metadata["i"] == int(dataset[num_records - 1].data["i"])
    num_open = len(os.listdir("/proc/self/fd"))
    assert num_open < NUM_DESCRIPTORS, num_open


def main(work: Path, num_caches: int, num_shards: int) -> None:
    tell(f"{num_caches} caches")
    paths = make_caches(work, num_caches)
    sharded = build_caches(Numbers(num_shards), work, codec="arrays", shard_bytes=1, progress=False)[0].unwrap().path
    assert len(os.listdir(sharded / "shards")) == num_shards
    resource.setrlimit(resource.RLIMIT_NOFILE, (NUM_DESCRIPTORS, NUM_DESCRIPTORS))
    check_all_arrive(paths, 2 * num_caches)
    tell(f"{num_shards} shards")
    check_all_arrive([sharded], num_shards)
    print(
        f"{num_caches} caches at once, and {num_shards} shards, read whole with at most {NUM_DESCRIPTORS} descriptors"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
