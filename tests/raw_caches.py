"""Caches without a manifest: only what the native core writes and reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dsrt_lightning._core import CacheFiles, ShardWriter


def write_cache(directory: Path, records: Iterable[bytes], **changes: Any) -> CacheFiles:
    """Write one cache; ``changes`` are the writer's options (``level``, ``dictionary``, ``shard_bytes`` ...)."""
    (directory / "shards").mkdir(parents=True)
    options: dict[str, Any] = {"shard_bytes": 1 << 20, "alignment": 1, "level": None, "dictionary": None, **changes}
    writer = ShardWriter(str(directory), threads=2, max_pending_bytes=1 << 20, **options)
    for record in records:
        writer.append([record])
    summary = writer.finish()
    (_, index_bytes, index_crc32c), *shards = summary.files
    return CacheFiles(
        directory=str(directory),
        num_records=summary.num_records,
        index_bytes=index_bytes,
        index_crc32c=index_crc32c,
        shards=[(path, size) for path, size, _ in shards],
        compressed=options["level"] is not None,
        dictionary=options["dictionary"] or b"",
        max_record_bytes=summary.max_record_bytes,
    )
