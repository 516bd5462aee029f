"""Plain files, one a record, a thousand a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.peers.peer import Peer, Read


def _path(root: Path, row: int) -> Path:
    return root / str(row // 1000) / str(row)


def _write(root: Path, records: Iterable[bytes]) -> None:
    for row, record in enumerate(records):
        path = _path(root, row)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(record)


def _rows(root: Path) -> Read:
    def read(row: int) -> bytes:
        with open(f"{root}/{row // 1000}/{row}", "rb", buffering=0) as file:
            return file.read()

    return lambda rows: [read(row) for row in rows]


PEERS = {"files": Peer(_write, _rows)}
