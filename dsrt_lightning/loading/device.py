"""Batches on a CUDA device, copied one ahead on a stream of their own.

    loader:      | batch 1 |   | batch 2 |
    side stream:      | copy 1 |    | copy 2 |
    the model:   | batch 0 ....... | batch 1 ....... |

Only a copy from pinned memory runs beside the model, so what is not pinned is copied into pinned memory first, on the
consumer's thread. Torch keeps that memory for the next batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import torch


class DevicePrefetcher:
    """Iterates over batches on a device, each copied while the one before it is used.

    Tensors on the CPU are copied, in dicts, lists and tuples at any depth; everything else stays as it is. Order and
    values never change. An error of ``batches`` is raised where the missing batch would have come. For the CPU the
    batches pass through, and none is taken ahead. :class:`~dsrt_lightning.loading.loader.RTLoader` does this itself
    when it is given a ``device``; this is for batches that come from elsewhere.

    Args:
        batches: Iterated anew by each ``iter()``.
        device: ``cpu`` or a CUDA device.

    Attributes:
        in_flight: Batches taken from ``batches`` and not yet delivered, 0 or 1: what a state must leave out.

    Raises:
        ValueError: The device is of another kind.
        RuntimeError: There is no CUDA.
    """

    def __init__(self, batches: Iterable[Any], device: torch.device | str | int) -> None:
        self.device = checked_device(device)
        self.in_flight = 0
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        if self.device.type == "cpu":
            return iter(self._batches)
        return one_ahead(self._counted(), CudaCopies(self.device), self._delivered)

    def _counted(self) -> Iterator[Any]:
        self.in_flight = 0
        for batch in self._batches:
            self.in_flight += 1
            yield batch

    def _delivered(self) -> None:
        self.in_flight -= 1


def checked_device(device: torch.device | str | int) -> torch.device:
    """Return a device that batches can be delivered on.

    Raises:
        ValueError: It is neither the CPU nor a CUDA device.
        RuntimeError: There is no CUDA.
    """
    checked = torch.device(device)
    if checked.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {str(checked)!r} but batches are delivered on 'cpu' or 'cuda'; copy them yourself")
    if checked.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"device is {str(checked)!r} but torch.cuda.is_available() is False")
    return checked


class Copies(Protocol):
    """Begins copies of batches and hands them over when they are wanted."""

    def start(self, batch: Any) -> Any:
        """Begin to copy ``batch``; return what :meth:`finish` takes."""

    def finish(self, started: Any) -> Any:
        """Return the copy, usable by what the caller does from now on."""

    def close(self) -> None:
        """Wait until no copy reads host memory any more."""


def one_ahead(batches: Iterator[Any], copies: Copies, delivered: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """Yield the copies of ``batches``, the next one begun before one is handed out.

    Args:
        batches: Nothing is taken from it before the first ``next()``.
        copies: Closed at the end, also of an iteration that is given up.
        delivered: Called as a batch is handed out.
    """
    with closing(copies):
        waiting: deque[Any] = deque()
        error: Exception | None = None
        is_more = True
        while True:
            while is_more and len(waiting) < 2:
                try:
                    waiting.append(copies.start(next(batches)))
                except StopIteration:
                    is_more = False
                except Exception as raised:  # Its batch's turn has not come.
                    is_more, error = False, raised
            if not waiting:
                break
            batch = copies.finish(waiting.popleft())
            delivered()
            yield batch
            del batch  # Its memory is the consumer's alone.
        if error is not None:
            raise error


@dataclass(frozen=True)
class _Started:
    """A batch on its way: ``copied`` is recorded behind its copies on the side stream."""

    batch: Any
    copied: torch.cuda.Event


class CudaCopies:
    """Copies on a side stream of ``device``.

    A pinned source is kept until its copies are done, whoever allocated it. A copy's memory belongs to the side stream;
    ``record_stream`` keeps it from being used again there before the consumer's stream has got past it.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._device = self._stream.device
        self._sources: deque[tuple[torch.cuda.Event, Any]] = deque()

    def start(self, batch: Any) -> _Started:
        """Pin what is not pinned, and queue the copies of ``batch``."""
        while self._sources and self._sources[0][0].query():  # type: ignore[no-untyped-call]
            self._sources.popleft()
        source = map_tensors(batch, pinned)
        with torch.cuda.stream(self._stream):
            copy = map_tensors(source, self._copy)
            copied = self._stream.record_event()
        self._sources.append((copied, source))
        return _Started(copy, copied)

    def finish(self, started: _Started) -> Any:
        """Let the consumer's current stream wait for the copies, without waiting here."""
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(started.copied)
        return map_tensors(started.batch, lambda tensor: _used_on(consumer, tensor))

    def close(self) -> None:
        """Wait for the copies that are queued, and let go of their sources."""
        while self._sources:
            self._sources.popleft()[0].synchronize()

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._device, non_blocking=True) if tensor.device.type == "cpu" else tensor


def map_tensors(batch: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return ``batch`` with every tensor in its dicts, lists and tuples (named ones too) replaced."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if type(batch) is dict:
        return {key: map_tensors(value, function) for key, value in batch.items()}
    if type(batch) in (list, tuple):
        return type(batch)(map_tensors(value, function) for value in batch)
    if isinstance(batch, tuple) and hasattr(batch, "_make"):
        return batch._make(map_tensors(value, function) for value in batch)
    return batch


def pinned(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` in pinned memory; itself where it is already, or where it cannot be."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_pinned():
        return tensor
    return tensor.pin_memory()


def _used_on(stream: torch.cuda.Stream, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cpu":
        tensor.record_stream(stream)
    return tensor
