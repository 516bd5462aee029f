"""Tables and progress bars on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager


class Percent(float):
    """A share of one that is shown in percent."""


# Where there is no terminal to fit, nothing is cut off.
_WIDTH_OF_PIPES = 1000


@contextmanager
def progress_bar(is_quiet: bool) -> Iterator[Callable[[str], Callable[[str, int, int], None]]]:
    """Show bars on stderr within it; gives what begins one for a path and returns what is told of its progress."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=is_quiet) as progress:

        def begin(path: str) -> Callable[[str, int, int], None]:
            task = progress.add_task(path)
            return lambda unit, done, total: progress.update(
                task, description=f"{path}: {unit}", completed=done, total=total
            )

        yield begin


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a titled table to stdout; columns of numbers stand on the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    table = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for index, name in enumerate(header):
        numeric = listed and all(isinstance(row[index], int | float) for row in listed)
        table.add_column(Text(name), justify="right" if numeric else "left")
    for row in listed:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_PIPES).print(table)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, Percent):
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
