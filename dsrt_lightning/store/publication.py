"""From nothing to a complete cache in one step, whatever dies in between.

    root/.digits.lock       held by the process that builds, so that the next can tell its debris from its work
    root/.digits.building/  filled, made durable, then renamed to
    root/digits/

A killed builder leaves both hidden entries; its lock is gone with it, so the next builder of the name removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dsrt_lightning.errors import CacheBusyError
from dsrt_lightning.store.cache_file import naming
from dsrt_lightning.store.durable import sync_file
from dsrt_lightning.store.manifest import BUILDING_SUFFIX


def make_root(root: Path) -> None:
    """Create a directory and its parents, durably."""
    missing = [directory for directory in (root, *root.parents) if not directory.exists()]
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync_file(directory.parent)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Be the only one who builds or repairs ``target``, over all threads and processes.

    Raises:
        CacheBusyError: Another one is at work.
    """
    path = _lock_of(target)
    descriptor = _acquire(path, target)
    try:
        with naming(path):
            os.truncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        # A lock file that stays does no harm, so it must not turn a build that succeeded into one that failed.
        with suppress(OSError):
            path.unlink()  # While it is locked: whoever opened it before sees that it is gone.
        with suppress(OSError):
            os.close(descriptor)


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Give a directory to fill; without an exception it becomes ``target``, with one it is removed.

    Needs `locked`. The files in it must be durable already; directories are made so here.
    """
    building = _building_of(target)
    _remove(building)
    try:
        building.mkdir()
        yield building
        for directory in (*(entry for entry in building.iterdir() if entry.is_dir()), building):
            sync_file(directory)
        os.rename(building, target)
        try:
            sync_file(target.parent)
        except OSError:
            os.rename(target, building)  # Whoever is told that it failed must not find it.
            raise
    except BaseException:
        _remove(building)
        raise


def remove_debris(target: Path) -> None:
    """Remove what a killed or interrupted builder left, unless another one is at work or it cannot be done."""
    if os.path.lexists(_lock_of(target)) or os.path.lexists(_building_of(target)):
        with suppress(CacheBusyError, OSError), locked(target):
            _remove(_building_of(target))


def _lock_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


def _building_of(target: Path) -> Path:
    return target.with_name(f".{target.name}{BUILDING_SUFFIX}")


def _remove(directory: Path) -> None:
    """Remove what can be removed, without hiding why; what stays is the next builder's."""
    with suppress(OSError):  # rmtree itself may fail, whatever it is told to ignore.
        shutil.rmtree(directory, ignore_errors=True)


def _acquire(path: Path, target: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with naming(path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_there(path, descriptor):
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode() or "unknown"
            os.close(descriptor)
            raise CacheBusyError(
                f"{target}: process {holder} is building or repairing it; wait for it or choose another name"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still_there(path: Path, descriptor: int) -> bool:
    """Return whether the locked file is the one that others would lock; its last holder may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
