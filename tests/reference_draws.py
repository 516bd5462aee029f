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


def exponential_time(word: int) -> float:
    mantissa, exponent = math.frexp((2 * (word >> 12) + 1) * 2.0**-53)
    if mantissa < float.fromhex("0x1.6a09e667f3bcdp-1"):
        mantissa, exponent = mantissa * 2, exponent - 1
    s = (mantissa - 1) / (mantissa + 1)
    total = 0.0
    for power in range(21, 0, -2):
        total = total * (s * s) + 1.0 / power
    return -exponent * float.fromhex("0x1.62e42fefa39efp-1") - 2 * s * total


def weighted_order(weights: Sequence[float], key: int) -> list[int]:
    scale = 1 - math.frexp(max(weights))[1]
    times = []
    for row, weight in enumerate(weights):
        scaled = math.ldexp(weight, scale)
        times.append(exponential_time(philox(row, 0, key)[0]) / scaled if scaled else math.inf)
    return sorted(range(len(weights)), key=lambda row: (times[row], row))


def weighted_once(weights: Sequence[float], seed: int, epoch: int, pass_: int, position: int) -> int:
    return weighted_order(weights, derive_key(seed, 3, epoch, pass_))[position]


def blocks_cycle(num_rows: int, block: int, window: int, seed: int, cycle: int, pass_: int) -> list[int]:
    """Return the rows of one cycle through the population."""
    block = min(block, num_rows)
    num_blocks = -(-num_rows // block)
    order = [permute(num_blocks, derive_key(seed, 8, cycle, pass_), i) for i in range(num_blocks)]
    per_window = min(window // block, num_blocks)
    rows: list[int] = []
    for number, first in enumerate(range(0, num_blocks, per_window)):
        inside = [
            row for b in order[first : first + per_window] for row in range(b * block, min((b + 1) * block, num_rows))
        ]
        key = part_key(derive_key(seed, 9, cycle, pass_), number)
        rows += [inside[permute(len(inside), key, i)] for i in range(len(inside))]
    return rows


def fisher_yates(values: list[int], key: int) -> list[int]:
    values = list(values)
    for i in range(len(values) - 1, 0, -1):
        j = multiply_high(philox(i, 0, key)[0], i + 1)
        values[i], values[j] = values[j], values[i]
    return values


def schedule(
    num_full: int, base: list[int], extra: list[int], tail: list[int], seed: int, epoch: int, pass_: int
) -> list[int]:
    """Return the class of every position of an epoch."""
    classes = range(len(base))
    line = [c for c in classes for _ in range(extra[c])]
    per_batch = len(line) // num_full if num_full else 0
    extras: list[list[int]] = [[] for _ in range(num_full)]
    if per_batch:
        stride = max(1, multiply_high(0x9E3779B97F4A7C15, num_full))
        while math.gcd(stride, num_full) != 1:
            stride += 1
        shift = multiply_high(derive_key(seed, 4, epoch, pass_), num_full)
        turns = [(stride * g + shift) % num_full for g in range(num_full)]
        block = max(8, 2 * -(-sum(1 for e in extra if e) // per_batch))
        for number, first in enumerate(range(0, num_full, block)):
            batches = range(first, min(first + block, num_full))
            exchanged = sorted(line[turns[g] + i * num_full] for g in batches for i in range(per_batch))
            key = part_key(derive_key(seed, 5, epoch, pass_), number)
            order = fisher_yates(sorted(set(exchanged)), key)
            slots = [c for c in order for _ in range(exchanged.count(c))]
            turned = fisher_yates(list(batches), part_key(key, 0))
            for slot, c in enumerate(slots):
                extras[turned[slot % len(batches)]].append(c)
    drawn: list[int] = []
    for g in range(num_full + 1):
        places = tail if g == num_full else [b + extras[g].count(c) for c, b in enumerate(base)]
        key = part_key(derive_key(seed, 6, epoch, pass_), g)
        drawn += fisher_yates([c for c in classes for _ in range(places[c])], key)
    return drawn


def occurrences(drawn: list[int], epoch: int, num_classes: int) -> list[int]:
    """Return how often each draw's class was drawn before it, in this epoch and those before."""
    seen = [epoch * drawn.count(c) for c in range(num_classes)]
    result = []
    for c in drawn:
        result.append(seen[c])
        seen[c] += 1
    return result


def quota(
    weights: Sequence[float], members: list[list[int]], drawn: list[int], seed: int, epoch: int, pass_: int
) -> list[int]:
    """Return the rows of an epoch whose positions draw the classes ``drawn``, with the given members."""
    rows = []
    for c, occurrence in zip(drawn, occurrences(drawn, epoch, len(members)), strict=True):
        cycle, place = divmod(occurrence, len(members[c]))
        key = part_key(derive_key(seed, 7, cycle, pass_), c)
        inside = [weights[row] for row in members[c]]
        if len(set(inside)) == 1:
            rows.append(members[c][permute(len(inside), key, place)])
        else:
            rows.append(members[c][weighted_order(inside, key)[place]])
    return rows


def mix_component_seed(seed: int, number: int) -> int:
    return part_key(derive_key(seed, 10, 0, 0), number)
