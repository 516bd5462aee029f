"""WebDataset: tar files, streamed with a shuffle of shards and a buffer; it has no access by row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Peer

_SHARD_BYTES, _BUFFER_RECORDS = 64 << 20, 1000


def _write(root: Path, records: Iterable[bytes]) -> None:
    import webdataset

    with webdataset.ShardWriter(f"{root}/%06d.tar", maxsize=_SHARD_BYTES, maxcount=10**9, verbose=0) as writer:
        for row, record in enumerate(records):
            writer.write({"__key__": f"{row:08d}", "bin": record})


def _stream(root: Path, batch: int) -> Any:
    import webdataset

    shards = sorted(map(str, root.glob("*.tar")))
    return webdataset.WebDataset(shards, shardshuffle=100, seed=0, empty_check=False).shuffle(_BUFFER_RECORDS)


def _record(sample: Any) -> Any:
    return sample["bin"]


PEERS = {"webdataset": Peer(_write, stream=_stream, payload=_record)}
