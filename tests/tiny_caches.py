"""Caches that are nothing but a manifest and metadata: all that choosing a population reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from dsrt_lightning._core import crc32c
from dsrt_lightning.store.arrow_file import ArrowFile
from dsrt_lightning.store.cache import Cache, open_cache
from dsrt_lightning.store.cache_set import CacheSet
from dsrt_lightning.store.manifest import Compression, FileEntry, Manifest, MetadataColumn, StoredCodec

Metadata = pl.DataFrame | Mapping[str, Sequence[Any]]


def make_cache(path: Path, metadata: Metadata, *, num_records: int = 0) -> Cache:
    """Write a cache; ``num_records`` counts where there are no columns."""
    table = metadata if isinstance(metadata, pl.DataFrame) else pl.DataFrame(metadata)
    path.mkdir(parents=True)
    file = path / "metadata.arrow"
    if table.width:
        table.write_ipc(file, compression="uncompressed", compat_level=pl.CompatLevel.newest())
        num_records = table.height
    else:
        empty = ArrowFile(file, table.to_arrow().schema)
        empty.write([], num_records)
        empty.close()
    content = file.read_bytes()
    manifest = Manifest(
        name=path.name,
        fingerprint=None,
        codec=StoredCodec("bytes", {}),
        num_records=num_records,
        record_alignment=1,
        max_record_bytes=1,
        compression=Compression.of("none"),
        metadata_columns=tuple(MetadataColumn(name, "string") for name in table.columns),
        files=(
            FileEntry("index.bin", 64 + 24 * num_records, 0),
            FileEntry("metadata.arrow", len(content), crc32c(content)),
            FileEntry("shards/000000.bin", 1, 0),
        ),
    )
    (path / "manifest.json").write_bytes(manifest.to_bytes())
    return open_cache(path)


def make_caches(root: Path, **metadata: Metadata) -> CacheSet:
    """Write and open a cache for each keyword."""
    return CacheSet([make_cache(root / name, table) for name, table in metadata.items()])
