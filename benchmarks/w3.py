"""W3: a million records of 64 int32 (256 bytes), drawn by class weight, collated in batches of 1024."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasetrt, limits, ours
from benchmarks.case import Case, Measures, Row, time_passes
from benchmarks.data import TOKENS, Data, batched, check_tokens, weighted_rows


def joined(samples: Any) -> Any:
    """DatasetRT's collation: the payloads one after the other, which is faster than a tensor a sample."""
    import torch

    array = np.frombuffer(bytearray(b"".join([sample.data for sample in samples])), np.int32)
    return torch.from_numpy(array.reshape(-1, TOKENS))


def _timed(data: Data, make: Any) -> Measures:
    return time_passes(make, check_tokens, data.size.token_draws, data.size.passes)


def _ours(workers: int) -> Case:
    def run(data: Data, store: Path) -> Measures:
        from dsrt_lightning import RTLoader

        dataset = ours.weighted(store, data.size.token_draws)
        loader = RTLoader(dataset, batch_size=data.size.token_batch, fields="tokens", workers=workers)
        return _timed(data, lambda: loader)

    return Case("ours", ours.token_store(), run)


def _datasetrt(workers: int) -> Case:
    def run(data: Data, store: Path) -> Measures:
        dataset = datasetrt.weighted(store, data.size.token_draws)
        loader = datasetrt.loader(dataset, data.size.token_batch, workers, None, joined)
        return _timed(data, lambda: loader)

    return Case("datasetrt", datasetrt.token_store, run)


def _gather(data: Data, store: Path) -> Measures:
    gather = limits.Gather(limits.token_table(store), data.size.token_batch, 1)

    def passed() -> Iterator[Any]:
        for rows in batched(weighted_rows(data.size.token_records, data.size.token_draws), data.size.token_batch):
            yield gather(rows)

    return _timed(data, passed)


def _ring(data: Data, store: Path) -> Measures:
    table = limits.token_table(store)
    ring = limits.Ring((data.size.token_batch, TOKENS), np.int32)
    drawn = weighted_rows(data.size.token_records, data.size.token_draws)
    batches = list(batched(drawn, data.size.token_batch))

    def fill(rows: Any, slot: Any) -> int:
        np.take(table, rows, 0, out=slot[: len(rows)], mode="clip")
        return len(rows)

    return _timed(data, lambda: ring(batches, fill))


CASES = {
    "ours_loader": _ours(0),
    "ours_processes": _ours(2),
    "datasetrt_loader": _datasetrt(0),
    "datasetrt_2_processes": _datasetrt(2),
    "limit_gather": Case("limit", limits.token_rows, _gather),
    "limit_ring": Case("limit", limits.token_rows, _ring),
}


def _draws(data: Data) -> float:
    return data.size.token_draws


def _row(name: str, ours: str, base: str, limit: str, target: float) -> Row:
    return Row(f"W3 {name}", f"{ours}.steady", f"{base}.steady", f"{limit}.steady", target, _draws, "samples/s")


ROWS = [
    _row("collated tensors", "ours_loader", "datasetrt_loader", "limit_gather", 150),
    _row("two processes", "ours_processes", "datasetrt_2_processes", "limit_ring", 30),
]
