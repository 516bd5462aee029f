"""Whether the cache that is already there is the one that a build would make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dsrt_lightning.errors import BuildError, CacheNotFoundError, FingerprintMismatchError, OptionsMismatchError
from dsrt_lightning.store.codecs.base import Codec
from dsrt_lightning.store.manifest import MANIFEST, Compression, Manifest, read_manifest
from dsrt_lightning.store.metadata_schema import GivenColumn


def find_reusable(
    target: Path,
    fingerprint: str | None,
    codec: Codec,
    compression: Compression,
    given: Mapping[str, GivenColumn],
) -> Manifest | None:
    """Return the manifest of a complete cache at ``target`` that can be used instead of building, None for no cache.

    ``shard_bytes`` is not compared: it changes where records lie, not what they are.

    Raises:
        FingerprintMismatchError: The cache was built from other data, or only one side says from which.
        OptionsMismatchError: It was built with another codec, compression or metadata type.
        BuildError: Something that is no cache is in the way.
        DsrtError: As `read_manifest`.
    """
    manifest = _manifest_at(target)
    if manifest is None and _is_in_the_way(target):
        manifest = _manifest_at(target)  # Another builder may have published it between the two looks.
        if manifest is None:
            raise BuildError(
                f"{target}: exists but is no complete cache (no {MANIFEST}); remove it or choose another name"
            )
    if manifest is None:
        return None
    if manifest.fingerprint != fingerprint:
        raise FingerprintMismatchError(
            f"{target}: was built from fingerprint {manifest.fingerprint!r} but the source has {fingerprint!r}; "
            "remove the cache or choose another name"
        )
    if manifest.codec.name != codec.name:
        raise _other(target, f"codec {manifest.codec.name!r}", repr(codec.name))
    if not codec.accepts(manifest.codec.schema):
        raise _other(target, f"codec {codec.name!r} and schema {manifest.codec.schema}", repr(codec))
    if manifest.compression != compression:
        raise _other(target, f"compression {manifest.compression}", str(compression))
    stored = dict(manifest.metadata_columns)
    for name, column in given.items():
        if stored.get(name) != column.type_name:
            raise _other(target, f"metadata column {name!r} as {stored.get(name, 'nothing')}", column.type_name)
    return manifest


def _manifest_at(target: Path) -> Manifest | None:
    try:
        return read_manifest(target)
    except CacheNotFoundError:
        return None


def _is_in_the_way(target: Path) -> bool:
    return os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir()))


def _other(target: Path, found: str, asked: str) -> OptionsMismatchError:
    return OptionsMismatchError(
        f"{target}: was built with {found} but {asked} is asked for; use it as it is, or remove it to build it again"
    )
