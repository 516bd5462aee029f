"""``dsrt verify``: read everything and name what is broken."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

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
    from rich.console import Console
    from rich.progress import Progress

    from dsrt_lightning.store.verify import verify_cache

    is_broken = False
    with Progress(console=Console(stderr=True), transient=True, disable=args.quiet) as progress:
        for path in args.caches:
            problems = list(verify_cache(path, _bar(progress, path)))
            is_broken |= bool(problems)
            print("\n".join(problems) or f"{path}: complete and intact")
    return 1 if is_broken else 0


def _bar(progress: Progress, path: str) -> Callable[[str, int, int], None]:
    task = progress.add_task(path)
    return lambda unit, done, total: progress.update(task, description=f"{path}: {unit}", completed=done, total=total)
