"""litdata: chunks of records; by row, and streamed with its own shuffle of chunks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Peer, Read

os.environ.setdefault("DISABLE_VERSION_CHECK", "1")
_CHUNK_BYTES = 64 << 20


def _write(root: Path, records: Iterable[bytes]) -> None:
    from litdata.streaming import Cache

    cache = Cache(str(root), chunk_bytes=_CHUNK_BYTES)
    for row, record in enumerate(records):
        cache[row] = record
    cache.done()
    cache.merge()


def _rows(root: Path) -> Read:
    from litdata import StreamingDataset

    dataset = StreamingDataset(str(root))
    return lambda rows: [dataset[row] for row in rows]


def _stream(root: Path, batch: int) -> Any:
    from litdata import StreamingDataset

    return StreamingDataset(str(root), shuffle=True, seed=0)


def _loader(*arguments: Any, **options: Any) -> Any:
    from litdata import StreamingDataLoader

    return StreamingDataLoader(*arguments, **options)


PEERS = {"litdata": Peer(_write, _rows), "litdata_stream": Peer(_write, stream=_stream, loader=_loader)}
