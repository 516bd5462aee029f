"""Lance: a columnar format with random access; records are views of what a take returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Peer, Read

_ROWS_PER_BATCH = 256


def _write(root: Path, records: Iterable[bytes]) -> None:
    import lance
    import pyarrow as pa

    plain = {"lance-encoding:compression": "none"}
    schema = pa.schema([pa.field("record", pa.large_binary(), metadata=plain)])

    def batches() -> Iterator[Any]:
        rest = iter(records)
        while part := list(islice(rest, _ROWS_PER_BATCH)):
            yield pa.record_batch([pa.array(part, pa.large_binary())], schema=schema)

    lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), str(root / "records.lance"))


def _rows(root: Path) -> Read:
    import lance

    take = lance.dataset(str(root / "records.lance")).take
    return lambda rows: [memoryview(value.as_buffer()) for value in take(rows, columns=["record"]).column("record")]


PEERS = {"lance": Peer(_write, _rows)}
