"""From a request to a batch: natively for stored arrays, in Python for everything else.

Assemblers are picklable and hold no thread, so that a thread pool or a worker process can call them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dsrt_lightning._core import BatchGatherer, BatchReader, RawReader
from dsrt_lightning.errors import ConfigError, DecodeError
from dsrt_lightning.loading.collate import collate
from dsrt_lightning.loading.fields import FieldSelection
from dsrt_lightning.loading.randomness import sample_generator, wants_generator
from dsrt_lightning.loading.sample import Sample
from dsrt_lightning.loading.stats import Cost
from dsrt_lightning.store.codecs.nesting import nest

if TYPE_CHECKING:
    from pathlib import Path

    from dsrt_lightning._core import BufferPool, FieldBatch
    from dsrt_lightning.loading.delivery import ReadAhead
    from dsrt_lightning.loading.requests import BatchRequest
    from dsrt_lightning.loading.stats import Made
    from dsrt_lightning.loading.view import Records
    from dsrt_lightning.store.codecs.arrays_codec import ArrayField, ArraysCodec


# Lends memory for one batch: called with its bytes, returns uint8 ``[bytes]``, not to be touched after it was sent.
BatchMemory = Callable[[int], "np.ndarray"]


@dataclass(frozen=True)
class BatchTransform:
    """A user's callable on a finished batch; gets ``rng`` if it names it."""

    function: Callable[..., Any] | None

    def __call__(self, batch: Any, request: BatchRequest) -> Any:
        """Return the transformed batch."""
        if self.function is None:
            return batch
        try:
            if self._takes_rng:
                rng = sample_generator(request.seed, request.epoch, request.pass_, request.start)
                return self.function(batch, rng=rng)
            return self.function(batch)
        except Exception as error:
            _explain(error, self.function, f"a batch of epoch {request.epoch}, from position {request.start}")
            raise

    @cached_property
    def _takes_rng(self) -> bool:
        return self.function is not None and wants_generator(self.function)


@dataclass(frozen=True)
class SampleAssembler:
    """Makes batches sample by sample: decode, transform, collate, select.

    Args:
        records: Where the samples come from.
        transform: Called with a :class:`Sample`; what it returns is collated. None collates ``sample.data``.
        selection: What the user gets.
        batch_transform: Called with the batch.
    """

    records: Records
    transform: Callable[..., Any] | None
    selection: FieldSelection
    batch_transform: BatchTransform

    def __call__(self, request: BatchRequest, memory: BatchMemory | None = None) -> Made:
        """Return the batch of ``request``, in memory of its own, and what it took."""
        began = time.monotonic()
        stored = self.records.caches.shards.read_many(self.records.rows(request.positions))
        read_s = time.monotonic() - began
        batch = self.finish(stored, request)
        return batch, Cost.of(batch, request, began=began, read_s=read_s)

    def reader(self, ahead: ReadAhead, pool: BufferPool) -> RawReader:
        """Start native threads that read what :meth:`finish` takes."""
        caches = self.records.caches
        return RawReader(
            caches.shards,
            threads=ahead.threads,
            max_batches=ahead.batches,
            max_bytes=ahead.bytes,
            touch_ahead=not caches.codec.gives_views,
        )

    def finish(self, stored: Iterable[memoryview], request: BatchRequest) -> Any:
        """Return the batch of ``request``, whose records were read."""
        payload = collate(self._transformed(decode_samples(self.records, stored, request.positions), request))
        return self.batch_transform(self.selection.build(payload, request, self.records), request)

    def check(self, row: int) -> None:
        """Read the record of that number, and raise what a batch with it would raise."""
        self.records.caches.shards.read(row)

    def _transformed(self, samples: Iterable[Sample], request: BatchRequest) -> list[Any]:
        if self.transform is None:
            return [sample.data for sample in samples]
        transformed: list[Any] = []
        for sample in samples:  # not `enumerate`, which keeps the one before
            try:
                if self._takes_rng:
                    position = request.start + len(transformed)
                    rng = sample_generator(request.seed, request.epoch, request.pass_, position)
                    transformed.append(self.transform(sample, rng=rng))
                else:
                    transformed.append(self.transform(sample))
            except Exception as error:
                path = _path_of(self.records, sample.cache_id)
                _explain(error, self.transform, f"{path}: record {sample.sample_id}")
                raise
            del sample  # Its memory is for the next one.
        return transformed

    @cached_property
    def _takes_rng(self) -> bool:
        return self.transform is not None and wants_generator(self.transform)


def _explain(error: Exception, function: Callable[..., Any], where: str) -> None:
    """Note on an error which of the user's callables failed, and on what.

    Raises:
        RuntimeError: It is a StopIteration, which would end the pass as if it were over.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if isinstance(error, StopIteration):
        raise RuntimeError(f"{where}: {name} raised StopIteration, which would end the pass") from error
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(f"{where}: raised in {name}")


def _path_of(records: Records, cache_id: int) -> Path:
    return next(cache.path for cache in records.caches.caches if cache.cache_id == cache_id)


def read_samples(records: Records, positions: np.ndarray) -> Iterator[Sample]:
    """Yield the samples of population positions int64 ``[n]``, read together and decoded one by one.

    A sample that is dropped before the next is asked for leaves its memory to it: new pages cost more than a copy.
    """
    return decode_samples(records, records.caches.shards.read_many(records.rows(positions)), positions)


def decode_samples(records: Records, stored: Iterable[memoryview], positions: np.ndarray) -> Iterator[Sample]:
    """Yield the samples of population positions int64 ``[n]`` whose records were read.

    Raises:
        DecodeError: A record does not decode; names cache and record.
    """
    decode, population = records.caches.codec.decode, records.population
    cache_ids, sample_ids = (ids.tolist() for ids in records.ids(records.rows(positions)))
    cache_id = sample_id = 0
    try:
        for record, cache_id, sample_id, position in zip(
            stored, cache_ids, sample_ids, positions.tolist(), strict=True
        ):
            yield Sample(decode(record), cache_id, sample_id, population, position)
    except DecodeError as error:
        raise DecodeError(f"{_path_of(records, cache_id)}: record {sample_id}: {error}") from error


class ArrayFormat:
    """Turns what the native reader gathered into named tensors, without a copy.

    A fixed field becomes a tensor ``[rows, *shape]``. A ragged one is padded with zeros to the batch's longest, and
    its extents come with it as ``NAME_lengths``: int64 ``[rows]``, or ``[rows, ragged axes]`` where several axes are.
    """

    def __init__(self, fields: Sequence[ArrayField], selection: FieldSelection) -> None:
        names = [field.name for field in fields]
        lengths = {f"{field.name}_lengths": field.name for field in fields if None in field.shape}
        clashes = sorted(lengths.keys() & set(names))
        if clashes:
            ragged = lengths[clashes[0]]
            raise ConfigError(f"fields: {clashes[0]!r} is stored, and also the lengths of {ragged!r}; rename it")
        selection.check([*names, *lengths])
        wanted = {lengths.get(name, name) for name in selection.payload_fields([*names, *lengths])}
        self.ordinals = [i for i, name in enumerate(names) if name in wanted]
        self._fields = [fields[i] for i in self.ordinals]
        self._dtypes = [np.dtype(field.dtype) for field in self._fields]

    def payload(self, gathered: Sequence[FieldBatch]) -> dict[str, Any]:
        """Return the nested dict of tensors; they own the batch's memory together."""
        flat: dict[str, torch.Tensor] = {}
        for field, dtype, (data, extents, shape) in zip(self._fields, self._dtypes, gathered, strict=True):
            flat[field.name] = torch.from_numpy(data.view(dtype).reshape(len(data), *shape))
            if extents is not None:
                lengths = extents[:, 0] if extents.shape[1] == 1 else extents
                flat[f"{field.name}_lengths"] = torch.from_numpy(lengths)
        return nest(flat)


class ArrayAssembler:
    """Makes batches of stored arrays, gathered natively: on the calling thread, or read ahead by :meth:`reader`.

    What gathers on the calling thread is made at the first call and does not travel when the assembler is pickled.
    """

    def __init__(
        self, records: Records, codec: ArraysCodec, selection: FieldSelection, batch_transform: BatchTransform
    ) -> None:
        self.records = records
        self._codec = codec
        self._selection = selection
        self._batch_transform = batch_transform
        self._format = ArrayFormat(codec.fields, selection)
        self._gatherer: BatchGatherer | None = None

    def __call__(self, request: BatchRequest, memory: BatchMemory | None = None) -> Made:
        """Return the batch of ``request``, in ``memory`` unless a transform may keep it, and what it took."""
        began = time.monotonic()
        allocate = memory if memory is not None and self._batch_transform.function is None else _own_memory
        gathered = self._gather(self.records.rows(request.positions), allocate)
        read_s = time.monotonic() - began
        batch = self.finish(gathered, request)
        return batch, Cost.of(batch, request, began=began, read_s=read_s)

    def reader(self, ahead: ReadAhead, pool: BufferPool) -> BatchReader:
        """Start native threads that gather what :meth:`finish` takes, in memory from ``pool``."""
        return BatchReader(
            self.records.caches.shards,
            self._codec.layout(),
            self._format.ordinals,
            threads=ahead.threads,
            max_batches=ahead.batches,
            max_bytes=ahead.bytes,
            pool=pool,
        )

    def finish(self, gathered: Sequence[FieldBatch], request: BatchRequest) -> Any:
        """Return the batch of ``request``, whose fields were gathered."""
        batch = self._selection.build(self._format.payload(gathered), request, self.records)
        return self._batch_transform(batch, request)

    def check(self, row: int) -> None:
        """Read the record of that number, and raise what a batch with it would raise."""
        self._gather(np.array([row]), _own_memory)

    def _gather(self, rows: np.ndarray, allocate: BatchMemory) -> list[FieldBatch]:
        if self._gatherer is None:
            shards, layout = self.records.caches.shards, self._codec.layout()
            self._gatherer = BatchGatherer(shards, layout, self._format.ordinals)
        return self._gatherer.gather(rows, allocate)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_gatherer": None}


def _own_memory(num_bytes: int) -> np.ndarray:
    return torch.empty(num_bytes, dtype=torch.uint8).numpy()
