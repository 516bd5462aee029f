"""Builds caches: sources in, complete directories out."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING

from dsrt_lightning._core import ShardWriter, WriteSummary
from dsrt_lightning.errors import BuildError, EncodeError
from dsrt_lightning.store.build_results import BuildFailed, BuildResult, CacheBuilt, CacheReused, raise_for_failures
from dsrt_lightning.store.codecs import resolve_codec
from dsrt_lightning.store.codecs.base import Buffer, Codec
from dsrt_lightning.store.dictionary import take_sample, train
from dsrt_lightning.store.durable import describe_file, write_durably
from dsrt_lightning.store.manifest import (
    DICTIONARY,
    MANIFEST,
    METADATA,
    Compression,
    FileEntry,
    Manifest,
    StoredCodec,
)
from dsrt_lightning.store.metadata_file import MetadataWriter
from dsrt_lightning.store.metadata_schema import GivenColumn, given_columns
from dsrt_lightning.store.progress import BuildProgress
from dsrt_lightning.store.publication import locked, make_root, new_directory, remove_debris
from dsrt_lightning.store.reuse import find_reusable
from dsrt_lightning.store.sources import CacheInput, Source, checked_sources, fingerprint_of

if TYPE_CHECKING:
    from polars._typing import PolarsDataType

__all__ = ["BuildFailed", "BuildResult", "CacheBuilt", "CacheReused", "build_caches", "raise_for_failures"]


def build_caches(
    sources: Source | Iterable[Source],
    root: str | os.PathLike[str],
    *,
    codec: str | Codec,
    compression: str | Compression = "none",
    shard_bytes: int = 256 << 20,
    metadata_schema: Mapping[str, PolarsDataType] | None = None,
    progress: bool = True,
    threads: int = 2,
    max_pending_bytes: int = 16 << 20,
) -> list[BuildResult]:
    """Build the cache ``root/<name>`` of each source, and return what became of each, in order.

    A source that fails does not stop the others, publishes nothing, and is warned of. A complete cache of the same name
    is reused without reading the source if its fingerprint is the source's (or neither has one) and its codec,
    compression and given metadata types are those asked for; otherwise it is kept and the source fails. Equal records
    and options give equal bytes, whatever ``threads`` and ``max_pending_bytes``.

    Args:
        sources: One source or many.
        root: Is created where needed.
        codec: ``bytes``, ``arrays``, ``pickle``, the name of an installed codec, or a codec with options.
        compression: ``none``, ``zstd`` or a `Compression`.
        shard_bytes: Payload files are closed before they grow past this; a larger record stays whole.
        metadata_schema: Polars dtypes of some or all metadata columns, as Categorical or Enum; the others follow from
            the values.
        progress: Show a bar with records/s and MB/s on stderr, and a line for each cache that is reused although
            nothing can be compared, for lack of a fingerprint.
        threads: Native threads that compress and checksum.
        max_pending_bytes: The source waits while more than this waits to be written.

    Raises:
        SourceNameError: A name is no directory name, or not unique; nothing was written.
        ValueError: An option is out of range; nothing was written.
    """
    for option, value in {
        "shard_bytes": shard_bytes,
        "threads": threads,
        "max_pending_bytes": max_pending_bytes,
    }.items():
        if value < 1:
            raise ValueError(f"build_caches: {option} is {value} but must be at least 1")
    options = _Options(
        codec=resolve_codec(codec),
        compression=Compression.of(compression),
        shard_bytes=shard_bytes,
        given=given_columns(metadata_schema),
        threads=threads,
        max_pending_bytes=max_pending_bytes,
    )
    checked = checked_sources(sources)
    directory = Path(os.path.abspath(root))
    make_root(directory)
    results = []
    with BuildProgress(is_on=progress) as bar:
        for source in checked:
            result = _build(source, directory / source.name, options, bar)
            if isinstance(result, BuildFailed):
                warnings.warn(f"source {result.name!r} was not built: {result.error}", stacklevel=2)
            elif isinstance(result, CacheReused) and not result.is_compared:
                bar.note(f"{result.path}: reused without comparing: no fingerprint")
            results.append(result)
    return results


@dataclass(frozen=True)
class _Options:
    codec: Codec
    compression: Compression
    shard_bytes: int
    given: Mapping[str, GivenColumn]
    threads: int
    max_pending_bytes: int


def _build(source: Source, target: Path, options: _Options, bar: BuildProgress) -> BuildResult:
    start = time.monotonic()
    try:
        fingerprint = fingerprint_of(source)

        def existing() -> Manifest | None:
            return find_reusable(target, fingerprint, options.codec, options.compression, options.given)

        if manifest := existing():
            remove_debris(target)
            return CacheReused(source.name, target, manifest.num_records, fingerprint is not None)
        with locked(target):
            # Whoever held the lock may have just published it.
            if manifest := existing():
                return CacheReused(source.name, target, manifest.num_records, fingerprint is not None)
            with new_directory(target) as directory:
                written = _write_cache(source, fingerprint, directory, options, bar)
        return CacheBuilt(
            source.name, target, written.num_records, written.raw_bytes, written.stored_bytes, time.monotonic() - start
        )
    except Exception as error:
        return BuildFailed(source.name, target, error)
    except BaseException:
        remove_debris(target)  # Ctrl-C may come where a `with` has begun to enter, and will not be left.
        raise


def _write_cache(
    source: Source, fingerprint: str | None, directory: Path, options: _Options, bar: BuildProgress
) -> WriteSummary:
    where = f"source {source.name!r}"
    compression = options.compression
    codec = options.codec.fresh()
    (directory / "shards").mkdir()
    with ExitStack() as stack:
        metadata = MetadataWriter(directory / METADATA, options.given, where)
        stack.callback(metadata.close)
        records = stack.enter_context(closing(_encode(source, codec, metadata, where)))
        sample: list[bytes] = []
        dictionary = None
        if compression.dictionary_bytes:
            sample = take_sample(records, compression.dictionary_bytes)
            dictionary = train(sample, compression.dictionary_bytes, compression.level, where)
            write_durably(directory / DICTIONARY, dictionary)
        writer = ShardWriter(
            os.fspath(directory),
            shard_bytes=options.shard_bytes,
            alignment=codec.alignment,
            level=None if compression.name == "none" else compression.level,
            dictionary=dictionary,
            threads=options.threads,
            max_pending_bytes=options.max_pending_bytes,
        )
        stack.callback(writer.abort)
        with bar.showing(source.name, writer, length_hint(source) or None):
            append = writer.append
            for parts in chain(((record,) for record in sample), records):
                append(parts)
            if not writer.num_records:
                raise BuildError(f"{where}: it yielded no records; a cache has at least one")
            written = writer.finish()
        columns = metadata.finish()
    index, *shards = [FileEntry(*entry) for entry in written.files]
    others = [METADATA, *([DICTIONARY] if dictionary is not None else [])]
    manifest = Manifest(
        name=source.name,
        fingerprint=fingerprint,
        codec=StoredCodec(codec.name, codec.schema()),
        num_records=written.num_records,
        record_alignment=codec.alignment,
        max_record_bytes=written.max_record_bytes,
        compression=compression,
        metadata_columns=columns,
        files=(index, *(describe_file(directory, name) for name in others), *shards),
    )
    write_durably(directory / MANIFEST, manifest.to_bytes())
    return written


def _encode(source: Source, codec: Codec, metadata: MetadataWriter, where: str) -> Generator[Sequence[Buffer]]:
    """Yield the parts of each record, and write its metadata on the way.

    Raises:
        BuildError: The source, the codec or the metadata failed; names the record.
        OSError: The metadata could not be written.
    """
    encode, add = codec.encode, metadata.add
    item = CacheInput(None)
    try:
        for item in source:
            parts = encode(item.data)
            add(item.metadata)
            yield parts
    except BuildError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename == os.fspath(metadata.path):
            raise
        record = f"{where}: record {metadata.num_rows}"
        if not (hasattr(item, "data") and hasattr(item, "metadata")):
            raise BuildError(f"{record} is a {type(item).__name__}, not a CacheInput(data, metadata)") from error
        cause = str(error) if isinstance(error, EncodeError) else f"{type(error).__name__}: {error}"
        raise BuildError(f"{record}: {cause}") from error
