"""Sources to build caches from, and what to look at afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.sources import CacheInput


class Items:
    """A source over a list, or over what a function yields."""

    def __init__(self, name: Any, items: Iterable[Any] | Callable[[], Iterator[Any]], fingerprint: Any = None) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._items() if callable(self._items) else iter(self._items)


class Unreadable(Items):
    """A source that must not be read."""

    def __init__(self, name: str, fingerprint: str | None = None) -> None:
        super().__init__(name, self._fail, fingerprint)

    def _fail(self) -> Iterator[Any]:
        raise AssertionError("the source was read")


def inputs(count: int = 5) -> list[CacheInput]:
    """Return records of growing length with a label."""
    return [CacheInput(bytes([i]) * (i + 1), {"label": i % 2}) for i in range(count)]


def build(sources: Any, root: Path, **options: Any) -> list[Any]:
    """Build with codec ``bytes`` unless another is named."""
    return build_caches(sources, root, **{"codec": "bytes", "progress": False, **options})


def records(path: Path) -> list[bytes]:
    """Return every stored record of a cache."""
    caches = open_caches(path, allow_pickle=True)
    return [bytes(caches.shards.read(row)) for row in range(caches.num_records)]


def files(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a directory."""
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
