"""``dsrt repair``: replace the broken files of a cache by those of a copy."""

from __future__ import annotations

import argparse

from dsrt_lightning.cli.output import progress_bar

NAME = "repair"
HELP = "replace the broken files of a cache by those of a copy"
DESCRIPTION = """Verifies CACHE as `dsrt verify` does, and replaces exactly what is broken by the files of MIRROR, a
copy of the same cache that may itself be broken elsewhere. Each file is copied beside the broken one, compared with
the manifest, and only then takes its place; programs that read the cache meanwhile keep what they have opened. A
manifest that is missing or broken is replaced if all other files are as the mirror's says; else copy the mirror as a
whole. Prints what was replaced, and what is still broken; the exit code is then 1."""
EXAMPLE = "dsrt repair caches/digits --from backup/digits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("cache", metavar="CACHE", help="folder of the cache to repair")
    parser.add_argument("--from", required=True, metavar="MIRROR", dest="mirror", help="folder of a copy of it")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Repair one cache; 1 if it is still broken."""
    from dsrt_lightning.store.repair import repair_cache

    with progress_bar(args.quiet) as bar:
        repair = repair_cache(args.cache, args.mirror, bar(args.cache))
    for name in repair.replaced:
        print(f"{args.cache}/{name}: replaced")
    if repair.problems:
        print("\n".join(repair.problems))
    else:
        print(f"{args.cache}: {'complete and intact' if repair.replaced else 'nothing to repair'}")
    return 1 if repair.problems else 0
