"""W5: building, from records in memory to durable, checksummed files; the systems get equal payloads and metadata."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import datasetrt, ours
from benchmarks.case import Case, Measures, Row
from benchmarks.data import IMAGE_BYTES, Data, pickled_image, tokens

Write = Callable[[Path, list[Any]], None]


_MODULES = {"ours": "dsrt_lightning.store.build", "datasetrt": "dataset_rt"}


def _payloads(kind: str, data: Data) -> list[Any]:
    if kind == "images":
        return [pickled_image(number) for number in range(data.size.images)]
    return [row.tobytes() for row in tokens(data.size.token_records)]


def _nothing(data: Data) -> Path:
    return data.root


def _case(system: str, kind: str, write: Write) -> Case:
    def run(data: Data, store: Path) -> Measures:
        payloads = _payloads(kind, data)
        if system in _MODULES:
            import_module(_MODULES[system])  # Imports are in no time.
        target = data.root / f"w5-{system}-{kind}-{os.getpid()}"
        target.mkdir(parents=True)
        os.sync()
        began = time.perf_counter()
        write(target, payloads)
        seconds = time.perf_counter() - began
        shutil.rmtree(target)
        return {"seconds": seconds}

    return Case(system, _nothing, run)


def _ours(root: Path, payloads: list[bytes]) -> None:
    ours.build(root, len(payloads), payloads.__getitem__, codec="bytes")


def _datasetrt(root: Path, payloads: list[bytes]) -> None:
    datasetrt.build(root, len(payloads), payloads.__getitem__)
    # Ours are durable when the build returns.
    for path in root.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _one_file(root: Path, payloads: list[bytes]) -> None:
    with open(root / "records", "wb") as file:
        for payload in payloads:
            file.write(payload)
        file.flush()
        os.fsync(file.fileno())


CASES = {
    f"{system}_{kind}": _case(system, kind, write)
    for kind in ("images", "tokens")
    for system, write in (("ours", _ours), ("datasetrt", _datasetrt), ("limit", _one_file))
}


def _mib(data: Data) -> float:
    return data.size.images * IMAGE_BYTES / 2**20


def _records(data: Data) -> float:
    return data.size.token_records


ROWS = [
    Row(
        "W5 building W1", "ours_images.seconds", "datasetrt_images.seconds", "limit_images.seconds", 1.6, _mib, "MiB/s"
    ),
    Row(
        "W5 building W3",
        "ours_tokens.seconds",
        "datasetrt_tokens.seconds",
        "limit_tokens.seconds",
        20,
        _records,
        "records/s",
    ),
]
