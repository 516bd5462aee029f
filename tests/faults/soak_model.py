"""What a soak must deliver, in plain Python: the content of each record, and the order of each pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from reference_draws import shuffle

from dsrt_lightning.store.sources import CacheInput

NAME = "soak"
NUM_RECORDS = 600
PAYLOAD_BYTES = 3000
SEED = 2**63 + 5


@lru_cache(maxsize=2 * NUM_RECORDS)
def payload(i: int, seed: int = 0) -> bytes:
    """Return the bytes of record ``i``, like those of no other."""
    return hashlib.shake_128(f"{seed} {i}".encode()).digest(PAYLOAD_BYTES)


@lru_cache(maxsize=8)
def order(epoch: int, pass_: int) -> tuple[int, ...]:
    """Return the records of a pass in the order of their draws."""
    return tuple(shuffle(NUM_RECORDS, NUM_RECORDS, SEED, epoch, pass_, position) for position in range(NUM_RECORDS))


class Records:
    """The source."""

    name = NAME

    def __init__(self, seed: int = 0) -> None:
        self.fingerprint = str(seed)
        self._seed = seed

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(NUM_RECORDS):
            x = np.frombuffer(payload(i, self._seed), np.uint8)
            yield CacheInput({"i": np.int64(i), "x": x}, {"i": i, "label": f"n{i % 7}"})


def options() -> dict[str, Any]:
    return {"codec": "arrays", "shard_bytes": 1 << 18}  # Seven shards.
