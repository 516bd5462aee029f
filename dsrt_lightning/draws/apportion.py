"""Shares of an epoch and of its batches, in whole draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm

from dsrt_lightning._core import ClassShares


def whole_shares(shares: Iterable[float]) -> list[int]:
    """Return whole numbers in the exact ratio of the decimal numbers that the shares are written as."""
    exact = [Fraction(str(share)) for share in shares]
    scale = lcm(*(share.denominator for share in exact))
    return [int(share * scale) for share in exact]


def apportion(shares: Sequence[int], epoch_length: int, global_batch: int) -> ClassShares:
    """Split an epoch among classes so that each gets its share, rounded up or down, everywhere.

    That is: of every full batch, of the tail that does not fill one, and of the epoch. A share that is a whole number
    of draws is met exactly. The result is the same for every epoch.

    Args:
        shares: One number ``>= 1`` a class; only their ratios count.
        epoch_length: Draws of an epoch, ``>= 1``.
        global_batch: Draws of a batch, ``>= 1``.
    """
    whole = sum(shares)
    num_full_batches, num_tail = divmod(epoch_length, global_batch)
    base = [global_batch * share // whole for share in shares]
    # Extras over all full batches, and places of the tail, both in draws and parts of `whole` of a draw.
    extra = [divmod(num_full_batches * (global_batch * share % whole), whole) for share in shares]
    tail = [divmod(num_tail * share, whole) for share in shares]
    extra_up, tail_up = _round_pairs([part for _, part in extra], [part for _, part in tail], whole)
    return ClassShares(
        global_batch=global_batch,
        num_full_batches=num_full_batches,
        base=base,
        extra=[draws + up for (draws, _), up in zip(extra, extra_up, strict=True)],
        tail=[draws + up for (draws, _), up in zip(tail, tail_up, strict=True)],
    )


def _round_pairs(first: list[int], second: list[int], whole: int) -> tuple[list[int], list[int]]:
    """Round two rows of parts in ``[0, whole)`` to 0 or 1, keeping both row sums and rounding every column sum.

    Each row's sum is a multiple of ``whole``. Parts are shifted along cycles and paths of entries that are not yet
    whole, which changes no row sum, until an entry becomes whole; a column sum passes no whole number on its way.
    """

    def is_part(value: int) -> bool:
        return 0 < value < whole

    def shift(row: list[int], up: int, down: int) -> None:
        amount = min(whole - row[up], row[down])
        row[up] += amount
        row[down] -= amount

    first, second = first[:], second[:]
    both = [c for c in range(len(first)) if is_part(first[c]) and is_part(second[c])]
    while len(both) >= 2:
        c, d = both[-2:]
        amount = min(whole - first[c], second[c], first[d], whole - second[d])
        first[c], second[c] = first[c] + amount, second[c] - amount
        first[d], second[d] = first[d] - amount, second[d] + amount
        both = both[:-2] + [x for x in (c, d) if is_part(first[x]) and is_part(second[x])]
    for row in (first, second):
        parts = [c for c in range(len(row)) if is_part(row[c]) and c not in both]
        while len(parts) >= 2:
            c, d = parts[-2:]
            shift(row, c, d)
            parts = parts[:-2] + [x for x in (c, d) if is_part(row[x])]
    # A column with parts in both rows leaves one other part in each: the four become whole together.
    for row, up in ((first, True), (second, False)):
        for c in range(len(row)):
            if is_part(row[c]):
                row[c] = whole if (c in both) == up else 0
    return [value // whole for value in first], [value // whole for value in second]
