"""Batches from a worker process in shared memory that is used again: only slot numbers cross the pipe.

    worker:    batch --copy--> slot n ..... pipe: (worker, n, where each tensor lies) .....> views of slot n
    consumer:  drops the last view --> the slot's first byte says "free" --> the worker fills it again

A fresh shared tensor for each batch, torch's own way, costs a page fault for every 4 KiB on both sides. The memory is
shared with forked children too: one that goes on using a batch after its parent dropped it must copy it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The first byte of a slot. The worker sends free slots only; whoever drops the last view frees it.
FREE, SENT, HELD = 0, 1, 2
_ALIGNMENT = 64  # of every tensor; the first such piece holds the state


@dataclass(frozen=True, slots=True)
class _Place:
    """Stands in a message for a tensor that lies in the slot."""

    offset: int
    num_bytes: int
    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Filled:
    """A batch in a slot, as it crosses the pipe.

    Attributes:
        owner: Process id of the worker.
        number: Of the slot, in that worker.
        memory: uint8 tensor, the slot itself, which crosses as a descriptor until the consumer is known to have it.
        batch: The batch with places instead of tensors.
    """

    owner: int
    number: int
    memory: torch.Tensor | None
    batch: Any


class SlotWriter:
    """The worker's side: fills at most ``num_slots`` slots; what finds none free goes torch's own way."""

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._slots: list[torch.Tensor] = []
        self._is_known: list[bool] = []
        self._pass = 0

    def __call__(self, batch: Any, pass_: int) -> Any:
        """Return ``batch`` as `Filled`, or as it is if there is no slot for it.

        Args:
            pass_: Counts the consumer's iterations: slots sent in an earlier one and never taken are free again.
        """
        tensors: list[torch.Tensor] = []
        size = _ALIGNMENT

        def place(tensor: torch.Tensor) -> _Place:
            nonlocal size
            flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            placed = _Place(size, len(flat), tensor.dtype, tuple(tensor.shape))
            tensors.append(flat)
            size += len(flat) + -len(flat) % _ALIGNMENT
            return placed

        message = _replace(batch, lambda value: place(value) if _fits(value) else value)
        if not tensors or (number := self._free_slot(size, pass_)) is None:
            return batch
        slot = self._slots[number]
        slot[0] = SENT
        end = _ALIGNMENT
        for flat in tensors:
            slot[end : end + len(flat)] = flat
            end += len(flat) + -len(flat) % _ALIGNMENT
        return Filled(os.getpid(), number, None if self._is_known[number] else slot, message)

    def _free_slot(self, size: int, pass_: int) -> int | None:
        """Return the number of a free slot of at least ``size`` bytes, made larger or new where that is allowed."""
        states = [int(slot[0]) for slot in self._slots]
        for number, state in enumerate(states):
            if state != SENT:  # The consumer wrote it, so it has the slot.
                self._is_known[number] = True
            elif pass_ != self._pass:
                states[number] = FREE
        self._pass = pass_
        free = [number for number, state in enumerate(states) if state == FREE]
        for number in free:
            if len(self._slots[number]) >= size:
                return number
        if len(self._slots) < self._num_slots:
            self._slots.append(_new_slot(size))
            self._is_known.append(False)
            return len(self._slots) - 1
        if not free:
            return None
        self._slots[free[0]], self._is_known[free[0]] = _new_slot(size), False
        return free[0]


class SlotReader:
    """The consumer's side: keeps the slots of all workers mapped."""

    def __init__(self) -> None:
        self._slots: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(self, message: Any) -> Any:
        """Return the batch of a message; its tensors keep the slot, which is free when all are dropped."""
        if not isinstance(message, Filled):
            return message
        key = (message.owner, message.number)
        if message.memory is not None:
            self._slots[key] = message.memory
        slot = self._slots[key].numpy()
        slot[0] = HELD
        # Arrays made of a memoryview keep it, and it keeps `lease`, which nothing else refers to.
        lease = slot[:]
        weakref.finalize(lease, _release, slot, os.getpid()).atexit = False
        view = lease.data

        def tensor_at(place: _Place) -> torch.Tensor:
            array = np.frombuffer(view[place.offset : place.offset + place.num_bytes], np.uint8)
            return torch.from_numpy(array).view(place.dtype).reshape(place.shape)

        return _replace(message.batch, lambda value: tensor_at(value) if isinstance(value, _Place) else value)


def _release(slot: NDArray[np.uint8], holder: int) -> None:
    if os.getpid() == holder:  # A forked child drops its copies of the views, not ours.
        slot[0] = FREE


def _new_slot(size: int) -> torch.Tensor:
    slot = torch.zeros(size, dtype=torch.uint8)
    slot.share_memory_()  # type: ignore[no-untyped-call]
    return slot


def _fits(value: Any) -> bool:
    """Return whether the value's bytes are all there is to it."""
    return (
        type(value) is torch.Tensor
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not (value.is_quantized or value.is_conj() or value.is_neg())
        and not value.requires_grad
        and value.numel() > 0
    )


def _replace(batch: Any, replacement: Callable[[Any], Any]) -> Any:
    """Return ``batch`` with the leaves of its plain dicts, lists and tuples replaced."""
    if type(batch) is dict:
        return {name: _replace(value, replacement) for name, value in batch.items()}
    if type(batch) in (list, tuple):
        return type(batch)(_replace(value, replacement) for value in batch)
    return replacement(batch)
