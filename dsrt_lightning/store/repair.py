"""Replaces the broken files of a cache by those of a copy of it.

    shards/.000003.bin.repairing   copied, made durable and compared with the manifest, then renamed to
    shards/000003.bin

Nothing is written to a file that a reader may have open: it keeps what it has mapped. A repair that dies leaves each
file as it was or as it must be, and its debris to the next repair.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dsrt_lightning._core import crc32c
from dsrt_lightning.errors import CacheConflictError, CacheNotFoundError, CorruptCacheError
from dsrt_lightning.store.cache import Cache, open_cache
from dsrt_lightning.store.cache_file import naming
from dsrt_lightning.store.durable import measure
from dsrt_lightning.store.manifest import BUILDING_SUFFIX, MANIFEST, FileEntry, read_manifest
from dsrt_lightning.store.publication import locked
from dsrt_lightning.store.verify import Progress, broken_files, content_problems, no_progress

_SUFFIX = ".repairing"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Repair:
    """What became of a cache.

    Attributes:
        replaced: The files that were broken and are whole now, relative to the cache.
        problems: What is still broken, one message each; empty if the cache is intact.
    """

    replaced: tuple[str, ...]
    problems: tuple[str, ...]


def repair_cache(
    directory: str | os.PathLike[str], mirror: str | os.PathLike[str], on_progress: Progress = no_progress
) -> Repair:
    """Replace exactly the broken files of a cache by those of ``mirror``, then verify the cache as `verify_cache` does.

    What is broken, and what may replace it, is decided by the manifest alone. A manifest that is missing or broken is
    replaced if every other file is as the mirror's manifest says: only then are they certain to be the same cache.

    Args:
        directory: Of the cache.
        mirror: Directory of a copy; its intact files are enough.
        on_progress: As for `verify_cache`.

    Raises:
        CacheConflictError: The mirror is another cache; with both identities. As all below: nothing was replaced.
        CacheNotFoundError: One of them is no directory, or the mirror has no manifest.
        CorruptCacheError: The mirror's manifest is broken; or the cache's is, and other files are too; or a link is in
            the place of the folder of shards.
        CacheBusyError: Another process builds or repairs the cache.
        PermissionError: A file may not be read.
        ValueError: The mirror is the cache itself.
    """
    path, source = Path(os.path.abspath(directory)), open_cache(mirror, allow_pickle=True)
    if path.is_dir() and os.path.samefile(path, source.path):
        raise ValueError(f"{source.path}: is the cache that is to be repaired; name a copy of it")
    _broken_manifest(path, source)  # Refuses what is no cache before there is a lock file beside it.
    with locked(Path(os.path.realpath(path))), ExitStack() as stack:
        broken_manifest = _broken_manifest(path, source)
        folders = {"": stack.enter_context(_opened(path))}
        folders["shards"] = stack.enter_context(_opened(path / "shards", folders[""]))
        cache = Cache(path, source.manifest)
        broken = list(_replaceable(cache, on_progress))
        if broken_manifest:
            if broken:
                raise CorruptCacheError(
                    f"{broken_manifest}; and {', '.join(broken)} are not as in {source.path}, which may therefore be "
                    "another cache; if it is not, copy it as a whole"
                )
            broken = [MANIFEST]
        replaced, problems = [], []
        for name in broken:
            try:
                _replace(cache, source, name, folders[os.path.dirname(name)])
                replaced.append(name)
            except (CorruptCacheError, OSError) as error:
                problems.append(str(error))
        return Repair(tuple(replaced), tuple(problems or content_problems(cache, on_progress)))


def _replaceable(cache: Cache, on_progress: Progress) -> Iterator[str]:
    """Yield the broken files; what may not be read is not known to be broken."""
    for name, error in broken_files(cache, on_progress):
        if isinstance(error, PermissionError):
            raise error
        yield name


def _broken_manifest(path: Path, mirror: Cache) -> str | None:
    """Return what is wrong with the manifest of the cache, None if it is the mirror's."""
    try:
        found = read_manifest(path)
    except (CacheNotFoundError, CorruptCacheError) as error:
        if not path.is_dir() or path.name.endswith(BUILDING_SUFFIX):
            raise
        return str(error)
    if found.identity != mirror.manifest.identity:
        raise CacheConflictError(
            f"{path}: has identity {found.identity} but {mirror.path} has {mirror.manifest.identity}; name a copy of "
            "the same cache"
        )
    return None


@contextmanager
def _opened(folder: Path, parent: int | None = None) -> Iterator[int]:
    """Give the descriptor of a folder, made first where it is missing from its ``parent``; its debris is removed."""
    flags = os.O_RDONLY | os.O_DIRECTORY
    with _naming(folder):
        if parent is not None:
            # Through a link, files outside of the cache would be replaced.
            flags |= os.O_NOFOLLOW
            with suppress(FileExistsError):
                os.mkdir(folder.name, dir_fd=parent)
                os.fsync(parent)
        try:
            descriptor = os.open(folder if parent is None else folder.name, flags, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise CorruptCacheError(f"{folder}: is no folder of this cache; remove what is in its place") from None
            raise
    try:
        with _naming(folder):
            _remove_debris(descriptor)
        yield descriptor
    finally:
        with suppress(OSError):  # Nothing was written through it.
            os.close(descriptor)


def _remove_debris(folder: int) -> None:
    for name in os.listdir(folder):
        if name.startswith(".") and name.endswith(_SUFFIX):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Within it, an OSError that names no file, or one relative to an open folder, names ``path``."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, str) and os.path.isabs(error.filename):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _replace(cache: Cache, mirror: Cache, name: str, folder: int) -> None:
    """Put the mirror's file in the place of the cache's, if it is what the manifest says.

    Raises:
        CorruptCacheError: It is not; names the mirror's file.
        OSError: It cannot be read, or its copy not be written; with ``filename``.
    """
    base = os.path.basename(name)
    temporary = f".{base}{_SUFFIX}"
    with _naming(cache.path / name):
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        try:
            with open(descriptor, "r+b") as copy:
                for block in _blocks(mirror, name):
                    copy.write(block)
                copy.flush()
                os.fsync(descriptor)
                copy.seek(0)
                _check(mirror, name, *measure(copy))
            os.rename(temporary, base, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _blocks(mirror: Cache, name: str) -> Iterator[bytes]:
    """Yield the content of a file of the mirror in pieces."""
    if name == MANIFEST:
        yield mirror.manifest.to_bytes()
        return
    with naming(mirror.path / name), mirror.open_file(name) as original:
        while block := original.read(_BLOCK_BYTES):
            yield block


def _check(mirror: Cache, name: str, size: int, checksum: int) -> None:
    """Refuse a copy that is not what the manifest says."""
    content = mirror.manifest.to_bytes()
    expected = FileEntry(name, len(content), crc32c(content)) if name == MANIFEST else mirror.manifest.file(name)
    if (size, checksum) != (expected.bytes, expected.crc32c):
        raise CorruptCacheError(
            f"{mirror.path / name}: has {size} bytes and CRC32C {checksum:08x} but the manifest says {expected.bytes} "
            f"and {expected.crc32c:08x}; name another copy"
        )
