"""Batches from DataLoader processes, for Python work that threads cannot share.

Workers hold no state: they get requests and return batches in shared memory. So their number may change between
runs, and a resume does not know of them.
"""

from __future__ import annotations

import itertools
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
from dsrt_lightning.loading.shared_slots import SlotReader, SlotWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrt_lightning.loading.requests import BatchRequest


# Batches that the consumer may hold, besides those ahead, before they cost new memory.
_HELD_BATCHES = 3


class _Assembled(Dataset[Any]):
    """A dataset whose index is a request, with the number of its pass, and whose item is its batch in a slot."""

    def __init__(self, assembler: Callable[[BatchRequest], Any], num_slots: int) -> None:
        self._assembler = assembler
        self._write = SlotWriter(num_slots)

    def __getitem__(self, index: Any) -> Any:
        pass_, request = index
        return self._write(self._assembler(request), pass_)


class _Pending(Sampler[Any]):
    """Hands the DataLoader the requests of the iteration that is about to begin."""

    def __init__(self) -> None:
        self._pass = 0
        self._requests: Iterator[BatchRequest] = iter(())

    def begin(self, requests: Iterator[BatchRequest]) -> None:
        self._pass += 1
        self._requests = requests

    def __iter__(self) -> Iterator[Any]:
        return zip(itertools.repeat(self._pass), self._requests)


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
        self._read = SlotReader()
        prefetch_factor = max(1, -(-read_ahead.batches // workers))
        self._new_loader: Callable[[], DataLoader[Any]] = partial(
            DataLoader,
            _Assembled(assembler, prefetch_factor + _HELD_BATCHES),
            sampler=self._pending,
            batch_size=None,
            collate_fn=_as_is,
            num_workers=workers,
            prefetch_factor=prefetch_factor,
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
        self._pending.begin(requests)
        try:
            for message in self._loader:
                yield self._read(message)
        except (ConnectionError, EOFError) as error:  # It died while it handed over a batch.
            self._start_anew()
            raise RuntimeError(
                "a worker process of the loader died; look for what killed it, as the system does when memory is short"
            ) from error
        except RuntimeError:  # DataLoader's own word for it, among others.
            self._start_anew()
            raise

    def _start_anew(self) -> None:
        self._loader = self._new_loader()
        self._read = SlotReader()
