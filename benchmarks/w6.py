"""W6: from imports to the first weighted sample of a million records; ours finds its snapshot already made."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasetrt, limits, ours
from benchmarks.case import Case, Measures, Row
from benchmarks.data import TOKENS, Data, weighted_rows

RULES = [{"weight": {"by": {"label": {0: 1, 1: 2, 2: 4, 3: 8}}}}]


def _first(sample: Callable[[], Any]) -> Measures:
    began = time.perf_counter()
    num_bytes = memoryview(sample()).nbytes
    seconds = time.perf_counter() - began
    if num_bytes != TOKENS * 4:
        raise ValueError(f"a record of {num_bytes} bytes, not {TOKENS * 4}")
    return {"seconds": seconds}


def _ours(data: Data, store: Path) -> Measures:
    import polars  # noqa: F401
    import yaml  # noqa: F401  As the rules below, else imported when it is first needed.

    from dsrt_lightning.draws.sampling import Sampling
    from dsrt_lightning.loading.dataset import RTDataset
    from dsrt_lightning.population import metadata, rules  # noqa: F401
    from dsrt_lightning.population.snapshot import prepare
    from dsrt_lightning.store.cache_set import open_caches

    def sample() -> Any:
        caches = open_caches([store / "part0", store / "part1"])
        population = prepare(caches, RULES, where="rules", directory=store / "snapshots")
        dataset = RTDataset(caches, population, seed=7, sampling=Sampling("weighted"))
        return next(iter(dataset)).data["tokens"]

    if not (store / "snapshots").exists():
        sample()
    return _first(sample)


def _ours_unweighted(data: Data, store: Path) -> Measures:
    from dsrt_lightning import open_dataset

    return _first(lambda: next(iter(open_dataset([store / "part0", store / "part1"]))).data["tokens"])


def _datasetrt(data: Data, store: Path) -> Measures:
    import dataset_rt  # noqa: F401
    import polars  # noqa: F401

    return _first(lambda: next(iter(datasetrt.weighted(store, data.size.token_records))).data)


def _datasetrt_unweighted(data: Data, store: Path) -> Measures:
    import dataset_rt  # noqa: F401

    return _first(lambda: next(iter(datasetrt.opened(store))).data)


def _limit(data: Data, store: Path) -> Measures:
    """Map the records and draw among a cumulative sum of weights."""
    return _first(lambda: np.array(limits.token_table(store)[weighted_rows(data.size.token_records, 1)[0]]))


CASES = {
    "ours": Case("ours", ours.token_store(), _ours),
    "ours_unweighted": Case("ours", ours.token_store(), _ours_unweighted),
    "datasetrt": Case("datasetrt", datasetrt.token_store, _datasetrt),
    "datasetrt_unweighted": Case("datasetrt", datasetrt.token_store, _datasetrt_unweighted),
    "limit": Case("limit", limits.token_rows, _limit),
}
ROWS = [
    Row("W6 open to first weighted sample", "ours.seconds", "datasetrt.seconds", "limit.seconds", 15),
    Row("W6 open to first sample, unweighted", "ours_unweighted.seconds", "datasetrt_unweighted.seconds", None, None),
]
