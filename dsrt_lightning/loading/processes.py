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
import pickle
import shutil
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, cast

from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from dsrt_lightning.loading.delivery import ReadAhead
from dsrt_lightning.loading.shared_slots import SlotReader, SlotWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrt_lightning.loading.assemble import BatchMemory
    from dsrt_lightning.loading.requests import BatchRequest

    Assembler = Callable[[BatchRequest, BatchMemory], Any]


# Batches that the consumer may hold, besides those ahead, before they cost new memory.
_HELD_BATCHES = 3

# A message between processes costs about as much as gathering this much. Small batches share one.
_MESSAGE_BYTES = 1 << 20
_MAX_MESSAGE_BATCHES = 8


def batches_per_message(batch_bytes: int) -> int:
    """Return how many batches of so many bytes cross together, where making one takes no Python."""
    return min(_MAX_MESSAGE_BATCHES, max(1, _MESSAGE_BYTES // max(1, batch_bytes)))


class _Assembled(Dataset[Any]):
    """A dataset whose index is the number of a pass with some requests, and whose item is their batches in slots."""

    def __init__(self, assembler: Assembler, num_slots: int) -> None:
        self._assembler: Assembler | None = assembler
        self._packed = b""
        self._slots = SlotWriter(num_slots)

    def __getstate__(self) -> dict[str, Any]:
        # Unpacked at the first batch, so that what fails then, as a cache that was removed, is its error: a worker
        # that fails before that dies without a word to the consumer.
        packed = bytes(ForkingPickler.dumps(self._assembler))
        return {**self.__dict__, "_assembler": None, "_packed": packed}

    def __getitem__(self, index: Any) -> Any:
        pass_, requests = index
        messages: list[Any] = []
        for request in requests:
            try:
                self._slots.begin(pass_)
                if self._assembler is None:
                    self._assembler = cast("Assembler", pickle.loads(self._packed))
                messages.append(self._slots.send(self._assembler(request, self._slots.lend)))
            except Exception:  # It surfaces where its batch would have, after those before it.
                worker = get_worker_info()
                where = f"in DataLoader worker process {worker.id}" if worker else "in this process"
                return [*messages, ExceptionWrapper(where=where)]  # type: ignore[no-untyped-call]
        return messages


class _Pending(Sampler[Any]):
    """Hands the DataLoader the requests of the iteration that is about to begin, ``at_once`` in a message."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._pass = 0
        self._requests: Iterator[BatchRequest] = iter(())

    def begin(self, requests: Iterator[BatchRequest]) -> None:
        self._pass += 1
        self._requests = requests

    def __iter__(self) -> Iterator[Any]:
        pass_, requests = self._pass, self._requests
        while together := list(itertools.islice(requests, self._at_once)):
            yield pass_, together


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


def _stop_workers(loader: DataLoader[Any], owner: int) -> None:
    """Tell the workers to end, and wait for them.

    Left to the garbage collector, as after an error whose traceback is part of a cycle, the queues may be taken apart
    first: then nobody tells the workers, and DataLoader waits five seconds for each.
    """
    if os.getpid() == owner and loader._iterator is not None:
        loader._iterator._shutdown_workers()  # type: ignore[attr-defined]


class ProcessDelivery:
    """Makes batches in ``workers`` processes that are started once and serve every pass.

    Args:
        assembler: Called in the workers with a request and with what lends memory for its batch.
        workers: ``>= 1``.
        read_ahead: Of batches; at least one message a worker is ahead.
        at_once: Batches in a message, ``>= 1``.
    """

    def __init__(self, assembler: Assembler, workers: int, read_ahead: ReadAhead, at_once: int = 1) -> None:
        # Forking a process with threads can hang it. A fork server has none, and loads torch once for all workers.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "dsrt_lightning.loading.processes"])
        # Made before the workers, it holds their sockets too, and is removed even if one of them is killed.
        multiprocessing.util.get_temp_dir()
        self._pending = _Pending(at_once)
        self._read = SlotReader()
        prefetch_factor = max(1, -(-read_ahead.batches // workers))
        self._new_loader: Callable[[], DataLoader[Any]] = partial(
            DataLoader,
            _Assembled(assembler, at_once * (prefetch_factor + 1) + _HELD_BATCHES),
            sampler=self._pending,
            batch_size=None,
            collate_fn=_as_is,
            num_workers=workers,
            prefetch_factor=prefetch_factor,
            worker_init_fn=_end_with_owner,
            persistent_workers=True,
            multiprocessing_context=context,
        )
        self._start()

    def __call__(self, requests: Iterator[BatchRequest]) -> Iterator[Any]:
        """Yield the batches of ``requests``.

        Raises:
            RuntimeError: A worker died. The next call starts new ones.
        """
        self._pending.begin(requests)
        try:
            for messages in self._loader:
                for message in messages:
                    if isinstance(message, ExceptionWrapper):
                        message.reraise()  # type: ignore[no-untyped-call]
                    yield self._read(message)
        except (ConnectionError, EOFError) as error:  # It died while it handed over a batch.
            self._start_anew()
            raise RuntimeError(
                "a worker process of the loader died; look for what killed it, as the system does when memory is short"
            ) from error
        except RuntimeError:  # DataLoader's own word for it, among others.
            self._start_anew()
            raise

    def _start(self) -> None:
        self._loader = self._new_loader()
        self._stop = weakref.finalize(self, _stop_workers, self._loader, os.getpid())

    def _start_anew(self) -> None:
        self._stop()
        self._start()
        self._read = SlotReader()
