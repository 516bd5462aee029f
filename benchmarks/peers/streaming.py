"""MosaicML streaming (MDS): shards of records; by row from local files, and streamed with its own shuffle."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Peer, Read

_SHARD_BYTES = 64 << 20


def _write(root: Path, records: Iterable[bytes]) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(root), columns={"record": "bytes"}, size_limit=_SHARD_BYTES) as writer:
        for record in records:
            writer.write({"record": record})


def _rows(root: Path) -> Read:
    from streaming import LocalDataset

    dataset = LocalDataset(str(root))
    return lambda rows: [dataset[row]["record"] for row in rows]


def _stream(root: Path, batch: int) -> Any:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    return StreamingDataset(local=str(root), shuffle=True, batch_size=batch, shuffle_seed=0)


def _record(sample: Any) -> Any:
    return sample["record"]


PEERS = {
    "streaming": Peer(_write, _rows, environment="streaming"),
    "streaming_stream": Peer(_write, stream=_stream, payload=_record, environment="streaming"),
}
