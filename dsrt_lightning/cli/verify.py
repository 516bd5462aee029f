"""``dsrt verify``: read everything and name what is broken."""

from __future__ import annotations

import argparse

from dsrt_lightning.cli.output import progress_bar

NAME = "verify"
HELP = "read caches completely and name what is broken"
DESCRIPTION = """Reads every file of each cache and compares it with its checksum, and every record with its
own. Prints a line for each thing that is broken; the exit code is then 1."""
EXAMPLE = "dsrt verify caches/digits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("caches", nargs="+", metavar="CACHE", help="folder of a cache")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Check all caches; 1 if one is broken."""
    from dsrt_lightning.store.verify import verify_cache

    is_broken = False
    with progress_bar(args.quiet) as bar:
        for path in args.caches:
            problems = list(verify_cache(path, bar(path)))
            is_broken |= bool(problems)
            print("\n".join(problems) or f"{path}: complete and intact")
    return 1 if is_broken else 0
