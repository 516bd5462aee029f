"""Folders that live no longer than the process that uses them, however it ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class ScratchFolder:
    """A new folder under ``place/scratch``, locked for as long as this process or one forked from it lives.

    Making one removes those that nobody has locked: their processes were killed.

    Attributes:
        path: The folder.
    """

    def __init__(self, place: Path) -> None:
        """Make the folder, and ``place`` where it is missing.

        Raises:
            OSError: ``place`` cannot be written.
        """
        parent = place / "scratch"
        parent.mkdir(parents=True, exist_ok=True)
        with _locked(parent):
            _remove_abandoned(parent)
            self.path = Path(tempfile.mkdtemp(dir=parent))
            self._descriptor = _lock(self.path)
        self._process = os.getpid()

    def close(self) -> None:
        """Remove the folder if it is still there; in a forked process do nothing. Call it once."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._descriptor)


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.iterdir():
        with suppress(FileNotFoundError, BlockingIOError):  # it was renamed or removed just now, or is in use
            descriptor = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


@contextmanager
def _locked(parent: Path) -> Iterator[None]:
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> int:
    """Return a descriptor that holds the lock.

    Raises:
        BlockingIOError: Another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
