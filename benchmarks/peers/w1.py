"""W1 with the peers: the loader over pickled image dicts, each unpickled and validated in Python."""

from __future__ import annotations

import pickle
from typing import Any

from benchmarks import w1
from benchmarks.data import check_images
from benchmarks.peers.loaders import Workload, cases, image_mib, images, rows


def _validated(record: Any) -> int:
    sample = pickle.loads(record)
    return check_images(sample["image"][None], [sample["id"]])


_OURS = ("ours_loader_in_band", "ours_processes_in_band")
CASES = {name: w1.CASES[name] for name in _OURS} | cases(Workload(**images(), item=_validated, collate=sum, check=int))
ROWS = rows("W1", _OURS, image_mib, "MiB/s")
