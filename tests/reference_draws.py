"""The draws written a second time, from docs/determinism.md and in plain integers: slow, obvious, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

WORD = 2**64


def philox(counter0: int, counter1: int, key: int) -> tuple[int, int]:
    for _ in range(10):
        product = 0xD2B74407B1CE6E93 * counter0
        counter0, counter1 = (product >> 64) ^ key ^ counter1, product % WORD
        key = (key + 0x9E3779B97F4A7C15) % WORD
    return counter0, counter1


def multiply_high(word: int, bound: int) -> int:
    return word * bound >> 64


def derive_key(seed: int, purpose: int, period: int, pass_: int) -> int:
    return philox(period, purpose << 32 | pass_, seed)[0]


def part_key(key: int, part: int) -> int:
    return philox(part, WORD - 1, key)[0]


def permute(size: int, key: int, index: int) -> int:
    a = max(2, math.isqrt(size) // 2 * 2)
    b = -(-size // a)
    rounds = max(8, 2 * -(-32 // (a.bit_length() - 1)))
    while True:
        x, y = divmod(index, b)
        for r in range(0, rounds, 2):
            x = (x + multiply_high(philox(y, r, key)[0], a)) % a
            y = (y + multiply_high(philox(x, r + 1, key)[0], b)) % b
        index = x * b + y
        if index < size:
            return index


def whole_weights(weights: Sequence[float]) -> list[int]:
    exact = [Fraction(weight) for weight in weights]
    shift = 61 - (math.frexp(max(weights))[1] - 1)
    total = sum(math.floor(weight * Fraction(2) ** shift) for weight in exact)
    shift -= max(0, total.bit_length() - 62)
    return [max(1, math.floor(weight * Fraction(2) ** shift)) for weight in exact]


def alias_table(weights: Sequence[float]) -> list[tuple[int, int]]:
    """Return ``(threshold, alias)`` of every column."""
    n = len(weights)
    whole = whole_weights(weights)
    capacity = sum(whole)
    masses = [n * w for w in whole]
    lights = iter([row for row in range(n) if masses[row] <= capacity])
    heavies = iter([row for row in range(n) if masses[row] > capacity])
    table = [(0, column) for column in range(n)]

    def fill(column: int, own: int, alias: int) -> None:
        if own < capacity:
            table[column] = (own * WORD // capacity, alias)

    heavy = next(heavies, n)
    left = masses[heavy] if heavy < n else 0
    while heavy < n:
        if left > capacity:
            light = next(lights)
            fill(light, masses[light], heavy)
            left -= capacity - masses[light]
        else:
            topping = next(heavies, n)
            fill(heavy, left, topping)
            left += masses[topping] - capacity if topping < n else 0
            heavy = topping
    return table


def sequential(num_rows: int, epoch_length: int, epoch: int, position: int) -> int:
    return (epoch * epoch_length + position) % num_rows


def shuffle(num_rows: int, epoch_length: int, seed: int, epoch: int, pass_: int, position: int) -> int:
    cycle, place = divmod(epoch * epoch_length + position, num_rows)
    return permute(num_rows, derive_key(seed, 1, cycle, pass_), place)


def weighted(weights: Sequence[float], seed: int, epoch: int, pass_: int, position: int) -> int:
    words = philox(position, 0, derive_key(seed, 2, epoch, pass_))
    column = multiply_high(words[0], len(weights))
    threshold, alias = alias_table(weights)[column]
    return column if words[1] < threshold else alias
