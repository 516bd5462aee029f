"""LMDB: a memory-mapped B+ tree; records are views of the map."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.peers.peer import Peer, Read

_KEY_BYTES, _MAP_BYTES, _RECORDS_PER_COMMIT = 4, 8 << 30, 10_000


def _write(root: Path, records: Iterable[bytes]) -> None:
    import lmdb

    with lmdb.open(str(root), map_size=_MAP_BYTES) as store:
        transaction = store.begin(write=True)
        for number, record in enumerate(records, 1):
            transaction.put((number - 1).to_bytes(_KEY_BYTES, "big"), record, append=True)
            if number % _RECORDS_PER_COMMIT == 0:
                transaction.commit()
                transaction = store.begin(write=True)
        transaction.commit()


def _rows(root: Path) -> Read:
    import lmdb

    store = lmdb.open(str(root), readonly=True, lock=False, readahead=False)
    get = store.begin(buffers=True).get
    return lambda rows: [get(row.to_bytes(_KEY_BYTES, "big")) for row in rows]


PEERS = {"lmdb": Peer(_write, _rows)}
