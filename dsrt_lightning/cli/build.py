"""``dsrt build``: make caches from tables, image folders, or a source in Python."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsrt_lightning.errors import ConfigError

if TYPE_CHECKING:
    from dsrt_lightning.store.build import BuildResult
    from dsrt_lightning.store.codecs.base import Codec
    from dsrt_lightning.store.sources import Source

NAME = "build"
HELP = "make caches from tables, image folders or a source in Python"
DESCRIPTION = """Makes one cache for each SOURCE, in ROOT under the source's name. A SOURCE is

  FILE.parquet, FILE.csv, FILE.jsonl   a table, each row a record
  FOLDER                               a folder of images, each file a record: its encoded bytes,
                                       with metadata `label` (the folder that holds it) and `path`
  MODULE:NAME                          Python: a source, several, or a function or class that
                                       gives them when called; MODULE may lie in this folder

Of a table, payload columns become the sample: with codec arrays or pickle a dict of one array a
column, with codec bytes the one text or binary column itself. Metadata columns are what rules
select by. By default every column of numbers, booleans or lists of them is payload, and every
column of single values is metadata; a column may be both.

A cache that is there already, built from the same data, is kept as it is."""
EXAMPLE = "dsrt build examples.digits.build:Digits --root caches"

_SIZE = re.compile(r"(\d+)\s*([KMGT]i?B?|B)?", re.IGNORECASE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="what to cache, see above")
    parser.add_argument("--root", required=True, help="folder that the caches go into")
    parser.add_argument("--name", help="name of the cache (default: the file's or folder's); for one SOURCE")
    parser.add_argument(
        "--codec", help="arrays, bytes or pickle (default: arrays, or what a source in Python says); images are bytes"
    )
    columns = parser.add_argument_group("columns of a table")
    columns.add_argument("--payload", metavar="A,B", type=_columns, help="columns that become the sample")
    columns.add_argument("--metadata", metavar="A,B", type=_columns, help="columns that rules may select by")
    storage = parser.add_argument_group("storage")
    storage.add_argument("--compression", choices=("none", "zstd"), default="none", help="of each record")
    storage.add_argument("--level", type=int, default=3, help="of zstd (default: 3)")
    storage.add_argument(
        "--dictionary-bytes", type=_size, default=0, metavar="SIZE", help="train a zstd dictionary of this size"
    )
    storage.add_argument("--shard-bytes", type=_size, default=256 << 20, metavar="SIZE", help="default: 256MiB")
    storage.add_argument("--threads", type=int, default=2, help="that compress and checksum (default: 2)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Build all sources; one that fails does not stop the others."""
    from dsrt_lightning.store.build import build_caches
    from dsrt_lightning.store.manifest import Compression

    if args.name and len(args.sources) > 1:
        raise ConfigError(f"--name names one cache but there are {len(args.sources)} sources; leave it out")
    compression = (
        "none" if args.compression == "none" else Compression(level=args.level, dictionary_bytes=args.dictionary_bytes)
    )
    sources = [source for text in args.sources for source in open_sources(text, args)]
    first_with: dict[str, int] = {}
    for ordinal, source in enumerate(sources):
        if (first := first_with.setdefault(source.name, ordinal)) != ordinal:
            raise ConfigError(
                f"sources {first + 1} and {ordinal + 1} would both be the cache {source.name!r} of {args.root}; "
                "build one of them with --name, or into another --root"
            )
    failed = False
    for source in sources:
        for column in getattr(source, "left_out", ()):
            print(f"{source.name}: column {column!r} is left out, name it in --payload to keep it", file=sys.stderr)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "source .* was not built")  # `_report` tells
            (result,) = build_caches(
                source,
                args.root,
                codec=_codec_of(source, args.codec),
                metadata_schema=getattr(source, "metadata_schema", None),
                compression=compression,
                shard_bytes=args.shard_bytes,
                threads=args.threads,
                progress=not args.quiet,
            )
        failed |= not _report(os.path.join(args.root, result.name), result)
    return 1 if failed else 0


def open_sources(text: str, args: argparse.Namespace) -> Iterable[Source]:
    """Return the sources that one SOURCE argument means.

    Raises:
        ConfigError: It is none of the forms that exist, or an option does not go with its form.
    """
    from dsrt_lightning.store.image_folder import ImageFolderSource
    from dsrt_lightning.store.table import TABLE_SUFFIXES, TableSource

    path = Path(text)
    if path.is_dir():
        _refuse(text, "a folder of images", args, "codec", "payload", "metadata")
        return [ImageFolderSource(path, name=args.name)]
    if path.exists():
        codec = args.codec or "arrays"
        return [TableSource(path, name=args.name, codec=codec, payload=args.payload, metadata=args.metadata)]
    if re.fullmatch(r"[\w.]+:\w+", text):
        _refuse(text, "a source in Python", args, "name", "payload", "metadata")
        return _python_sources(*text.split(":"))
    raise ConfigError(
        f"{text}: there is no such file or folder; a SOURCE is a table ({' '.join(TABLE_SUFFIXES)}), "
        "a folder of images or MODULE:NAME"
    )


def _codec_of(source: Source, asked: str | None) -> str | Codec:
    """Return the codec that was asked for, with the source's own options where the source is made for it."""
    own = getattr(source, "codec", None)
    name = own if isinstance(own, str) else getattr(own, "name", None)
    return own if own is not None and asked in (None, name) else asked or "arrays"


def _refuse(text: str, form: str, args: argparse.Namespace, *options: str) -> None:
    for option in options:
        if getattr(args, option) is not None:
            raise ConfigError(f"{text}: is {form}, which --{option} does not go with; leave it out")


def _python_sources(module: str, name: str) -> list[Any]:
    # As `python -m` does: a console script does not look into the present folder by itself.
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{module}:{name}: cannot be imported: {error}") from error
    sources = found() if callable(found) else found
    return [sources] if hasattr(sources, "name") else list(sources)


def _report(path: str, result: BuildResult) -> bool:
    """Print what became of one source; False if it failed."""
    from dsrt_lightning.store.build import BuildFailed, CacheReused

    if isinstance(result, BuildFailed):
        print(f"dsrt build: {result.error}", file=sys.stderr)
        return False
    if isinstance(result, CacheReused):
        how = "" if result.is_compared else ", reused without comparing: no fingerprint"
        print(f"{path}: is there already, {result.num_records:,} records{how}")
    else:
        print(
            f"{path}: {result.num_records:,} records, {result.raw_bytes:,} bytes stored in "
            f"{result.stored_bytes:,}, {result.seconds:.1f} s"
        )
    return True


def _columns(text: str) -> list[str]:
    return [column.strip() for column in text.split(",") if column.strip()]


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 65536, 64KiB or 1GiB")
    unit = (match[2] or "B").upper()
    return int(match[1]) << {"B": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit[0]]
