"""Samples into a batch, by torch's own rules, for arrays that may be read-only views."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.utils.data._utils.collate import collate as torch_collate
from torch.utils.data._utils.collate import default_collate_fn_map

Collate = Callable[[Sequence[object]], object]


def _stack_arrays(batch: Sequence[np.ndarray], *, collate_fn_map: object = None) -> torch.Tensor:
    shapes = {array.shape for array in batch}
    if len(shapes) > 1:
        listed = ", ".join(str(list(shape)) for shape in sorted(shapes)[:5])
        raise ValueError(f"arrays of shapes {listed} do not stack into a batch; give a transform that makes them equal")
    # torch's own rule wraps each array first, which warns of read-only memory; stacking copies anyhow.
    return torch.from_numpy(np.stack(batch))


_collate_fn_map = {**default_collate_fn_map, np.ndarray: _stack_arrays}


def collate(samples: Sequence[object]) -> object:
    """Return one batch of ``samples``, as ``torch.utils.data.default_collate`` would.

    Raises:
        TypeError: A sample has a type that no rule covers.
        ValueError: Arrays of the samples differ in shape.
    """
    return torch_collate(samples, collate_fn_map=_collate_fn_map)
