"""The progress bar of a build: a line a source with records/s and MB/s."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from dsrt_lightning._core import ShardWriter


class BuildProgress:
    """Shows what writers have taken, on stderr; prints nothing at all when it is off.

    The numbers are read from the writer by the bar's own thread, so the builder's loop does nothing for them.
    """

    def __init__(self, *, is_on: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), _Counts(), console=Console(stderr=True), disable=not is_on
        )

    def __enter__(self) -> BuildProgress:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        if not self._progress.disable:
            self._progress.console.print(Text(text), soft_wrap=True)

    @contextmanager
    def showing(self, name: str, writer: ShardWriter, num_records: int | None) -> Iterator[None]:
        """Within it, show the writer's counts, against ``num_records`` where the source knows how many it has."""
        task = self._progress.add_task(name, total=num_records, writer=writer)
        try:
            yield
        finally:
            done = writer.num_records
            self._progress.update(task, completed=done, total=num_records or done)
            self._progress.stop_task(task)


class _Counts(ProgressColumn):
    max_refresh = 0.1

    def render(self, task: Task) -> Text:
        writer: ShardWriter = task.fields["writer"]
        records, seconds = writer.num_records, task.elapsed or 1e-9
        if not task.finished:
            task.completed = records
        return Text(
            f"{records:,} records, {records / seconds:,.0f} records/s, {writer.raw_bytes / seconds / 1e6:,.1f} MB/s"
        )
