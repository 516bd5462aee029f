"""``dsrt inspect``: show what a cache holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dsrt_lightning.cli.output import print_table

if TYPE_CHECKING:
    from dsrt_lightning.store.manifest import Manifest

NAME = "inspect"
HELP = "show what a cache holds"
DESCRIPTION = "Shows a cache's manifest and the first rows of its metadata. Reads no payload."
EXAMPLE = "dsrt inspect caches/digits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("cache", metavar="CACHE", help="folder of a cache")
    parser.add_argument("--rows", type=int, default=5, help="rows of metadata to show (default: 5)")


def run(args: argparse.Namespace) -> int:
    """Print the manifest's facts, then a table."""
    from dsrt_lightning.population.metadata import scan_metadata
    from dsrt_lightning.store.cache_set import open_caches

    caches = open_caches([args.cache], allow_pickle=True)
    for name, value in describe(caches.caches[0].manifest).items():
        print(f"{name:<14}{value}")
    if args.rows > 0:
        head = scan_metadata(caches).head(args.rows).collect()
        print_table(f"first {len(head)} rows of metadata", head.columns, head.rows())
    return 0


def describe(manifest: Manifest) -> dict[str, str]:
    """Return what a person wants to know of a manifest, in the order of interest."""
    shards = manifest.shards
    fields = manifest.codec.schema.get("fields")
    listed = ", ".join(map(_field, fields)) if isinstance(fields, list) else ""
    return {
        "name": manifest.name,
        "records": f"{manifest.num_records:,}",
        "codec": f"{manifest.codec.name}{': ' if listed else ''}{listed}",
        "metadata": ", ".join(f"{column.name} {column.dtype}" for column in manifest.metadata_columns),
        "compression": str(manifest.compression),
        "payload": f"{sum(shard.bytes for shard in shards):,} bytes in {len(shards)} shard{'s'[: len(shards) > 1]}; "
        f"the largest record has {manifest.max_record_bytes:,} bytes uncompressed",
        "cache_id": str(manifest.cache_id),
        "identity": manifest.identity,
        "fingerprint": manifest.fingerprint or "none",
    }


def _field(field: Any) -> str:
    shape = ["ragged" if extent is None else str(extent) for extent in field["shape"]]
    return f"{field['name']} {field['dtype']}" + (f" [{', '.join(shape)}]" if shape else "")
