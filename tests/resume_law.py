"""The one law of everything stateful: stopped anywhere and resumed, it gives what it would have given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def assert_resumes_exactly(
    make: Callable[[], Any],
    *,
    next_epoch: Callable[[Any, int], None],
    stops: tuple[int, ...] | None = None,
) -> None:
    """Stop what ``make`` makes at the start, in the middle, at the end and in the next epoch, and compare.

    Args:
        make: Returns a fresh stateful iterable with ``state_dict`` and ``load_state_dict``.
        next_epoch: Sets the epoch of one.
        stops: Numbers of batches after which to stop in each epoch; None stops after every one.
    """
    whole = make()
    epochs = [_read_epoch(whole, epoch, next_epoch) for epoch in range(2)]
    for stop_epoch in range(2):
        for stop in stops or range(len(epochs[stop_epoch]) + 1):
            _check(make, next_epoch, epochs, stop_epoch, stop)


def _read_epoch(loader: Any, epoch: int, next_epoch: Callable[[Any, int], None]) -> list[Any]:
    next_epoch(loader, epoch)
    return [comparable(batch) for batch in loader]


def _check(make: Any, next_epoch: Any, epochs: list[list[Any]], stop_epoch: int, stop: int) -> None:
    first = make()
    for epoch in range(stop_epoch):
        _read_epoch(first, epoch, next_epoch)
    next_epoch(first, stop_epoch)
    batches = iter(first)
    read = [comparable(next(batches)) for _ in range(stop)]
    state = first.state_dict()
    second = make()
    second.load_state_dict(state)
    ended = stop == len(epochs[stop_epoch])
    if not ended:
        read += [comparable(batch) for batch in second]
    assert read == epochs[stop_epoch], f"epoch {stop_epoch}, stopped after {stop} batches"
    if stop_epoch == 0:
        assert _read_epoch(second, 1, next_epoch) == epochs[1], f"the epoch after a stop after {stop} batches"


def comparable(batch: Any) -> Any:
    """Return a batch as plain lists."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: comparable(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [comparable(value) for value in batch]
    return batch
