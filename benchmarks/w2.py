"""W2: the images of W1 as collated uint8 tensors ``[64, 256, 256, 3]`` with labels and ids, in the training process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasetrt, limits, ours
from benchmarks.case import Case, Measures, Row, time_passes
from benchmarks.data import IMAGE, IMAGE_BYTES, Data, batched, check_images, weighted_rows


def unpickled(sample: Any) -> Any:
    """DatasetRT's transform: what its default collation stacks."""
    import torch

    record = pickle.loads(sample.data)
    return torch.from_numpy(record["image"]), record["label"], record["id"]


def collated(samples: Any) -> Any:
    """DatasetRT's collation, torch's own."""
    from torch.utils.data import default_collate

    return default_collate(samples)


def _timed(data: Data, make: Any) -> Measures:
    return time_passes(make, lambda batch: check_images(batch[0], batch[2]), data.size.images, data.size.passes)


def _ours(workers: int) -> Case:
    def run(data: Data, store: Path) -> Measures:
        from dsrt_lightning import RTLoader

        dataset = ours.weighted(store, data.size.images)
        fields = ["image", "label", "id"]
        loader = RTLoader(dataset, batch_size=data.size.image_batch, fields=fields, workers=workers)
        return _timed(data, lambda: loader)

    return Case("ours", ours.image_store("arrays"), run)


def _datasetrt(workers: int) -> Case:
    def run(data: Data, store: Path) -> Measures:
        dataset = datasetrt.weighted(store, data.size.images)
        loader = datasetrt.loader(dataset, data.size.image_batch, workers, unpickled, collated)
        return _timed(data, lambda: loader)

    return Case("datasetrt", datasetrt.image_store, run)


def _gather(threads: int) -> Case:
    def run(data: Data, store: Path) -> Measures:
        import torch

        gather = limits.Gather(limits.image_table(store), data.size.image_batch, threads)

        def passed() -> Iterator[Any]:
            for rows in batched(weighted_rows(data.size.images, data.size.images), data.size.image_batch):
                yield gather(rows).view(torch.uint8).view(-1, *IMAGE), None, rows

        return _timed(data, passed)

    return Case("limit", limits.image_rows, run)


def _ring(data: Data, store: Path) -> Measures:
    table = limits.image_table(store)
    ring = limits.Ring((data.size.image_batch, table.shape[1]), np.int64)
    batches = list(batched(weighted_rows(data.size.images, data.size.images), data.size.image_batch))

    def fill(rows: Any, slot: Any) -> int:
        np.take(table, rows, 0, out=slot[: len(rows)], mode="clip")
        return len(rows)

    def passed() -> Iterator[Any]:
        for rows, slot in zip(batches, ring(batches, fill), strict=True):
            yield slot.view(np.uint8).reshape(-1, *IMAGE), None, rows

    return _timed(data, passed)


CASES = {
    "ours_loader": _ours(0),
    "ours_processes": _ours(2),
    "datasetrt_loader": _datasetrt(0),
    "datasetrt_2_processes": _datasetrt(2),
    "limit_gather": _gather(1),
    "limit_gather_2": _gather(2),
    "limit_ring": Case("limit", limits.image_rows, _ring),
}


def _mib(data: Data) -> float:
    return data.size.images * IMAGE_BYTES / 2**20


def _row(name: str, ours: str, base: str, limit: str, target: float) -> Row:
    return Row(f"W2 {name}", f"{ours}.steady", f"{base}.steady", f"{limit}.steady", target, _mib, "MiB/s")


ROWS = [
    _row("collated tensors", "ours_loader", "datasetrt_loader", "limit_gather_2", 10),
    _row("two processes", "ours_processes", "datasetrt_2_processes", "limit_ring", 9),
]
