"""The files of a cache, opened as what they must be, and named in errors."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from dsrt_lightning.errors import CorruptCacheError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Within it, an OSError that names no file names ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def open_cache_file(path: Path) -> BufferedReader:
    """Open a file of a cache for reading.

    Raises:
        CorruptCacheError: It is a link, which may lead out of the cache, or no regular file.
        OSError: It cannot be opened; with ``filename``.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody to write.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CorruptCacheError(f"{path}: is a symbolic link; put the file itself into the cache") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CorruptCacheError(f"{path}: is not a regular file; restore or rebuild the cache")
    return open(descriptor, "rb")
