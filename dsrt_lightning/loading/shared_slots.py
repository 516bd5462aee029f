"""Batches from a worker process in shared memory that is used again: only slot numbers cross the pipe.

    worker:    gathers batch into slot n, or copies it .. pipe: (worker, n, where each tensor lies) ..> views of slot n
    consumer:  drops the last view --> the slot's first byte says "free" --> the worker fills it again

A fresh shared tensor for each batch, torch's own way, costs a page fault for every 4 KiB on both sides. The memory is
shared with forked children too: one that goes on using a batch after its parent dropped it must copy it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The first byte of a slot. The worker sends free slots only; whoever drops the last view frees it.
FREE, SENT, HELD = 0, 1, 2
_ALIGNMENT = 64  # of every tensor; the first such piece holds the state
_SPARE_BYTES = 64 << 10  # beside memory that is lent, for ids and weights


@dataclass(frozen=True, slots=True)
class _Place:
    """Stands in a message for a tensor that lies in the slot."""

    offset: int
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


@dataclass(slots=True)
class _Slot:
    """A slot on the worker's side.

    Attributes:
        tensor: The slot as it crosses the pipe.
        memory: The same as an array, whose items are read faster.
        is_known: Whether the consumer has it.
    """

    tensor: torch.Tensor
    memory: NDArray[np.uint8]
    is_known: bool = False

    @classmethod
    def new(cls, size: int) -> _Slot:
        """Make one of ``size`` bytes."""
        tensor = torch.zeros(size, dtype=torch.uint8)
        tensor.share_memory_()  # type: ignore[no-untyped-call]
        return cls(tensor, tensor.numpy())


class SlotWriter:
    """The worker's side: fills at most ``num_slots`` slots; what finds none free goes torch's own way."""

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._slots: list[_Slot] = []
        self._pass = 0
        self._lent: _Lent | None = None

    def begin(self, pass_: int) -> None:
        """Begin a batch; memory lent for one that was not sent is free.

        Args:
            pass_: Counts the consumer's iterations: slots sent in an earlier one and never taken are free again.
        """
        self._lent = None
        for slot in self._slots:
            if slot.memory[0] != SENT:  # The consumer wrote it, so it has the slot.
                slot.is_known = True
            elif pass_ != self._pass:
                slot.memory[0] = FREE
        self._pass = pass_

    def lend(self, num_bytes: int) -> NDArray[np.uint8]:
        """Return memory for the batch that was begun, uint8 ``[num_bytes]``, aligned to 64 bytes, to be filled once.

        What of it the batch still has when it is sent need not be copied. After that it must not be touched.
        """
        number = self._free_slot(_ALIGNMENT + num_bytes + max(_SPARE_BYTES, num_bytes // 8))
        if number is None:
            return torch.empty(num_bytes, dtype=torch.uint8).numpy()
        memory = self._slots[number].memory
        self._lent = _Lent(number, memory.ctypes.data, _ALIGNMENT + _padded(num_bytes))
        return memory[_ALIGNMENT : _ALIGNMENT + num_bytes]

    def send(self, batch: Any) -> Any:
        """Return ``batch`` as `Filled`, or as it is if there is no slot for it."""
        tensors: list[torch.Tensor] = []
        _replace(batch, lambda value: tensors.append(value) if _fits(value) else None)
        lent = self._lent
        if lent is None or not any(lent.holds(tensor) for tensor in tensors):
            size = _ALIGNMENT + sum(_padded(tensor.numel() * tensor.element_size()) for tensor in tensors)
            if not tensors or (number := self._free_slot(size)) is None:
                return batch
            lent = _Lent(number, self._slots[number].memory.ctypes.data, _ALIGNMENT)
        slot = self._slots[lent.number]
        slot.memory[0] = SENT
        message = _replace(batch, lambda value: _placed(value, lent, slot.memory) if _fits(value) else value)
        return Filled(os.getpid(), lent.number, None if slot.is_known else slot.tensor, message)

    def _free_slot(self, size: int) -> int | None:
        """Return the number of a free slot of at least ``size`` bytes, made larger or new where that is allowed."""
        free = [number for number, slot in enumerate(self._slots) if slot.memory[0] == FREE]
        for number in free:
            if len(self._slots[number].memory) >= size:
                return number
        if len(self._slots) < self._num_slots:
            self._slots.append(_Slot.new(size))
            return len(self._slots) - 1
        if not free:
            return None
        self._slots[free[0]] = _Slot.new(size)
        return free[0]


@dataclass(slots=True)
class _Lent:
    """The slot that the present batch lies in; ``end`` bytes of it are taken."""

    number: int
    address: int
    end: int

    def holds(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor's bytes lie in the slot, one after the other."""
        return 0 <= tensor.data_ptr() - self.address < self.end and tensor.is_contiguous()


def _placed(tensor: torch.Tensor, lent: _Lent, slot: NDArray[np.uint8]) -> Any:
    """Return where the tensor lies in the slot, copied there if need be, or the tensor itself if there is no room."""
    num_bytes = tensor.numel() * tensor.element_size()
    offset = tensor.data_ptr() - lent.address
    if not lent.holds(tensor):
        offset = lent.end
        if offset + num_bytes > len(slot):
            return tensor
        slot[offset : offset + num_bytes] = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        lent.end += _padded(num_bytes)
    return _Place(offset, tensor.dtype, tuple(tensor.shape))


def _padded(num_bytes: int) -> int:
    return num_bytes + -num_bytes % _ALIGNMENT


class SlotReader:
    """The consumer's side: keeps the slots of all workers mapped."""

    def __init__(self) -> None:
        self._slots: dict[tuple[int, int], NDArray[np.uint8]] = {}

    def __call__(self, message: Any) -> Any:
        """Return the batch of a message; its tensors keep the slot, which is free when all are dropped."""
        if not isinstance(message, Filled):
            return message
        key = (message.owner, message.number)
        if message.memory is not None:
            self._slots[key] = message.memory.numpy()
        slot = self._slots[key]
        slot[0] = HELD
        # Tensors made of a memoryview keep it, and it keeps `lease`, which nothing else refers to.
        lease = slot[:]
        weakref.finalize(lease, _release, slot, os.getpid()).atexit = False
        view = lease.data

        def tensor_at(place: _Place) -> torch.Tensor:
            flat = torch.frombuffer(view, dtype=place.dtype, count=prod(place.shape), offset=place.offset)
            return flat.view(place.shape)

        return _replace(message.batch, lambda value: tensor_at(value) if isinstance(value, _Place) else value)


def _release(slot: NDArray[np.uint8], holder: int) -> None:
    if os.getpid() == holder:  # A forked child drops its copies of the views, not ours.
        slot[0] = FREE


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
