"""ArrayRecord: Google's successor of TFRecord, one record a group for random access."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.peers.peer import Peer, Read

_NAME = "records.array_record"


def _write(root: Path, records: Iterable[bytes]) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(root / _NAME), "group_size:1,uncompressed")
    for record in records:
        writer.write(record)
    writer.close()


def _rows(root: Path) -> Read:
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    read: Read = ArrayRecordDataSource(str(root / _NAME)).__getitems__
    return read


PEERS = {"array_record": Peer(_write, _rows)}
