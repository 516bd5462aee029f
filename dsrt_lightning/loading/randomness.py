"""A random generator for each sample that does not depend on who computes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np


def sample_generator(seed: int, epoch: int, pass_: int, position: int) -> np.random.Generator:
    """Return the generator of one draw.

    It is NumPy's counter-based Philox with the seed as key and ``(position, epoch, pass)`` in the counter's upper
    words: streams of two draws never overlap, since a stream would need ``2**64`` blocks to reach the next.

    Args:
        seed: In ``[0, 2**64)``.
        epoch: Epoch of the draw.
        pass_: Pass of the epoch.
        position: Position of the draw in the pass, over all ranks.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, position, epoch, pass_]))


def wants_generator(transform: Callable[..., object]) -> bool:
    """Whether a transform declares a parameter named ``rng``."""
    try:
        return "rng" in inspect.signature(transform).parameters
    except (TypeError, ValueError):  # builtins without a signature cannot name one
        return False
