"""W2 with the peers: the same pickles as collated uint8 tensors in the training process, by torch's collation."""

from __future__ import annotations

import pickle
from typing import Any

from benchmarks import w2
from benchmarks.data import check_images
from benchmarks.peers.loaders import Workload, cases, image_mib, images, rows


def _tensors(record: Any) -> Any:
    import torch

    sample = pickle.loads(record)
    return torch.from_numpy(sample["image"]), sample["label"], sample["id"]


def _check(batch: Any) -> int:
    return check_images(batch[0], batch[2])


_OURS = ("ours_loader", "ours_processes")
CASES = {name: w2.CASES[name] for name in _OURS} | cases(
    Workload(**images(), item=_tensors, collate=w2.collated, check=_check)
)
ROWS = rows("W2", _OURS, image_mib, "MiB/s")
