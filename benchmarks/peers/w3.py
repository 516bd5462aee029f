"""W3 with the peers: small records, joined to one tensor a batch, which is faster than a tensor a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import w3
from benchmarks.data import TOKENS, Data, check_tokens, tokens
from benchmarks.peers.loaders import Workload, cases, rows


def _records(data: Data) -> Iterator[bytes]:
    return (row.tobytes() for row in tokens(data.size.token_records))


def _same(record: Any) -> Any:
    return record


def _joined(records: list[Any]) -> Any:
    import torch

    return torch.from_numpy(np.frombuffer(bytearray(b"".join(records)), np.int32).reshape(-1, TOKENS))


def _draws(data: Data) -> int:
    return data.size.token_draws


_OURS = ("ours_loader", "ours_processes")
# A million files are not for anybody.
_WITHOUT = ("files",)
CASES = {name: w3.CASES[name] for name in _OURS} | cases(
    Workload(
        name="tokens",
        records=_records,
        count=lambda data: data.size.token_records,
        draws=_draws,
        batch=lambda data: data.size.token_batch,
        item=_same,
        collate=_joined,
        check=check_tokens,
    ),
    _WITHOUT,
)
ROWS = rows("W3", _OURS, _draws, "samples/s", _WITHOUT)
