"""One opened cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from dsrt_lightning._core import CacheFiles, crc32c
from dsrt_lightning.errors import CorruptCacheError, PickleNotAllowedError
from dsrt_lightning.store.cache_file import naming, open_cache_file
from dsrt_lightning.store.codecs import codec_class
from dsrt_lightning.store.codecs.base import Codec
from dsrt_lightning.store.durable import describe_file
from dsrt_lightning.store.lazy import lazy_property
from dsrt_lightning.store.manifest import DICTIONARY, INDEX, MANIFEST, METADATA, Manifest, read_manifest


@dataclass(frozen=True)
class Cache:
    """A complete cache, of which only the manifest was read.

    Attributes:
        path: Its directory, absolute, so that a later change of the working directory does not matter.
        manifest: What it holds.
    """

    path: Path
    manifest: Manifest

    @property
    def cache_id(self) -> int:
        """The first column of its metadata rows, in ``[0, 2**63)``."""
        return self.manifest.cache_id

    @property
    def num_records(self) -> int:
        """How many records it has, at least one."""
        return self.manifest.num_records

    @lazy_property
    def codec(self) -> Codec:
        """The decoder of its records; raises CorruptCacheError if the stored schema makes no sense."""
        name, schema = self.manifest.codec
        return codec_class(name).from_schema(schema, os.fspath(self.path / MANIFEST))

    @property
    def metadata_path(self) -> Path:
        """The Arrow IPC file with a row a record, to be mapped."""
        return self.path / METADATA

    @property
    def files(self) -> CacheFiles:
        """What the native readers need; reads the dictionary, which is small, and checks it."""
        manifest = self.manifest
        index = manifest.file(INDEX)
        dictionary = self.checked_content(DICTIONARY) if manifest.compression.dictionary_bytes else b""
        return CacheFiles(
            directory=os.fspath(self.path),
            num_records=manifest.num_records,
            index_bytes=index.bytes,
            index_crc32c=index.crc32c,
            shards=[(shard.path, shard.bytes) for shard in manifest.shards],
            compressed=manifest.compression.name != "none",
            dictionary=dictionary,
            max_record_bytes=manifest.max_record_bytes,
        )

    def checked_content(self, name: str) -> bytes:
        """Return a small file, after the same checks as `check_file`: what was checked is what is returned."""
        with naming(self.path / name), self.open_file(name) as file:
            content = file.read(self.manifest.file(name).bytes)
        self._check_crc32c(name, crc32c(content))
        return content

    def check_file(self, name: str) -> None:
        """Read one file and compare it with the manifest; memory is bounded.

        Raises:
            CorruptCacheError: It is missing, no regular file, or its size or checksum is another; with both.
        """
        with self.open_file(name):
            self._check_crc32c(name, describe_file(self.path, name).crc32c)

    def open_file(self, name: str) -> BufferedReader:
        """Open a file that has the size which the manifest says; raises as `check_file`."""
        path, expected = self.path / name, self.manifest.file(name).bytes
        try:
            file = open_cache_file(path)
        except FileNotFoundError:
            raise CorruptCacheError(f"{path}: the file is missing; restore or rebuild the cache") from None
        if (size := os.fstat(file.fileno()).st_size) != expected:
            file.close()
            raise CorruptCacheError(
                f"{path}: has {size} bytes but the manifest says {expected}; restore or rebuild the cache"
            )
        return file

    def _check_crc32c(self, name: str, found: int) -> None:
        expected = self.manifest.file(name).crc32c
        if found != expected:
            raise CorruptCacheError(
                f"{self.path / name}: CRC32C is {found:08x} but the manifest says {expected:08x}; "
                "restore or rebuild the cache"
            )


def open_cache(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Cache:
    """Open a complete cache; costs reading its manifest.

    Args:
        path: Its directory.
        allow_pickle: Allow codecs that run code of whoever wrote the cache. Only for caches you trust.

    Raises:
        CacheNotFoundError: There is no complete cache at ``path``.
        FormatVersionError, CorruptCacheError: The manifest is of another version, or not what was written.
        UnknownCodecError: The codec is not installed.
        PickleNotAllowedError: The codec runs code and ``allow_pickle`` is False.
    """
    directory = Path(os.path.abspath(path))
    manifest = read_manifest(directory)
    if codec_class(manifest.codec.name).needs_trust and not allow_pickle:
        raise PickleNotAllowedError(
            f"{directory}: codec {manifest.codec.name!r} runs code from the cache when it is read; "
            "pass allow_pickle=True only if you trust who wrote it"
        )
    return Cache(directory, manifest)
