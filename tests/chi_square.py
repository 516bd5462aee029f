"""The statistic of the draws' tests; their seeds are fixed, so they always give the same answer."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def chi_square(counts: ArrayLike, expected: ArrayLike) -> float:
    counts, expected = np.asarray(counts), np.asarray(expected)
    return float((((counts - expected) ** 2) / expected).sum())


def chi_square_limit(degrees: int) -> float:
    """Return what a chi-square of that many degrees of freedom exceeds about once in 10^9 (Wilson and Hilferty)."""
    return degrees * (1 - 2 / (9 * degrees) + 6.0 * math.sqrt(2 / (9 * degrees))) ** 3
