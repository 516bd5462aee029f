"""Every peer's DataLoader on a workload, and its case in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Measures, Row, time_passes
from benchmarks.data import IMAGE_BYTES, Data, pickled_image, weights
from benchmarks.peers.peer import Peer, Rows

_MODULES = ("lmdb", "files", "array_record", "lance", "datasets", "litdata", "streaming", "webdataset")
PEERS: dict[str, Peer] = {}
for _module in _MODULES:
    PEERS |= import_module(f"benchmarks.peers.{_module}").PEERS
WORKERS = (0, 2)


@dataclass(frozen=True)
class Workload:
    """What is stored, and what becomes of it; the functions are sent to worker processes.

    Attributes:
        name: Of the store.
        records: All records.
        count, draws, batch: Records stored, drawn in a pass, and of a batch.
        item: What a record becomes, in the worker.
        collate: What a list of items becomes, in the worker.
        check: The rows of a sound batch, in the training process.
    """

    name: str
    records: Callable[[Data], Iterable[bytes]]
    count: Callable[[Data], int]
    draws: Callable[[Data], int]
    batch: Callable[[Data], int]
    item: Callable[[Any], Any]
    collate: Callable[[list[Any]], Any]
    check: Callable[[Any], int]


def cases(workload: Workload, without: Iterable[str] = ()) -> dict[str, Case]:
    """Return the cases of all peers: ``lmdb_0`` in the training process, ``lmdb_2`` with two worker processes."""
    return {
        f"{name}_{workers}": _case(name, peer, workload, workers)
        for name, peer in PEERS.items()
        if name not in without
        for workers in WORKERS
    }


def rows(
    workload: str, ours: tuple[str, str], amount: Callable[[Data], float], unit: str, without: Iterable[str] = ()
) -> list[Row]:
    """Return a line a peer, in the training process and with two worker processes, against the two cases of ours."""
    return [
        Row(f"{workload} {where}, {name}", f"{mine}.steady", f"{name}_{workers}.steady", None, None, amount, unit)
        for mine, workers, where in zip(ours, WORKERS, ("loader", "two processes"), strict=True)
        for name in PEERS
        if name not in without
    ]


def images() -> dict[str, Any]:
    """Return what `Workload` says of the article's pickles."""
    return {
        "name": "images",
        "records": lambda data: map(pickled_image, range(data.size.images)),
        "count": lambda data: data.size.images,
        "draws": lambda data: data.size.images,
        "batch": lambda data: data.size.image_batch,
    }


def image_mib(data: Data) -> float:
    """Return the MiB of pictures in a pass."""
    return data.size.images * IMAGE_BYTES / 2**20


def _case(name: str, peer: Peer, workload: Workload, workers: int) -> Case:
    # The ways to use a library share what it wrote.
    store_name = f"peer-{name.removesuffix('_stream')}-{workload.name}"

    def store(data: Data) -> Path:
        return data.once(store_name, lambda root: peer.write(root, workload.records(data)))

    def run(data: Data, root: Path) -> Measures:
        loader = _loader(peer, root, workload, data, workers)
        draws = workload.draws(data)
        # At the end of a stream each worker has a batch of its own that is not full.
        num_batches = None if draws == workload.count(data) else -(-draws // workload.batch(data))
        return time_passes(lambda: islice(loader, num_batches), workload.check, draws, data.size.passes)

    return Case(peer.environment, store, run)


def _loader(peer: Peer, root: Path, workload: Workload, data: Data, workers: int) -> Any:
    from torch.utils.data import DataLoader, WeightedRandomSampler

    batch = workload.batch(data)
    options: dict[str, Any] = {"batch_size": batch, "num_workers": workers}
    if workers:
        options |= {"multiprocessing_context": "spawn", "persistent_workers": True}
    if peer.rows is not None:
        sampler = WeightedRandomSampler(weights(workload.count(data)).tolist(), workload.draws(data))
        dataset = _Items(Rows(peer.rows, root), workload.item, workload.count(data))
        return DataLoader(dataset, sampler=sampler, collate_fn=workload.collate, **options)
    assert peer.stream is not None, "a peer has rows or a stream"
    collate = _Collate(peer.payload, workload.item, workload.collate)
    return peer.loader(peer.stream(root, batch), collate_fn=collate, **options)


class _Items:
    """A map-style dataset of a peer's rows."""

    def __init__(self, rows: Rows, item: Callable[[Any], Any], count: int) -> None:
        self._rows = rows
        self._item = item
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> Any:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: list[int]) -> list[Any]:
        return list(map(self._item, self._rows(rows)))


@dataclass(frozen=True)
class _Collate:
    payload: Callable[[Any], Any]
    item: Callable[[Any], Any]
    collate: Callable[[list[Any]], Any]

    def __call__(self, samples: list[Any]) -> Any:
        return self.collate([self.item(self.payload(sample)) for sample in samples])
