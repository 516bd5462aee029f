"""What became of each source of a build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeAlias

from dsrt_lightning.errors import BuildError


@dataclass(frozen=True)
class CacheBuilt:
    """The source was read and its cache published.

    Attributes:
        raw_bytes: Of all records before compression.
        stored_bytes: After it, without padding.
    """

    name: str
    path: Path
    num_records: int
    raw_bytes: int
    stored_bytes: int
    seconds: float

    def unwrap(self) -> CacheBuilt:
        """Return itself."""
        return self


@dataclass(frozen=True)
class CacheReused:
    """A complete cache of the same name, fingerprint and options was there; the source was not read.

    Attributes:
        is_compared: False where source and cache have no fingerprint, so that nobody knows whether they agree.
    """

    name: str
    path: Path
    num_records: int
    is_compared: bool = True

    def unwrap(self) -> CacheReused:
        """Return itself."""
        return self


@dataclass(frozen=True)
class BuildFailed:
    """Nothing was published.

    Attributes:
        error: A BuildError that names the record, with the source's own exception as its cause; or what kept the
            cache from being built or reused; or the OSError of a file that could not be written.
    """

    name: str
    path: Path
    error: Exception

    def unwrap(self) -> NoReturn:
        """Raise the error."""
        raise self.error


BuildResult: TypeAlias = CacheBuilt | CacheReused | BuildFailed


def raise_for_failures(results: Iterable[BuildResult]) -> list[CacheBuilt | CacheReused]:
    """Return the results if no source failed.

    Raises:
        Exception: The error of the source that failed; a BuildError that lists all if there are several.
    """
    good: list[CacheBuilt | CacheReused] = []
    failed: list[BuildFailed] = []
    for result in results:
        (failed if isinstance(result, BuildFailed) else good).append(result)  # type: ignore[arg-type]
    if len(failed) > 1:
        lines = "\n".join(f"  {result.name}: {result.error}" for result in failed)
        raise BuildError(f"{len(failed)} of {len(failed) + len(good)} caches failed:\n{lines}") from failed[0].error
    if failed:
        failed[0].unwrap()
    return good
