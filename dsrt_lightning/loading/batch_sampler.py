"""The draws as a batch sampler, for DataLoader and torchdata's StatefulDataLoader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch.utils.data import Sampler

from dsrt_lightning.draws.batch_plan import BatchPlan
from dsrt_lightning.draws.cursor import Cursor, State
from dsrt_lightning.errors import ConfigError
from dsrt_lightning.loading.dataset import RTDataset
from dsrt_lightning.loading.requests import requests_from
from dsrt_lightning.loading.topology import check_topology, topology


class RTBatchSampler(Sampler[list[int]]):
    """Yields lists of population positions; its state is the loaders' state.

    It keeps the population it was made with. As DataLoader's ``batch_sampler`` it counts what was *asked for*, which
    with worker processes is ahead of what was delivered: use ``StatefulDataLoader``, which accounts for that, or
    :class:`~dsrt_lightning.loading.loader.RTLoader`.

    Args:
        dataset: What to draw from, and what the DataLoader reads.
        batch_size: Rows of one rank's batch.
        drop_last: Leave out draws that do not fill a global batch; False needs ``world_size=1``, since a list of
            positions cannot mark padding.
        rank: This process's rank; None takes it from ``torch.distributed``.
        world_size: Number of ranks; None takes it from ``torch.distributed``.

    Raises:
        ConfigError: ``drop_last=False`` with several ranks, or a foreign sampler in the dataset's place.
    """

    def __init__(
        self,
        dataset: RTDataset,
        *,
        batch_size: int,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if not isinstance(dataset, RTDataset):
            raise ConfigError(
                f"RTBatchSampler draws from an RTDataset but got a {type(dataset).__name__}; if Lightning put its own "
                "sampler there, set Trainer(use_distributed_sampler=False): the draws are sharded already"
            )
        rank, world_size = topology(rank, world_size)
        if not drop_last and world_size > 1:
            raise ConfigError(
                f"drop_last is False with {world_size} ranks: a batch sampler cannot mark the padded rows; use RTLoader"
            )
        view = dataset.view
        global_batch = batch_size * world_size
        self._stream = view.stream(global_batch)
        plan = BatchPlan(self._stream.epoch_length, batch_size, rank, world_size, drop_last)
        self._cursor = Cursor(view.identity(global_batch), plan)
        self._topology = rank, world_size
        self._requested_epoch: int | None = None
        self.batch_size = batch_size
        self.drop_last = drop_last

    @property
    def sampler(self) -> Cursor:
        """The cursor; Lightning looks here for ``set_epoch``."""
        return self._cursor

    def __len__(self) -> int:
        return len(self._cursor)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of ``epoch``, also past a state of another epoch; the present one stays where it is."""
        self._requested_epoch = epoch
        self._cursor.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        self._cursor.rewind()
        return self._batches()

    def _batches(self) -> Iterator[list[int]]:
        check_topology(*self._topology)
        # StatefulDataLoader hands over a loaded state when it begins, after the epoch was set.
        if self._requested_epoch is not None:
            self._cursor.set_epoch(self._requested_epoch)
            self._requested_epoch = None
        for request in requests_from(self._stream, self._cursor):
            self._cursor.advance()
            yield request.positions.tolist()

    def state_dict(self) -> State:
        """Return the state after the batches that were asked for."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue after the batches that ``state`` counts.

        Raises:
            StateMismatchError: The state belongs to other draws.
        """
        self._cursor.load_state_dict(state)
