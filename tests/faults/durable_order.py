"""Build once and look at the order of the system calls: what is published is on the disk by then.

python durable_order.py WORK
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from injection import Injector
from small_caches import KINDS, NAME, build

Call = tuple[str, str]


def last(calls: list[Call], name: str, path: str) -> int:
    """Return the position of the last such call, -1 if there is none."""
    return max((i for i, call in enumerate(calls) if call == (name, path)), default=-1)


def check(calls: list[Call], root: Path) -> int:
    """Return how many files and directories were checked."""
    building = f"{root}/.{NAME}.building"
    published = last(calls, "rename", building)
    assert published > 0
    files = {path for name, path in calls[:published] if name == "write" and path.startswith(building)}
    for path in files:
        written, synced = last(calls, "write", path), last(calls, "fsync", path)
        assert written < synced < published, f"{path}: written {written}, synced {synced}, published {published}"
    manifest = f"{building}/manifest.json"
    first_write = calls.index(("write", manifest))
    assert all(last(calls, "fsync", path) < first_write for path in files - {manifest}), "the manifest is not last"
    directories = {building, f"{building}/shards"}
    for path in directories:
        filled = max(last(calls, "write", file) for file in files if os.path.dirname(file) == path)
        synced = last(calls, "fsync", path)
        assert filled < synced < published, f"{path}: filled {filled}, synced {synced}, published {published}"
    assert last(calls, "fsync", str(root)) > published, "the rename is not durable"
    return len(files) + len(directories) + 1


def main(work: Path) -> None:
    injector = Injector()
    num_checked = 0
    for kind in KINDS:
        root = work / kind.name
        root.mkdir()
        injector.watch(root)
        build(root, kind).unwrap()
        num_checked += check(injector.log(), root)
    print(f"files and directories that were on the disk when they were published: {num_checked} of {num_checked}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
