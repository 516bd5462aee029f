"""W4: ten million rows of metadata, all kept: get, balance by label, update, first sample; and what that takes."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasetrt
from benchmarks.case import Case, Measures, Row
from benchmarks.data import Data, halves

NUM_LABELS = 10


def _metadata(number: int) -> dict[str, Any]:
    label = (number * 2654435761 >> 7) % NUM_LABELS
    return {"label": label, "split": "val" if number % 10 == 0 else "train", "quality": number % 1000 / 1000}


class Rows:
    """One cache's tiny payloads with their metadata, as the system's ``CacheInput``."""

    def __init__(self, name: str, numbers: range, cache_input: Any) -> None:
        self.name = name
        self._numbers = numbers
        self._cache_input = cache_input

    def __iter__(self) -> Iterator[Any]:
        cache_input = self._cache_input
        for number in self._numbers:
            yield cache_input(number.to_bytes(16, "little"), _metadata(number))


def _ours_store(data: Data) -> Path:
    def write(root: Path) -> None:
        from dsrt_lightning import CacheInput, build_caches

        sources = [Rows(name, numbers, CacheInput) for name, numbers in halves(data.size.table_rows)]
        for result in build_caches(sources, root, codec="bytes", progress=False):
            result.unwrap()

    return data.once("ours-table", write)


def _datasetrt_store(data: Data) -> Path:
    def write(root: Path) -> None:
        from dataset_rt import CacheInput

        datasetrt.write(root, [Rows(name, numbers, CacheInput) for name, numbers in halves(data.size.table_rows)])

    return data.once("datasetrt-table", write)


def _limit_store(data: Data) -> Path:
    def write(root: Path) -> None:
        import polars as pl

        rows = [_metadata(number) for number in range(min(data.size.table_rows, 1_000_000))]
        part = pl.DataFrame(rows)
        repeats = -(-data.size.table_rows // len(part))
        table = pl.concat([part] * repeats).head(data.size.table_rows)
        table.write_ipc(root / "table.arrow", compression="uncompressed")
        np.arange(data.size.table_rows * 2, dtype=np.int64).tofile(root / "records")

    return data.once("limit-table", write)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _balanced(frame: Any) -> Any:
    import polars as pl

    return frame.with_columns(weight=1.0 / pl.len().over("label"))


def _dataset(open_dataset: Any) -> Any:
    def run(data: Data, store: Path) -> Measures:
        before = _peak_mib()
        dataset = open_dataset(store)
        began = time.perf_counter()
        dataset.update_metadata(_balanced(dataset.get_metadata()))
        sample = next(iter(dataset))
        seconds = time.perf_counter() - began
        if len(sample.data) != 16:
            raise ValueError(f"a payload of {len(sample.data)} bytes")
        return {"seconds": seconds, "mib": _peak_mib() - before}

    return run


def _ours_opened(store: Path) -> Any:
    from dsrt_lightning import open_dataset

    return open_dataset([store / "part0", store / "part1"], seed=7)


def _imported(run: Any, *modules: str) -> Any:
    """Import what ``run`` imports before its clock begins."""

    def warm(data: Data, store: Path) -> Measures:
        for module in modules:
            __import__(module)
        return run(data, store)

    return warm


def _limit(data: Data, store: Path) -> Measures:
    """A mapped table, Polars for the weights, a cumulative sum to draw by."""
    import polars as pl

    records = np.memmap(store / "records", np.int64, "r").reshape(-1, 2)
    before = _peak_mib()
    began = time.perf_counter()
    frame = pl.scan_ipc(store / "table.arrow").collect()
    ends = np.cumsum(_balanced(frame)["weight"].to_numpy())
    row = np.searchsorted(ends, np.random.default_rng(0).random() * ends[-1], "right")
    records[row].tobytes()
    return {"seconds": time.perf_counter() - began, "mib": _peak_mib() - before}


_OURS = (
    "polars",
    "pyarrow.ipc",
    "dsrt_lightning.loading.dataset",
    "dsrt_lightning.population.metadata",
    "dsrt_lightning.population.selection",
)
CASES = {
    "ours": Case("ours", _ours_store, _imported(_dataset(_ours_opened), *_OURS)),
    "datasetrt": Case("datasetrt", _datasetrt_store, _imported(_dataset(datasetrt.opened), "polars", "dataset_rt")),
    "limit": Case("limit", _limit_store, _imported(_limit, "polars")),
}
ROWS = [
    Row("W4 get, balance, update, first sample", "ours.seconds", "datasetrt.seconds", "limit.seconds", 4),
    Row("W4 memory above imports", "ours.mib", "datasetrt.mib", "limit.mib", 2, unit="MiB"),
]
