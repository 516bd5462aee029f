"""What a cache is built from, and which names a source may have."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from dsrt_lightning.errors import SourceNameError

# In UTF-8. File systems allow 255; the build's temporary directory carries the name and a suffix.
MAX_NAME_BYTES = 200


@dataclass(slots=True)
class CacheInput:
    """One record to store.

    Args:
        data: The sample, as the codec wants it.
        metadata: What rules select by, the same keys in every record: bools, numbers, strings, dates, times, lists of
            them, None. ``cache_id``, ``sample_id`` and ``weight`` are reserved.
    """

    data: object
    metadata: Mapping[str, object] = field(default_factory=dict)


@runtime_checkable
class Source(Protocol):
    """What becomes one cache: an iterable of ``CacheInput`` with a name.

    An attribute ``fingerprint``, a string that changes whenever the records do, guards against reusing the cache of
    other data. It is optional, and read without iterating.
    """

    name: str

    def __iter__(self) -> Iterator[CacheInput]:
        """Yield the records in the order in which they get their ``sample_id``."""
        ...


def fingerprint_of(source: Source) -> str | None:
    """Return the source's fingerprint, or None if it has none."""
    try:
        fingerprint = source.fingerprint  # type: ignore[attr-defined]
    except AttributeError as error:
        # A property that fails on another attribute must not pass for a source without fingerprint.
        if error.name != "fingerprint" or error.obj is not source:
            raise
        return None
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise TypeError(f"source {source.name!r}: fingerprint is a {type(fingerprint).__name__}, not a string or None")
    return fingerprint


def checked_sources(sources: Source | Iterable[Source]) -> Sequence[Source]:
    """Return the sources as a sequence with usable, distinct names.

    Raises:
        SourceNameError: A name is no plain directory name, or two sources have the same.
        TypeError: Something is not a source.
    """
    listed = [sources] if isinstance(sources, Source) else list(sources)
    first_with: dict[str, int] = {}
    for ordinal, source in enumerate(listed):
        if not isinstance(source, Source):
            raise TypeError(f"sources[{ordinal}] is a {type(source).__name__}, which has no name or is not iterable")
        if problem := name_problem(source.name):
            raise SourceNameError(f"sources[{ordinal}]: the name {source.name!r} {problem}; choose another")
        if (first := first_with.setdefault(source.name, ordinal)) != ordinal:
            raise SourceNameError(f"sources[{first}] and sources[{ordinal}] are both named {source.name!r}; rename one")
    return listed


def name_problem(name: object) -> str | None:
    """Return why a cache cannot have this name, or None if it can."""
    if not isinstance(name, str):
        return f"is a {type(name).__name__}, not a string"
    if not name:
        return "is empty"
    if name.startswith("."):
        return "begins with a dot"
    if "/" in name or "\\" in name or os.sep in name:
        return "has a path separator"
    # Cc: control characters; Cs: surrogates, which no file name in UTF-8 can hold.
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return "has a control character or a surrogate"
    if (size := len(name.encode())) > MAX_NAME_BYTES:
        return f"has {size} bytes, more than {MAX_NAME_BYTES}"
    return None
