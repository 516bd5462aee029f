"""Folders of little-endian arrays that every process maps read-only, with a small JSON written last.

    snapshot.json     what the arrays mean, and every file with its size and CRC32C
    rows.npy          int64 [P] record numbers
    weights.npy       float64 [P]; missing where all are equal
    columns.arrow     columns that the caches do not have, or all columns; missing if there are none
    group-0.npy       int32 [P] codes of a column's values
    tables/alias/     made from the population later: a folder like this one with one array

A folder appears by one rename, so it is complete or absent, and a damaged file fails its checksum.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsrt_lightning._core import crc32c
from dsrt_lightning.errors import CorruptCacheError
from dsrt_lightning.population.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = "dsrt.population"
_VERSION = 1
_JSON = "snapshot.json"


def snapshot_place() -> Path:
    """Return where snapshots are kept: ``populations`` under ``DSRT_CACHE_DIR`` or the user's cache directory."""
    given = os.environ.get("DSRT_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(given) if given else user / "dsrt_lightning") / "populations"


class SnapshotFiles:
    """A published folder.

    Attributes:
        directory: The folder.
        place: Holds scratch folders for more of them.
        facts: What its writer noted.
    """

    def __init__(self, directory: Path, place: Path, *, verify: bool) -> None:
        """Open a folder.

        Args:
            directory: The folder.
            place: In the same file system.
            verify: Compare each file with its CRC32C; else only its size.

        Raises:
            FileNotFoundError: It does not exist.
            CorruptCacheError: It is not what was written.
        """
        self.directory = directory
        self.place = place
        try:
            content = (directory / _JSON).read_bytes()
        except FileNotFoundError:
            if directory.exists():
                raise CorruptCacheError(f"{directory}: {_JSON} is missing; remove the folder") from None
            raise
        try:
            recorded = json.loads(content)
            if (recorded["format"], recorded["version"]) != (_FORMAT, _VERSION):
                raise ValueError(f"format {recorded['format']!r} version {recorded['version']!r}")
            if recorded["crc32c"] != _crc_of_json(recorded):
                raise ValueError(f"CRC32C {_crc_of_json(recorded)}, not {recorded['crc32c']}")
            self.facts: dict[str, Any] = recorded["facts"]
            self._files: dict[str, tuple[int, int]] = recorded["files"]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptCacheError(f"{directory / _JSON}: not a snapshot ({error}); remove the folder") from None
        for name, (size, crc) in self._files.items():
            self._check(directory / name, size, crc if verify else None)

    def has(self, name: str) -> bool:
        """Return whether the folder has a file."""
        return name in self._files

    def array(self, name: str) -> NDArray[Any]:
        """Return ``name``, an ``.npy`` file, mapped read-only."""
        return np.asarray(np.load(self.directory / name, mmap_mode="r", allow_pickle=False))

    @staticmethod
    def _check(path: Path, size: int, crc: int | None) -> None:
        try:
            found = path.stat().st_size
        except OSError as error:
            raise CorruptCacheError(f"{path}: {error.strerror}; remove the folder") from None
        if found != size:
            raise CorruptCacheError(f"{path}: has {found} bytes but had {size}; remove the folder")
        if crc is not None and (now := _crc_of(path)) != crc:
            raise CorruptCacheError(f"{path}: CRC32C is {now:08x} but was {crc:08x}; remove the folder")


def open_or_make(
    directory: Path, place: Path, write: Callable[[Path], Mapping[str, Any]], *, verify: bool = True
) -> SnapshotFiles:
    """Return a folder, made first if it is missing or damaged.

    Processes may do this at the same time: each makes its own, the first to finish publishes it, all use that one.

    Args:
        directory: The folder.
        place: For scratch folders; in the same file system.
        write: Writes the files into an empty folder and returns the facts.
        verify: Compare the files of an existing folder with their CRC32C.

    Raises:
        OSError: A file cannot be written; nothing is published.
    """
    try:
        return SnapshotFiles(directory, place, verify=verify)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except CorruptCacheError:
        _discard(directory, place)
    try:
        scratch = ScratchFolder(place)
    except OSError as error:
        text = f"{error.strerror}; snapshots of populations are kept here, let DSRT_CACHE_DIR name another folder"
        raise OSError(error.errno, text, os.fspath(place)) from error
    try:
        complete(scratch.path, write)
        directory.parent.mkdir(parents=True, exist_ok=True)
        scratch.path.rename(directory)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # else another process was faster
            raise
    finally:
        scratch.close()
    return SnapshotFiles(directory, place, verify=False)


def complete(directory: Path, write: Callable[[Path], Mapping[str, Any]]) -> None:
    """Fill an empty folder and write its JSON."""
    facts = dict(write(directory))
    files = {path.name: (path.stat().st_size, _crc_of(path)) for path in sorted(directory.iterdir()) if path.is_file()}
    content = {"format": _FORMAT, "version": _VERSION, "facts": facts, "files": files}
    content["crc32c"] = _crc_of_json(content)
    (directory / _JSON).write_text(json.dumps(content, indent=1, allow_nan=False))


def _discard(directory: Path, place: Path) -> None:
    """Remove a damaged folder in one step; processes that have it mapped keep what they have."""
    scratch = ScratchFolder(place)
    try:
        with suppress(FileNotFoundError):  # another process was faster
            directory.rename(scratch.path / directory.name)
    finally:
        scratch.close()


def _crc_of_json(content: Mapping[str, Any]) -> int:
    """Return the CRC32C of all that a JSON says but this number."""
    others = {key: value for key, value in content.items() if key != "crc32c"}
    return crc32c(json.dumps(others, sort_keys=True, allow_nan=False).encode())


def _crc_of(path: Path) -> int:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return crc32c(content)
