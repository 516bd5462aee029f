"""Small caches of every codec and compression, and what must be true of them whatever happened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.build_results import BuildResult
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.codecs.base import Codec
from dsrt_lightning.store.manifest import Compression
from dsrt_lightning.store.sources import CacheInput

NAME = "small"


@dataclass(frozen=True)
class Kind:
    """One of the ways in which a cache may be stored."""

    codec: str
    compression: str

    @property
    def name(self) -> str:
        return f"{self.codec}-{self.compression}"

    @property
    def num_records(self) -> int:
        return 40 if self.compression == "dictionary" else 7  # A dictionary needs something to be trained on.

    def sample(self, i: int) -> Any:
        """Return record ``i``: like its neighbours, so that it compresses, and unlike any other."""
        array = (np.arange(12, dtype=np.uint16).reshape(3, 4) + i).astype(np.uint16)
        if self.codec == "bytes":
            return array.tobytes() * (1 + i % 3)
        if self.codec == "ragged":
            return {"image": array, "tokens": np.arange(i % 4, dtype=np.int32) + i}
        return {"image": array, "nested": {"id": i}}

    def options(self) -> dict[str, Any]:
        codec: str | Codec = ArraysCodec(ragged={"tokens": (0,)}) if self.codec == "ragged" else self.codec
        compression: str | Compression = self.compression
        if self.compression == "dictionary":
            compression = Compression(dictionary_bytes=256)
        shard_bytes = 2000 if self.compression == "dictionary" else 150  # Two or three shards each.
        return {"codec": codec, "compression": compression, "shard_bytes": shard_bytes}


KINDS = tuple(
    Kind(codec, compression)
    for codec in ("bytes", "arrays", "ragged", "pickle")
    for compression in ("none", "zstd", "dictionary")
)


class Small:
    """The source of a kind."""

    name = NAME

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(self._kind.num_records):
            yield CacheInput(self._kind.sample(i), {"i": i, "label": f"n{i % 3}"})


def build(root: Path, kind: Kind) -> BuildResult:
    """Build the cache ``root/small``."""
    (result,) = build_caches(Small(kind), root, progress=False, **kind.options())
    return result


def entries(root: Path) -> list[str]:
    """Return what lies in ``root``, hidden or not."""
    return sorted(os.listdir(root))
