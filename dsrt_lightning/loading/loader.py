"""The loader: one stream of batches for plain torch loops, Lightning, and everything built on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsrt_lightning.draws.batch_plan import BatchPlan
from dsrt_lightning.draws.cursor import Cursor, State
from dsrt_lightning.loading.assemble import ArrayAssembler, BatchTransform, SampleAssembler
from dsrt_lightning.loading.delivery import Delivery, NativeDelivery, ReadAhead, ThreadDelivery
from dsrt_lightning.loading.device import DevicePrefetcher, checked_device
from dsrt_lightning.loading.fields import FieldSelection
from dsrt_lightning.loading.processes import ProcessDelivery, batches_per_message
from dsrt_lightning.loading.requests import requests_from
from dsrt_lightning.loading.stats import LoaderStats, Meter
from dsrt_lightning.loading.substitution import ON_CORRUPT, Assembler, OnCorrupt, SkippingAssembler, Substitution
from dsrt_lightning.loading.topology import check_topology, topology
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec

if TYPE_CHECKING:
    import torch

    from dsrt_lightning.loading.dataset import RTDataset


class RTLoader:
    """Iterates over batches of a dataset's draws, and resumes exactly.

    The batches are a function of the population, sampling, seed, epoch and position alone: threads, workers and
    read-ahead cannot change them, and at an equal global batch neither can the number of ranks. ``len(loader)`` is
    always that of a whole pass. Each further iteration of an epoch is its next pass; :meth:`set_epoch` begins
    another epoch. Reading starts at the first ``next()``, so state and epoch may be set in any order before.

    Args:
        dataset: What to draw from.
        batch_size: Rows of one rank's batch.
        fields: None gives a dict of tensors, a list of names a tuple, one name that field. ``cache_id``,
            ``sample_id``, ``weight`` and ``valid`` may be named too.
        transform: Called with each :class:`~dsrt_lightning.loading.sample.Sample`; what it returns is collated. A
            parameter named ``rng`` gets a NumPy generator that depends on seed, epoch, pass and position alone.
        batch_transform: Called with each batch.
        drop_last: Leave out draws that do not fill a global batch. If False, every draw is delivered once over all
            ranks; rows that pad the last batch are False in ``valid``.
        on_corrupt: ``raise`` the :class:`~dsrt_lightning.errors.CorruptCacheError` of a broken record at its batch, or
            ``skip`` it: a sound record of the population, of the same class under ``quota``, takes its place, the same
            on every rank and after every resume. Ids and weights are then those of the stand-in, and its ``valid`` is
            False. The logger ``dsrt_lightning`` warns once of each damaged file, :meth:`stats` counts.
        workers: 0 reads in threads. More are DataLoader processes, for transforms that hold the GIL; callables must
            then be picklable, and the script needs ``if __name__ == "__main__"``.
        threads: Threads that read or, where samples need Python, decode and transform. 0 decodes and transforms on the
            thread that asks for batches, while two others read and touch what comes next: for debuggers, and the
            fastest way where a transform holds the GIL and the consumer does nothing else. Threads that read sleep
            from pass to pass, and end with the loader.
        prefetch_batches: Batches made ahead of the consumer.
        prefetch_bytes: Bytes made ahead; one batch is always allowed.
        device: A CUDA device to deliver batches on, each copied while the one before it is used; None leaves them on
            the CPU.
        rank: This process's rank; None takes it from ``torch.distributed``.
        world_size: Number of ranks; None takes it from ``torch.distributed``.

    Raises:
        ConfigError: An unknown field, or the topology contradicts ``torch.distributed``.
        ValueError: A number is out of range, ``drop_last`` leaves no batch, or the device is of another kind.
        RuntimeError: A CUDA device is asked for where there is none.
    """

    def __init__(
        self,
        dataset: RTDataset,
        *,
        batch_size: int,
        fields: Sequence[str] | str | None = None,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[..., Any] | None = None,
        drop_last: bool = True,
        on_corrupt: OnCorrupt = "raise",
        workers: int = 0,
        threads: int = 2,
        prefetch_batches: int = 4,
        prefetch_bytes: int = 256 << 20,
        device: torch.device | str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if not hasattr(dataset, "view"):
            raise TypeError(f"dataset is a {type(dataset).__name__} but must be an RTDataset, as open_dataset gives it")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int):
            raise TypeError(f"batch_size is {batch_size!r} but must be an integer")
        for name, number in (("workers", workers), ("threads", threads)):
            if number < 0:
                raise ValueError(f"{name} is {number} but must be at least 0")
        if on_corrupt not in ON_CORRUPT:
            raise ValueError(f"on_corrupt is {on_corrupt!r}; choose {', '.join(ON_CORRUPT)}")
        self._dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._on_corrupt = on_corrupt
        self._rank, self._world_size = topology(rank, world_size)
        self._selection = FieldSelection.of(fields, mask=not drop_last)
        self._transform = transform
        self._batch_transform = BatchTransform(batch_transform)
        self._workers = workers
        self._threads = threads
        self._read_ahead = ReadAhead(max(threads, 1), prefetch_batches, prefetch_bytes)
        self._device = checked_device("cpu" if device is None else device)
        self._meter = Meter()
        self._iteration = 0
        self._bind()

    @property
    def sampler(self) -> Cursor:
        """The cursor; Lightning looks here for ``set_epoch``."""
        return self._cursor

    # Lightning asks every loader that has a sampler for it. It must not find ``dataset``: for ``overfit_batches`` it
    # rebuilds whatever has one as a DataLoader.
    batch_sampler = None

    def __len__(self) -> int:
        return len(self._cursor)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of ``epoch``; the present one stays where it is."""
        self._cursor.set_epoch(epoch)

    def stats(self) -> LoaderStats:
        """Return what was handed out since the loader was made, and what that took."""
        return self._meter.stats()

    def state_dict(self, *, in_flight: int = 0) -> State:
        """Return the state after the batches handed out, less the last ``in_flight`` of them."""
        return self._cursor.state_dict(in_flight=in_flight)

    def load_state_dict(self, state: Mapping[str, object], *, stay_at_end: bool = False) -> None:
        """Continue after the batches that ``state`` counts; a state at the end of a pass begins the next.

        Args:
            state: From :meth:`state_dict`.
            stay_at_end: Let the iteration of a pass that has ended be empty instead, for loops over several loaders.

        Raises:
            StateMismatchError: The state belongs to other draws.
        """
        self._rebind_if_population_changed()
        self._cursor.load_state_dict(state, stay_at_end=stay_at_end)

    def __iter__(self) -> Iterator[Any]:
        self._rebind_if_population_changed()
        self._cursor.rewind()
        self._iteration += 1
        return self._batches(self._iteration)

    def _batches(self, iteration: int) -> Iterator[Any]:
        check_topology(self._rank, self._world_size)
        cursor = self._cursor
        batches = self._meter(self._delivery(requests_from(self._stream, cursor)))
        for batch in _in_this_process(iter(DevicePrefetcher(batches, self._device))):
            if iteration != self._iteration:
                raise RuntimeError(
                    f"iteration {iteration} of this loader continued after iteration {self._iteration} began; "
                    "a loader has one position, make a second loader to iterate twice at once"
                )
            cursor.advance()
            yield batch
            del batch  # Its memory is the consumer's alone.

    def _rebind_if_population_changed(self) -> None:
        if self._view is not self._dataset.view:
            epoch, pass_ = self._cursor.epoch, self._cursor.pass_
            self._bind()
            self._cursor.epoch, self._cursor.pass_ = epoch, pass_

    def _bind(self) -> None:
        """Take the dataset's present population and build what depends on it."""
        view = self._dataset.view
        global_batch = self.batch_size * self._world_size
        stream = view.stream(global_batch)
        plan = BatchPlan(stream.epoch_length, self.batch_size, self._rank, self._world_size, self.drop_last)
        self._view = view
        self._stream = stream
        self._cursor = Cursor(view.identity(global_batch), plan)
        self._delivery = self._make_delivery()

    def _make_delivery(self) -> Delivery:
        records = self._view.records
        codec = records.caches.codec
        if self._transform is None and isinstance(codec, ArraysCodec):
            arrays = ArrayAssembler(records, codec, self._selection, self._batch_transform)
            skipping = self._skipping(arrays)
            if self._workers == 0:
                return NativeDelivery(arrays, self._read_ahead, skipping)
            record_bytes = max(cache.manifest.max_record_bytes for cache in records.caches.caches)
            at_once = (
                batches_per_message(self.batch_size * record_bytes) if self._batch_transform.function is None else 1
            )
            return ProcessDelivery(skipping or arrays, self._workers, self._read_ahead, at_once)
        samples = SampleAssembler(records, self._transform, self._selection, self._batch_transform)
        skipping = self._skipping(samples)
        if self._workers == 0 and self._threads == 0:
            return NativeDelivery(samples, self._read_ahead, skipping)
        if self._workers == 0:
            return ThreadDelivery(skipping or samples, self._read_ahead)
        return ProcessDelivery(skipping or samples, self._workers, self._read_ahead)

    def _skipping(self, assembler: Assembler) -> SkippingAssembler | None:
        if self._on_corrupt == "raise":
            return None
        return SkippingAssembler(assembler, Substitution(self._view))


def _in_this_process(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield what ``batches`` yields, but never wait for threads or workers that a forked process does not have.

    Raises:
        RuntimeError: The process was forked since the first batch.
    """
    owner = os.getpid()
    while True:
        if os.getpid() != owner:
            raise RuntimeError(
                "this iteration began before a fork, which its threads did not survive; iterate anew in the new "
                "process, or start processes with spawn or forkserver"
            )
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch
        del batch
