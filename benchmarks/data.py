"""The records that every system stores, and where its stores lie."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

IMAGE = (256, 256, 3)
IMAGE_BYTES = 256 * 256 * 3
TOKENS = 64
NUM_LABELS = 4
_CHECK_FACTOR, _CHECK_PRIME = 40503, 65521


@dataclass(frozen=True)
class Size:
    """How much of everything; ``smoke`` proves that the harness works, its times mean nothing."""

    images: int
    image_batch: int
    token_records: int
    token_draws: int
    token_batch: int
    table_rows: int
    passes: int


SIZES = {
    "full": Size(4096, 64, 1_000_000, 204_800, 1024, 10_000_000, 4),
    "medium": Size(1024, 64, 200_000, 102_400, 1024, 200_000, 4),
    "smoke": Size(16, 4, 256, 256, 32, 64, 2),
}


@dataclass(frozen=True)
class Data:
    """The folder of all stores, and their size."""

    root: Path
    size: Size

    def once(self, name: str, build: Callable[[Path], object]) -> Path:
        """Return the store ``name``, which ``build`` wrote now or earlier; a build that dies leaves none."""
        store = self.root / name
        if not store.exists():
            building = store.with_name(f"{name}.building-{np.random.default_rng().integers(2**32):08x}")
            building.mkdir(parents=True)
            build(building)
            building.rename(store)
        return store


def image(number: int) -> NDArray[np.uint8]:
    """Return a picture that zstd halves: noise above, a pattern below, its number in the corners."""
    picture = np.empty(IMAGE, np.uint8)
    picture[:128] = np.random.default_rng(number).integers(0, 256, (128, 256, 3), dtype=np.uint8)
    picture[128:] = np.arange(256 * 3).astype(np.uint8).reshape(1, 256, 3) + np.uint8(number & 255)
    picture[0, 0] = picture[255, 255] = (number & 255, number >> 8 & 255, number % 251)
    return picture


def image_sample(number: int) -> dict[str, Any]:
    """Return the dict that the article pickles."""
    return {"image": image(number), "label": number % NUM_LABELS, "id": number}


def pickled_image(number: int) -> bytes:
    """Return it pickled as the article does, the picture inside the pickle."""
    return pickle.dumps(image_sample(number), protocol=pickle.HIGHEST_PROTOCOL)


def tokens(num_records: int) -> NDArray[np.int32]:
    """Return int32 ``[num_records, TOKENS]``; the first two columns tell whether a row is right."""
    table = np.random.default_rng(0).integers(0, 50_000, (num_records, TOKENS), dtype=np.int32)
    table[:, 0] = np.arange(num_records)
    table[:, 1] = np.arange(num_records) * _CHECK_FACTOR % _CHECK_PRIME
    return table


def halves(count: int) -> list[tuple[str, range]]:
    """Return the two caches of ``count`` records: name and numbers."""
    return [("part0", range(count // 2)), ("part1", range(count // 2, count))]


def weights(count: int) -> NDArray[np.float64]:
    """Return the class weights 1 : 2 : 4 : 8 of every record."""
    return 2.0 ** (np.arange(count) % NUM_LABELS)


def weighted_rows(count: int, draws: int) -> NDArray[np.int64]:
    """Return int64 ``[draws]`` record numbers drawn by those weights; how the limits draw."""
    ends = np.cumsum(weights(count))
    return np.searchsorted(ends, np.random.default_rng(1).random(draws) * ends[-1], "right")


def batched(rows: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    """Yield ``rows`` in pieces of ``size``."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def check_sample(sample: dict[str, Any], sample_id: int, count: int) -> int:
    """Return the number of a sound image sample that is record ``sample_id`` of one of two caches.

    Raises:
        ValueError: It is another.
    """
    picture, number = sample["image"], int(sample["id"])
    corners = (number & 255, number >> 8 & 255, number % 251)
    found = (picture[0, 0, 0], picture[0, 0, 1], picture[255, 255, 2])
    if picture.shape != IMAGE or picture.dtype != np.uint8 or number % (count // 2) != sample_id or found != corners:
        raise ValueError(f"sample {sample_id} is not the one that was stored: id {number}, corners {found}")
    return number


def check_images(images: Any, ids: Any) -> int:
    """Return the rows of a batch of images whose last one is right."""
    number = int(ids[-1])
    picture = images[-1]
    found = tuple(int(picture[at]) for at in ((0, 0, 0), (0, 0, 1), (255, 255, 2)))
    if tuple(images.shape[1:]) != IMAGE or found != (number & 255, number >> 8 & 255, number % 251):
        raise ValueError(f"image {number} is not the one that was stored: corners {found}")
    return len(ids)


def check_tokens(batch: Any) -> int:
    """Return the rows of a batch of tokens, every one of which is right."""
    array = np.asarray(batch)
    if array.shape[1] != TOKENS or array.dtype != np.int32:
        raise ValueError(f"tokens arrived as {array.dtype} {array.shape}")
    if not (array[:, 0].astype(np.int64) * _CHECK_FACTOR % _CHECK_PRIME == array[:, 1]).all():
        raise ValueError("a row of tokens is not the one that was stored")
    return len(array)
