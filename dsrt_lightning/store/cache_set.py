"""Many opened caches, whose records are numbered as one sequence."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from dsrt_lightning._core import ShardSet
from dsrt_lightning.errors import CacheConflictError, ConfigError
from dsrt_lightning.store.cache import Cache, open_cache
from dsrt_lightning.store.codecs.base import Codec
from dsrt_lightning.store.lazy import lazy_property

Verify: TypeAlias = Literal["first", "always", "never"]
VERIFY: tuple[Verify, ...] = ("first", "always", "never")


class CacheSet:
    """Opened caches: record ``bases[c] + sample_id`` is record ``sample_id`` of ``caches[c]``.

    Record numbers do not depend on the order in which the caches were given. Pickling sends the paths alone; the
    receiver opens them and makes sure that they are still the same caches.

    Attributes:
        listed: The caches in the order they were given.
        caches: The caches by ascending ``cache_id``, the order of record numbers.
        bases: The first record number of each of ``caches``.
        num_records: Of all caches together.
        verify: When a record is compared with its checksum.
    """

    def __init__(self, caches: Sequence[Cache], *, verify: Verify = "first", allow_pickle: bool = False) -> None:
        """Number the records of caches that are open already; see `open_caches`."""
        if not caches:
            raise ValueError("caches: the list is empty; name at least one cache")
        if verify not in VERIFY:
            raise ValueError(f"verify is {verify!r}; choose {', '.join(VERIFY)}")
        self.listed = tuple(caches)
        self.caches = tuple(sorted(caches, key=lambda cache: cache.cache_id))
        for first, second in zip(self.caches, self.caches[1:], strict=False):
            if first.cache_id == second.cache_id:
                raise CacheConflictError(
                    f"{first.path} and {second.path} have the same cache_id {first.cache_id}; open the cache only once"
                )
        *bases, self.num_records = accumulate((cache.num_records for cache in self.caches), initial=0)
        self.bases = tuple(bases)
        self.verify = verify
        self._allow_pickle = allow_pickle
        self.codec = self._common_codec()

    @lazy_property
    def shards(self) -> ShardSet:
        """The native reader of all records; made, and the indexes mapped, when first used."""
        return ShardSet([cache.files for cache in self.caches], self.verify)

    @property
    def identities(self) -> tuple[str, ...]:
        """SHA-256 in hex of each of ``caches``."""
        return tuple(cache.manifest.identity for cache in self.caches)

    def locate(self, row: int) -> tuple[int, int]:
        """Return the position in ``caches``, and the ``sample_id``, of a record number.

        Raises:
            IndexError: ``row`` is outside ``[0, num_records)``.
        """
        if not 0 <= row < self.num_records:
            raise IndexError(f"record number {row} is outside [0, {self.num_records})")
        ordinal = bisect_right(self.bases, row) - 1
        return ordinal, row - self.bases[ordinal]

    def __reduce__(self) -> tuple[Any, ...]:
        known = [(os.fspath(cache.path), cache.manifest.identity) for cache in self.listed]
        return _reopen, (known, self.verify, self._allow_pickle)

    def _common_codec(self) -> Codec:
        first = self.listed[0]
        for other in self.listed[1:]:
            if other.manifest.codec != first.manifest.codec:
                raise ConfigError(
                    f"{first.path} has codec {_described(first)} but {other.path} has {_described(other)}; "
                    "open caches of one codec and schema together"
                )
        return first.codec


def open_caches(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    verify: Verify = "first",
    allow_pickle: bool = False,
) -> CacheSet:
    """Open one or many caches; costs reading their manifests.

    Args:
        paths: Their directories.
        verify: ``first`` compares a record with its checksum when this process first reads it, ``always`` at every
            read, ``never`` not at all.
        allow_pickle: As for `open_cache`.

    Raises:
        CacheConflictError: The same cache is there twice.
        ConfigError: The caches differ in codec or schema.
        ValueError: There is no path.
        DsrtError: As `open_cache`, for any of them.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    caches = [open_cache(path, allow_pickle=allow_pickle) for path in listed]
    return CacheSet(caches, verify=verify, allow_pickle=allow_pickle)


def _reopen(known: list[tuple[str, str]], verify: Verify, allow_pickle: bool) -> CacheSet:
    opened = open_caches([path for path, _ in known], verify=verify, allow_pickle=allow_pickle)
    for cache, (path, identity) in zip(opened.listed, known, strict=True):
        if cache.manifest.identity != identity:
            raise CacheConflictError(
                f"{path}: has identity {cache.manifest.identity[:12]} but the process that sent it opened "
                f"{identity[:12]}; the cache was replaced while in use, start again"
            )
    return opened


def _described(cache: Cache) -> str:
    name, schema = cache.manifest.codec
    return f"{name!r} with {schema}" if schema else repr(name)
