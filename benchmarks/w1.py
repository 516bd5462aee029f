"""W1, the article's workload: pickled image dicts drawn by class weight, each unpickled and validated in Python."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasetrt, limits, ours
from benchmarks.case import Case, Measures, Row, time_passes
from benchmarks.data import IMAGE_BYTES, Data, batched, check_sample, weighted_rows


class Validate:
    """A transform: the number of a sample that was found right; ``pickled`` ones are unpickled first."""

    def __init__(self, count: int, *, pickled: bool) -> None:
        self._count = count
        self._pickled = pickled

    def __call__(self, sample: Any) -> int:
        """Return the sample's number."""
        data = pickle.loads(sample.data) if self._pickled else sample.data
        return check_sample(data, sample.sample_id, self._count)


def _timed(data: Data, make: Any, check: Any) -> Measures:
    return time_passes(make, check, data.size.images, data.size.passes)


def _one(number: int) -> int:
    return 1


def _ours_native(codec: str) -> Case:
    def run(data: Data, store: Path) -> Measures:
        dataset = ours.weighted(store, data.size.images)
        validate = Validate(data.size.images, pickled=codec == "bytes")
        return _timed(data, lambda: map(validate, dataset), _one)

    return Case("ours", ours.image_store(codec), run)


def _ours_loader(codec: str, **options: int) -> Case:
    def run(data: Data, store: Path) -> Measures:
        from dsrt_lightning import RTLoader

        dataset = ours.weighted(store, data.size.images)
        validate = Validate(data.size.images, pickled=codec == "bytes")
        loader = RTLoader(dataset, batch_size=data.size.image_batch, transform=validate, **options)
        return _timed(data, lambda: loader, len)

    return Case("ours", ours.image_store(codec), run)


def _datasetrt_native(data: Data, store: Path) -> Measures:
    dataset = datasetrt.weighted(store, data.size.images)
    validate = Validate(data.size.images, pickled=True)
    return _timed(data, lambda: map(validate, dataset), _one)


def _datasetrt_loader(workers: int) -> Case:
    def run(data: Data, store: Path) -> Measures:
        dataset = datasetrt.weighted(store, data.size.images)
        validate = Validate(data.size.images, pickled=True)
        loader = datasetrt.loader(dataset, data.size.image_batch, workers, validate, np.array)
        return _timed(data, lambda: loader, len)

    return Case("datasetrt", datasetrt.image_store, run)


def _limit_pickle(data: Data, store: Path) -> Measures:
    records, ends = limits.mapped(store / "records"), np.load(store / "ends.npy").tolist()
    half = data.size.images // 2

    def passed() -> Iterator[int]:
        for row in weighted_rows(data.size.images, data.size.images).tolist():
            yield check_sample(pickle.loads(records[ends[row] : ends[row + 1]]), row % half, data.size.images)

    return _timed(data, passed, _one)


def _limit_views(data: Data, store: Path) -> Measures:
    records, heads = limits.mapped(store / "records"), limits.mapped(store / "heads")
    ends = np.load(store / "ends.npy").tolist()
    half = data.size.images // 2

    def passed() -> Iterator[int]:
        for rows in batched(weighted_rows(data.size.images, data.size.images), data.size.image_batch):
            for row in rows.tolist():
                view = records[row * IMAGE_BYTES : (row + 1) * IMAGE_BYTES]
                sample = pickle.loads(heads[ends[row] : ends[row + 1]], buffers=[view])
                yield check_sample(sample, row % half, data.size.images)

    return _timed(data, passed, _one)


def _limit_two_processes(data: Data, store: Path) -> Measures:
    records, ends = limits.mapped(store / "records"), np.load(store / "ends.npy").tolist()
    half = data.size.images // 2
    ring = limits.Ring((data.size.image_batch,), np.int64)

    def fill(rows: list[int], numbers: Any) -> int:
        for i, row in enumerate(rows):
            numbers[i] = check_sample(pickle.loads(records[ends[row] : ends[row + 1]]), row % half, data.size.images)
        return len(rows)

    drawn = weighted_rows(data.size.images, data.size.images)
    batches = [rows.tolist() for rows in batched(drawn, data.size.image_batch)]
    return _timed(data, lambda: ring(batches, fill), len)


CASES = {
    "ours_native_bytes": _ours_native("bytes"),
    "ours_native_in_band": _ours_native("in_band"),
    "ours_native_pickle": _ours_native("pickle"),
    "ours_native_arrays": _ours_native("arrays"),
    "ours_loader_bytes": _ours_loader("bytes", threads=0),
    "ours_loader_in_band": _ours_loader("in_band", threads=0),
    "ours_loader_pickle": _ours_loader("pickle", threads=0),
    "ours_threads_in_band": _ours_loader("in_band"),
    "ours_threads_pickle": _ours_loader("pickle"),
    "ours_processes_in_band": _ours_loader("in_band", workers=2),
    "datasetrt_native": Case("datasetrt", datasetrt.image_store, _datasetrt_native),
    "datasetrt_loader": _datasetrt_loader(0),
    "datasetrt_1_process": _datasetrt_loader(1),
    "datasetrt_2_processes": _datasetrt_loader(2),
    "limit_pickle": Case("limit", limits.pickle_store, _limit_pickle),
    "limit_pickle_2": Case("limit", limits.pickle_store, _limit_two_processes),
    "limit_views": Case("limit", limits.view_store, _limit_views),
}


def _mib(data: Data) -> float:
    return data.size.images * IMAGE_BYTES / 2**20


def _row(name: str, ours: str, base: str, limit: str | None, target: float | None) -> Row:
    return Row(f"W1 {name}", ours, base, limit, target, _mib, "MiB/s")


_PICKLE, _VIEWS = "limit_pickle.steady", "limit_views.steady"
_BYTES = "pickle.loads of bytes"
ROWS = [
    _row("iteration, pickled", "ours_native_in_band.steady", "datasetrt_native.steady", _PICKLE, 2.4),
    _row(f"iteration, {_BYTES}", "ours_native_bytes.steady", "datasetrt_native.steady", _PICKLE, None),
    _row("iteration, out-of-band pickle", "ours_native_pickle.steady", "datasetrt_native.steady", _VIEWS, 8),
    _row("iteration, arrays", "ours_native_arrays.steady", "datasetrt_native.steady", _VIEWS, 8),
    _row("loader, pickled", "ours_loader_in_band.steady", "datasetrt_loader.steady", _PICKLE, 3),
    _row(f"loader, {_BYTES}", "ours_loader_bytes.steady", "datasetrt_loader.steady", _PICKLE, None),
    _row("loader, views", "ours_loader_pickle.steady", "datasetrt_loader.steady", _VIEWS, 8),
    _row("loader, pickled, in two threads", "ours_threads_in_band.steady", "datasetrt_loader.steady", _PICKLE, None),
    _row("loader, views, in two threads", "ours_threads_pickle.steady", "datasetrt_loader.steady", _VIEWS, None),
    _row("first pass, pickled, vs 1 process", "ours_threads_in_band.first", "datasetrt_1_process.first", None, 6),
    _row("first pass, pickled, vs 2 processes", "ours_threads_in_band.first", "datasetrt_2_processes.first", None, 6),
    _row("first pass, views, vs 1 process", "ours_threads_pickle.first", "datasetrt_1_process.first", None, 14),
    _row("first pass, views, vs 2 processes", "ours_threads_pickle.first", "datasetrt_2_processes.first", None, 14),
    _row(
        "two processes, pickled",
        "ours_processes_in_band.steady",
        "datasetrt_2_processes.steady",
        "limit_pickle_2.steady",
        3.3,
    ),
]
