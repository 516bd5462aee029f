"""Making files durable, and measuring them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from dsrt_lightning._core import crc32c
from dsrt_lightning.store.cache_file import naming, open_cache_file
from dsrt_lightning.store.manifest import FileEntry

_BLOCK_BYTES = 1 << 20


def sync_file(path: Path) -> None:
    """Wait until the content of a written file, or the entries of a directory, are on the disk."""
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_durably(path: Path, content: bytes) -> None:
    """Create a file with ``content``, on the disk when this returns."""
    with naming(path), path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def describe_file(directory: Path, path: str) -> FileEntry:
    """Return the size and checksum of ``directory/path`` as it is now; memory is bounded."""
    with naming(directory / path), open_cache_file(directory / path) as file:
        return FileEntry(path, *measure(file))


def measure(file: IO[bytes]) -> tuple[int, int]:
    """Return the size and CRC32C of what is left to read of a file; memory is bounded."""
    checksum = size = 0
    block = bytearray(_BLOCK_BYTES)
    while count := file.readinto(block):  # type: ignore[attr-defined]
        checksum = crc32c(memoryview(block)[:count], checksum)
        size += count
    return size, checksum
