"""Hugging Face datasets: Arrow files, mapped; by row, and as an iterable with a shuffle buffer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Peer, Read

_NUM_SHARDS, _BUFFER_RECORDS = 8, 1000


def _write(root: Path, records: Iterable[bytes]) -> None:
    from datasets import Features, Value
    from datasets.arrow_writer import ArrowWriter

    features = Features({"record": Value("large_binary")})
    with ArrowWriter(features=features, path=str(root / "records.arrow")) as writer:
        for record in records:
            writer.write({"record": record})
        writer.finalize()


def _opened(root: Path) -> Any:
    import datasets

    return datasets.Dataset.from_file(str(root / "records.arrow"))


def _rows(root: Path) -> Read:
    dataset = _opened(root)
    return lambda rows: dataset[rows]["record"]


def _stream(root: Path, batch: int) -> Any:
    dataset = _opened(root)
    shards = min(_NUM_SHARDS, len(dataset))
    return dataset.to_iterable_dataset(num_shards=shards).shuffle(seed=0, buffer_size=_BUFFER_RECORDS)


def _record(sample: Any) -> Any:
    return sample["record"]


PEERS = {"datasets": Peer(_write, _rows), "datasets_stream": Peer(_write, stream=_stream, payload=_record)}
