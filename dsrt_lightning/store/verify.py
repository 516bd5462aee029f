"""Reads everything of a cache and names what is broken."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator

from dsrt_lightning._core import ShardSet
from dsrt_lightning.errors import CorruptCacheError, DsrtError
from dsrt_lightning.store.cache import Cache, open_cache
from dsrt_lightning.store.manifest import DICTIONARY, INDEX, METADATA

Progress = Callable[[str, int, int], None]


def no_progress(unit: str, done: int, total: int) -> None:
    """Report to nobody."""


def verify_cache(directory: str | os.PathLike[str], on_progress: Progress = no_progress) -> Iterator[str]:
    """Yield one message for each thing that is broken; an intact cache yields none.

    Every file is compared with the size and checksum in the manifest, which covers the padding between records too,
    every record with its own checksum, and the metadata with the columns and the record count in the manifest. Pickles
    are not loaded.

    Args:
        directory: Of the cache.
        on_progress: Called with what is counted (``files`` or ``records``), how many are done, and how many there are.
    """
    try:
        cache = open_cache(directory, allow_pickle=True)
        _ = cache.codec
    except (DsrtError, OSError) as error:
        yield str(error)
        return
    broken = set()
    for name, problem in broken_files(cache, on_progress):
        broken.add(name)
        yield str(problem)
    yield from content_problems(cache, on_progress, broken)


def broken_files(cache: Cache, on_progress: Progress) -> Iterator[tuple[str, CorruptCacheError | OSError]]:
    """Yield each file that is not as the manifest says, and why."""
    files = cache.manifest.files
    for done, entry in enumerate(files, start=1):
        try:
            cache.check_file(entry.path)
        except (CorruptCacheError, OSError) as error:
            yield entry.path, error
        on_progress("files", done, len(files))


def content_problems(cache: Cache, on_progress: Progress, broken: Collection[str] = ()) -> Iterator[str]:
    """Yield what is wrong with the metadata and with each record, so far as the ``broken`` files let it be found."""
    from dsrt_lightning.store.metadata_check import metadata_problem

    if METADATA not in broken and (problem := metadata_problem(cache)):
        yield f"{cache.metadata_path}: {problem}; restore or rebuild the cache"
    # Without these, records cannot be found or decompressed.
    if INDEX in broken or DICTIONARY in broken:
        return
    try:
        shards = ShardSet([cache.files], "always")
    except (CorruptCacheError, OSError) as error:
        yield str(error)
        return
    yield from shards.verify_cache(0, lambda done: on_progress("records", done, cache.num_records))
