"""The loader's stream as the root or source of a torchdata pipeline, and its way to the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torchdata.nodes import BaseNode

from dsrt_lightning.loading.device import DevicePrefetcher, checked_device

if TYPE_CHECKING:
    import torch

    from dsrt_lightning.draws.cursor import State
    from dsrt_lightning.loading.loader import RTLoader


class BatchNode(BaseNode[Any]):  # type: ignore[misc]  # torchdata has no types
    """Yields the batches of a loader; its state is the loader's.

    A node yields whole batches: a node a sample costs more than reading most samples does. Further nodes may follow,
    and ``torchdata.nodes.Loader`` saves and restores the whole pipeline. Every rank makes its own loader with its
    rank, since torchdata does not shard.

    Args:
        loader: Where batches come from; its position is this node's.
    """

    def __init__(self, loader: RTLoader) -> None:
        super().__init__()
        self.loader = loader
        self._batches: Iterator[Any] | None = None
        self._requested_epoch: int | None = None

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of ``epoch`` at the next reset, also past a state of another epoch."""
        self._requested_epoch = epoch

    def reset(self, initial_state: Mapping[str, object] | None = None) -> None:
        """Begin at a state, or without one at the next pass.

        Raises:
            StateMismatchError: The state belongs to other draws.
        """
        super().reset(dict(initial_state) if initial_state is not None else None)
        if initial_state is not None:
            self.loader.load_state_dict(initial_state)
        # torchdata hands over a loaded state only here, after the epoch was set.
        if self._requested_epoch is not None:
            self.loader.set_epoch(self._requested_epoch)
            self._requested_epoch = None
        self._batches = iter(self.loader)

    def next(self) -> Any:
        """Return the next batch, or raise StopIteration at the end of the pass."""
        assert self._batches is not None, "torchdata resets a node before it asks for a batch"
        return next(self._batches)

    def get_state(self) -> State:
        """Return the loader's state."""
        return self.loader.state_dict()


class DevicePrefetchNode(BaseNode[Any]):  # type: ignore[misc]  # torchdata has no types
    """Yields its source's batches on a device, each copied while the one before it is used.

    The state is the source's, as it was before the batch that is copied ahead: a resume delivers that batch again.
    Where no node stands between the loader and this one, a loader with ``device`` is the same with one node less.

    Args:
        source: Any node.
        device: ``cpu``, which passes batches through, or a CUDA device.

    Raises:
        ValueError: The device is of another kind.
        RuntimeError: There is no CUDA.
    """

    def __init__(self, source: BaseNode[Any], device: torch.device | str) -> None:
        super().__init__()
        self.source = source
        self._device = checked_device(device)
        self._before_ahead: dict[str, Any] = {}

    def reset(self, initial_state: Mapping[str, object] | None = None) -> None:
        """Begin at a state of the source, or without one at its next pass."""
        state = dict(initial_state) if initial_state is not None else None
        super().reset(state)
        self.source.reset(state)
        self._prefetcher = DevicePrefetcher(self._from_source(), self._device)
        self._batches = iter(self._prefetcher)

    def next(self) -> Any:
        """Return the next batch, or raise StopIteration at the end of the pass."""
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        """Return the source's state after the delivered batches."""
        if self._prefetcher.in_flight:
            return self._before_ahead
        return self.source.state_dict()  # type: ignore[no-any-return]

    def _from_source(self) -> Iterator[Any]:
        while True:
            self._before_ahead = self.source.state_dict()
            try:
                batch = next(self.source)
            except StopIteration:
                return
            yield batch
