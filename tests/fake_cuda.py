"""A double of the CUDA side, so that order and state are tested where there is no GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dsrt_lightning.loading import device, loader, nodes


class FakeCopies:
    """Copies nothing, and notes what is asked of it; ``log`` holds ``("start", n)``, ``("finish", n)``, ``close``."""

    log: list[Any]

    def __init__(self, device: torch.device) -> None:
        self.log = []
        self._num_started = 0
        FakeCopies.last = self

    last: FakeCopies

    def start(self, batch: Any) -> Any:
        self.log.append(("start", self._num_started))
        self._num_started += 1
        return self._num_started - 1, batch

    def finish(self, started: Any) -> Any:
        number, batch = started
        self.log.append(("finish", number))
        return batch

    def close(self) -> None:
        self.log.append("close")


def pretend_cuda(patch: pytest.MonkeyPatch) -> None:
    """Let ``device="cuda"`` be accepted, its copies made by `FakeCopies`."""
    for module in (device, loader, nodes):
        patch.setattr(module, "checked_device", torch.device)
    patch.setattr(device, "CudaCopies", FakeCopies)


class FakeEvent:
    def __init__(self) -> None:
        self.is_done = False
        self.num_waits = 0

    def query(self) -> bool:
        return self.is_done

    def synchronize(self) -> None:
        self.num_waits += 1


class FakeStream:
    """A stream that remembers its events and those it was told to wait for."""

    def __init__(self, where: torch.device) -> None:
        self.device = where
        self.events: list[FakeEvent] = []
        self.waited_for: list[FakeEvent] = []

    def record_event(self) -> FakeEvent:
        self.events.append(FakeEvent())
        return self.events[-1]

    def wait_event(self, event: FakeEvent) -> None:
        self.waited_for.append(event)


class HostTensor(torch.Tensor):
    """A CPU tensor whose way to the device is written to ``calls``, with the number of events recorded by then."""

    stream: FakeStream
    calls: list[Any]

    def is_pinned(self, *_: Any) -> bool:
        return False

    def pin_memory(self, *_: Any) -> HostTensor:
        self.calls.append("pin")
        return self._like_this()

    def to(self, where: Any, **options: Any) -> Any:
        self.calls.append(("to", where, options, len(self.stream.events)))
        copy = self._like_this()
        copy.__class__ = DeviceTensor
        return copy

    def _like_this(self) -> Any:
        other = self.clone()
        other.stream, other.calls = self.stream, self.calls
        return other


class DeviceTensor(HostTensor):
    """What `HostTensor.to` gives; says that it is on the device."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", 0)

    def record_stream(self, stream: Any) -> None:
        self.calls.append(("record_stream", stream, len(stream.waited_for)))
