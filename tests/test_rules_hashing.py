"""Hashes are the same on every platform, for ever: they decide what is trained."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrt_lightning.population.hashing import hash_texts, hash_words, unit_interval

_MASK = (1 << 64) - 1


def reference(data: bytes, seed: int) -> int:
    """The definition: SplitMix64's finaliser over length and zero-padded little-endian words."""
    state = seed
    padded = data + bytes(-len(data) % 8)
    words = [int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)]
    for word in (len(data), *words):
        state = ((state ^ word) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


@given(texts=st.lists(st.text(max_size=40), max_size=20), seed=st.integers(0, _MASK))
def test_text_hashes_are_their_definition(texts: list[str], seed: int) -> None:
    hashes = hash_texts(pl.Series(texts, dtype=pl.String), seed)
    assert hashes.tolist() == [reference(text.encode(), seed) for text in texts]


@given(rows=st.lists(st.tuples(st.integers(0, _MASK), st.integers(0, _MASK)), max_size=20), seed=st.integers(0, _MASK))
def test_word_hashes_are_their_definition(rows: list[tuple[int, int]], seed: int) -> None:
    words = np.array(rows, dtype=np.uint64).reshape(-1, 2)
    expected = [reference(a.to_bytes(8, "little") + b.to_bytes(8, "little"), seed) for a, b in rows]
    assert hash_words(words, 16, seed).tolist() == expected


def test_hashes_are_pinned() -> None:
    texts = pl.Series(["", "a", "abcdefgh", "abcdefghi", "ä"])
    assert [f"{value:016x}" for value in hash_texts(texts, 0)] == PINNED


PINNED = ["e220a8397b1dcdaf", "5e025f9ade9eaf3e", "804d4bcf99e046d6", "cbe0b0512e86ab3b", "e28fe9e7e601eab3"]


def test_null_is_the_empty_text() -> None:
    null, empty = hash_texts(pl.Series([None, ""], dtype=pl.String), 1)
    assert null == empty


@pytest.mark.parametrize("start", [0, 1, 7])
def test_slice_of_a_series_has_the_hashes_of_its_texts(start: int) -> None:
    texts = pl.concat([pl.Series(["x", "yy"]), pl.Series(["zzz" * 9, None, "", "w"] * 3)], rechunk=False)
    assert hash_texts(texts[start:], 3).tolist() == hash_texts(texts, 3)[start:].tolist()


def test_unit_interval_is_half_open() -> None:
    ends = unit_interval(np.array([0, 1 << 63, _MASK], dtype=np.uint64))
    assert ends.tolist() == [0.0, 0.5, 1 - 2.0**-53]
