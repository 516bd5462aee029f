"""Reads everything of a cache and names what is broken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from dsrt_lightning._core import ShardSet
from dsrt_lightning.errors import CorruptCacheError, DsrtError
from dsrt_lightning.store.cache import open_cache
from dsrt_lightning.store.manifest import DICTIONARY, INDEX, METADATA

Progress = Callable[[str, int, int], None]


def verify_cache(directory: str | os.PathLike[str], on_progress: Progress | None = None) -> Iterator[str]:
    """Yield one message for each thing that is broken; an intact cache yields none.

    Every file is compared with the size and checksum in the manifest, which covers the padding between records too,
    every record with its own checksum, and the metadata with the columns and the record count in the manifest. Pickles
    are not loaded.

    Args:
        directory: Of the cache.
        on_progress: Called with what is counted (``files`` or ``records``), how many are done, and how many there are.
    """
    from dsrt_lightning.store.metadata_check import metadata_problem

    report = on_progress or (lambda unit, done, total: None)
    try:
        cache = open_cache(directory, allow_pickle=True)
        _ = cache.codec
    except (DsrtError, OSError) as error:
        yield str(error)
        return
    files, broken = cache.manifest.files, set()
    for done, entry in enumerate(files, start=1):
        try:
            cache.check_file(entry.path)
        except (CorruptCacheError, OSError) as error:
            broken.add(entry.path)
            yield str(error)
        report("files", done, len(files))
    if METADATA not in broken and (problem := metadata_problem(cache)):
        yield f"{cache.metadata_path}: {problem}; restore or rebuild the cache"
    # Without these, records cannot be found or decompressed.
    if broken.isdisjoint((INDEX, DICTIONARY)):
        try:
            shards = ShardSet([cache.files], "always")
        except (CorruptCacheError, OSError) as error:
            yield str(error)
            return
        yield from shards.verify_cache(0, lambda done: report("records", done, cache.num_records))
