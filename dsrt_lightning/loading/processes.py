"""Batches from DataLoader processes, for Python work that threads cannot share.

Workers hold no state: they get requests and return batches in shared memory. So their number may change between
runs, and a resume does not know of them.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, Dataset, Sampler

from dsrt_lightning.loading.delivery import ReadAhead

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrt_lightning.loading.requests import BatchRequest


class _Assembled(Dataset[Any]):
    """A dataset whose index is a request and whose item is its batch."""

    def __init__(self, assembler: Callable[[BatchRequest], Any]) -> None:
        self._assembler = assembler

    def __getitem__(self, request: Any) -> Any:
        return self._assembler(request)


class _Pending(Sampler[Any]):
    """Hands the DataLoader the requests of the iteration that is about to begin."""

    def __init__(self) -> None:
        self.requests: Iterator[BatchRequest] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return self.requests


def _as_is(batch: Any) -> Any:
    return batch


class ProcessDelivery:
    """Makes batches in ``workers`` processes that are started once and serve every pass."""

    def __init__(self, assembler: Callable[[BatchRequest], Any], workers: int, read_ahead: ReadAhead) -> None:
        # Forking a process with threads can hang it. A fork server has none, and loads torch once for all workers.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "dsrt_lightning.loading.processes"])
        self._pending = _Pending()
        self._loader = DataLoader(
            _Assembled(assembler),
            sampler=self._pending,
            batch_size=None,
            collate_fn=_as_is,
            num_workers=workers,
            prefetch_factor=max(1, -(-read_ahead.batches // workers)),
            persistent_workers=True,
            multiprocessing_context=context,
        )

    def __call__(self, requests: Iterator[BatchRequest]) -> Iterator[Any]:
        """Yield the batches of ``requests``."""
        self._pending.requests = requests
        return iter(self._loader)
