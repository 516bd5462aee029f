"""Shares in whole draws: rounded up or down, in every batch and in the epoch."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrt_lightning.draws.apportion import apportion, whole_shares


@given(
    shares=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    epoch_length=st.integers(1, 300),
    global_batch=st.integers(1, 60),
)
def test_batch_tail_and_epoch_get_each_share_to_within_one_draw(
    shares: list[int], epoch_length: int, global_batch: int
) -> None:
    parts = apportion(shares, epoch_length, global_batch)
    num_full, num_tail = divmod(epoch_length, global_batch)
    for c, share in enumerate(shares):
        exact = Fraction(share, sum(shares))
        in_batches = {parts.base[c]} | ({parts.base[c] + 1} if parts.extra[c] else set())
        assert in_batches <= {floor(global_batch * exact), ceil(global_batch * exact)}
        assert parts.tail[c] in {floor(num_tail * exact), ceil(num_tail * exact)}
        assert parts.draws_per_epoch(c) in {floor(epoch_length * exact), ceil(epoch_length * exact)}
        assert 0 <= parts.extra[c] <= num_full
    if num_full:
        assert sum(parts.base) * num_full + sum(parts.extra) == num_full * global_batch
        assert sum(parts.extra) % num_full == 0
    assert sum(parts.tail) == num_tail


def test_exact_shares_are_met_exactly() -> None:
    parts = apportion(whole_shares([0.7, 0.2, 0.1]), 1000, 10)
    assert (parts.base, parts.extra, parts.tail) == ([7, 2, 1], [0, 0, 0], [0, 0, 0])


@pytest.mark.parametrize(
    ("shares", "whole"),
    [([0.1, 0.2, 0.7], [1, 2, 7]), ([1, 2.5], [2, 5]), ([1e-05, 1], [1, 100_000]), ([3], [3])],
)
def test_shares_are_taken_as_the_decimal_numbers_they_are_written_as(shares: list[float], whole: list[int]) -> None:
    assert whole_shares(shares) == whole
