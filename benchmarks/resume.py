"""Resuming at half an epoch of a million records, to the first batch, against a start of the same loader."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.case import Case, Measures, Row
from benchmarks.data import Data, check_tokens

REPEATS = 200


def _run(data: Data, store: Path) -> Measures:
    from statistics import median

    from dsrt_lightning import RTLoader

    dataset = ours.weighted(store, data.size.token_records)

    def first_batch(state: dict[str, Any] | None) -> float:
        began = time.perf_counter()
        loader = RTLoader(dataset, batch_size=data.size.token_batch, fields="tokens")
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        check_tokens(next(batches))
        seconds = time.perf_counter() - began
        batches.close()  # type: ignore[attr-defined]
        return seconds

    loader = RTLoader(dataset, batch_size=data.size.token_batch, fields="tokens")
    state = {**loader.state_dict(), "samples": data.size.token_records // 2}
    first_batch(None)
    seconds: dict[str, list[float]] = {"start": [], "resume": []}
    for _ in range(REPEATS):
        seconds["start"].append(first_batch(None))
        seconds["resume"].append(first_batch(state))
    return {name: median(values) for name, values in seconds.items()}


CASES = {"ours": Case("ours", ours.token_store(), _run)}
ROWS = [Row("resume at 50 %, against a start (at most 1.1 of its time)", "ours.resume", "ours.start", None, 1 / 1.1)]
