"""What a library offers to be compared: it writes records, and gives them back by row or in an order of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Read = Callable[[list[int]], Sequence[Any]]


def _torch_loader(*arguments: Any, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(*arguments, **options)


@dataclass(frozen=True)
class Peer:
    """One way to use one library; modules import it inside their functions, so that others need not have it.

    Attributes:
        write: Stores records, bytes each, in a folder.
        rows: Opens the folder and returns what reads rows, as buffers; None if it cannot.
        stream: Returns a dataset that yields samples of the folder in its own shuffled order, for batches of a size.
        payload: The record's bytes in a sample of ``stream``.
        loader: Makes the loader of ``stream``, as torch's DataLoader does.
        environment: Which of the interpreters has the library.
    """

    write: Callable[[Path, Iterable[bytes]], object]
    rows: Callable[[Path], Read] | None = None
    stream: Callable[[Path, int], Any] | None = None
    payload: Callable[[Any], Any] = bytes
    loader: Callable[..., Any] = _torch_loader
    environment: str = "peers"


class Rows:
    """Reads rows in whatever process uses it first: pickled, it is closed."""

    def __init__(self, open_rows: Callable[[Path], Read], store: Path) -> None:
        self._open = open_rows
        self._store = store
        self._read: Read | None = None

    def __call__(self, rows: list[int]) -> Sequence[Any]:
        """Return the records of ``rows``."""
        if self._read is None:
            self._read = self._open(self._store)
        return self._read(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self._open, self._store)
