"""The loader's stream as the root or source of a torchdata pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torchdata.nodes import BaseNode

if TYPE_CHECKING:
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
