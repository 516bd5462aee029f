"""Which rank of how many this process is."""

from __future__ import annotations

import torch.distributed

from dsrt_lightning.errors import ConfigError


def topology(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the given rank and number of ranks, or those of ``torch.distributed``, or one rank of one.

    Raises:
        ConfigError: One is given without the other.
    """
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise ConfigError(f"rank is {rank} and world_size is {world_size}; give both or neither")
    return _distributed() or (0, 1)


def check_topology(rank: int, world_size: int) -> None:
    """Refuse to read as another number of ranks than the process group has: ranks would see each other's samples.

    Raises:
        ConfigError: With both ranks and both numbers.
    """
    actual = _distributed()
    if actual is not None and actual[1] != world_size:
        raise ConfigError(
            f"this loader is rank {rank} of {world_size} but the process is rank {actual[0]} of {actual[1]}; make the "
            "loader after the process group, or give it rank and world_size"
        )


def _distributed() -> tuple[int, int] | None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return None
