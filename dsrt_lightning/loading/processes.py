"""Batches from DataLoader processes, for Python work that threads cannot share.

Workers hold no state: they get requests and return batches in shared memory. So their number may change between
runs, and a resume does not know of them.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import multiprocessing.util
import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
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


def _end_with_owner(_: int) -> None:
    """Let this worker end as soon as the process that it reads for is gone, also when that was killed.

    DataLoader's workers watch their parent. Here that is the fork server, which lives until its last worker has ended.
    """
    owner = multiprocessing.parent_process()
    assert owner is not None
    threading.Thread(target=_wait_and_end, args=(owner,), daemon=True).start()


def _wait_and_end(owner: multiprocessing.process.BaseProcess) -> None:
    multiprocessing.connection.wait([owner.sentinel])
    # The owner's folder for sockets, which it may have had no time to remove.
    shutil.rmtree(multiprocessing.util.get_temp_dir(), ignore_errors=True)
    os._exit(1)


class ProcessDelivery:
    """Makes batches in ``workers`` processes that are started once and serve every pass."""

    def __init__(self, assembler: Callable[[BatchRequest], Any], workers: int, read_ahead: ReadAhead) -> None:
        # Forking a process with threads can hang it. A fork server has none, and loads torch once for all workers.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "dsrt_lightning.loading.processes"])
        # Made before the workers, it holds their sockets too, and is removed even if one of them is killed.
        multiprocessing.util.get_temp_dir()
        self._pending = _Pending()
        self._new_loader: Callable[[], DataLoader[Any]] = partial(
            DataLoader,
            _Assembled(assembler),
            sampler=self._pending,
            batch_size=None,
            collate_fn=_as_is,
            num_workers=workers,
            prefetch_factor=max(1, -(-read_ahead.batches // workers)),
            worker_init_fn=_end_with_owner,
            persistent_workers=True,
            multiprocessing_context=context,
        )
        self._loader = self._new_loader()

    def __call__(self, requests: Iterator[BatchRequest]) -> Iterator[Any]:
        """Yield the batches of ``requests``.

        Raises:
            RuntimeError: A worker died. The next call starts new ones.
        """
        self._pending.requests = requests
        try:
            yield from self._loader
        except (ConnectionError, EOFError) as error:  # It died while it handed over a batch.
            self._loader = self._new_loader()
            raise RuntimeError(
                "a worker process of the loader died; look for what killed it, as the system does when memory is short"
            ) from error
        except RuntimeError:  # DataLoader's own word for it, among others.
            self._loader = self._new_loader()
            raise
