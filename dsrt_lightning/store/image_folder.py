"""A folder of encoded images as a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dsrt_lightning.errors import ConfigError
from dsrt_lightning.store.codecs import resolve_codec
from dsrt_lightning.store.codecs.base import Codec
from dsrt_lightning.store.fingerprint import fingerprint_files
from dsrt_lightning.store.lazy import lazy_property
from dsrt_lightning.store.sources import CacheInput

if TYPE_CHECKING:
    import polars as pl

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFolderSource:
    """Every image file under a folder, as its encoded bytes; a transform decodes them.

    The metadata are ``label``, the name of the folder that holds the file (null for a file in the top folder), and
    ``path``, relative to the top folder and with ``/``. The files come in the order of their paths.
    """

    def __init__(self, path: str | Path, *, name: str | None = None) -> None:
        """List the files; each is read when its turn comes.

        Args:
            path: The top folder.
            name: Of the cache; default the folder's name.

        Raises:
            ConfigError: No file under ``path`` has one of `IMAGE_SUFFIXES`.
        """
        self.path = Path(path)
        self.name = name or self.path.resolve().name
        files = (file for file in self.path.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file())
        self._files = sorted(file.relative_to(self.path) for file in files)
        if not self._files:
            raise ConfigError(f"{path}: no image file in this folder ({' '.join(IMAGE_SUFFIXES)})")
        self.codec: Codec = resolve_codec("bytes")

    @property
    def metadata_schema(self) -> dict[str, pl.DataType]:
        """Both columns are strings."""
        import polars as pl

        return {"label": pl.String(), "path": pl.String()}

    @lazy_property
    def fingerprint(self) -> str:
        """Over all paths and contents."""
        return fingerprint_files((file.as_posix(), self.path / file) for file in self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[CacheInput]:
        """Yield the files in the order of their paths."""
        for file in self._files:
            metadata = {"label": file.parent.name or None, "path": file.as_posix()}
            yield CacheInput((self.path / file).read_bytes(), metadata)
