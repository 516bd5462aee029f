"""Hashes that take the same rows for ever: *part of the format* of the rules `sample` and `split`.

Polars' own hash may change with its version and Python's with the process, so neither may decide what is trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

# Steps and finaliser of SplitMix64.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_WORD_BYTES = 8
_TEXTS_PER_CHUNK = 1 << 18  # bounds the padded copies of the texts


def hash_words(words: NDArray[np.uint64], length: int, seed: int) -> NDArray[np.uint64]:
    """Return one well mixed 64-bit hash a row.

    Args:
        words: uint64 ``[n, k]``.
        length: What the words stand for, in bytes; tells padded rows of different lengths apart.
        seed: In ``[0, 2**64)``.

    Returns:
        uint64 ``[n]``.
    """
    state = np.full(len(words), seed, np.uint64)
    for column in (np.uint64(length), *words.T):
        state = _mix(state ^ column)
    return state


def hash_texts(texts: pl.Series, seed: int) -> NDArray[np.uint64]:
    """Return the hash of each text's UTF-8 bytes; a null has the hash of the empty text.

    Args:
        texts: String ``[n]``.
        seed: In ``[0, 2**64)``.

    Returns:
        uint64 ``[n]``.
    """
    hashes = np.empty(len(texts), np.uint64)
    for start in range(0, len(texts), _TEXTS_PER_CHUNK):
        stop = min(start + _TEXTS_PER_CHUNK, len(texts))
        _hash_chunk(texts[start:stop], seed, hashes[start:stop])
    return hashes


def unit_interval(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return each hash as a number in ``[0, 1)``, from its upper 53 bits."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = values + _STEP
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


def _hash_chunk(texts: pl.Series, seed: int, hashes: NDArray[np.uint64]) -> None:
    """Fill ``hashes``, one matrix of zero-padded little-endian words for each length that occurs."""
    offsets, data = _utf8(texts)
    lengths = np.diff(offsets)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        padded = np.zeros((len(rows), -(-length // _WORD_BYTES) * _WORD_BYTES), np.uint8)
        padded[:, :length] = data[offsets[rows, None] + np.arange(length)]
        hashes[rows] = hash_words(padded.view("<u8").astype(np.uint64, copy=False), int(length), seed)


def _utf8(texts: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return offsets int64 ``[n + 1]`` and the bytes that they point into."""
    import polars as pl

    array = texts.fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())  # 64-bit offsets
    _, offsets, data = array.buffers()
    window = slice(array.offset, array.offset + len(array) + 1)
    return np.frombuffer(offsets, "<i8")[window], np.frombuffer(data or b"", np.uint8)
