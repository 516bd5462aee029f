"""Cache the 70,000 Fashion-MNIST images from their IDX files.

    apt-get install dataset-fashion-mnist
    python examples/fashion_mnist/build.py [FOLDER [ROOT]]

FOLDER holds the four files, gzipped or not; default is where Debian's package puts them. ROOT: caches.
"""

from __future__ import annotations

import gzip
import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dsrt_lightning import CacheInput, build_caches

DEBIAN_FOLDER = "/usr/share/datasets/fashion-mnist"
# Split -> the file names' prefix.
SPLITS = {"train": "train", "val": "t10k"}
CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of an IDX file of unsigned bytes, gzipped or not.

    Layout, big-endian: two zero bytes, the type (8: unsigned byte), the number of axes, a u32 an axis, the values.

    Raises:
        ValueError: The file is no IDX file of bytes or has another length than its header says.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read()
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise ValueError(f"{path}: begins with {content[:3].hex()} but an IDX file of bytes begins with 000008")
    shape = struct.unpack_from(f">{content[3]}I", content, offset=4)
    header_bytes = 4 + 4 * len(shape)
    if len(content) != header_bytes + math.prod(shape):
        raise ValueError(
            f"{path}: has {len(content)} bytes but its header, shape {list(shape)}, needs "
            f"{header_bytes + math.prod(shape)}; copy the file again"
        )
    return np.frombuffer(content, np.uint8, offset=header_bytes).reshape(shape)


def find_file(folder: Path, name: str) -> Path:
    """Return ``folder/name`` or ``folder/name.gz``.

    Raises:
        FileNotFoundError: Neither exists; the text tells what to install.
    """
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise FileNotFoundError(
        f"{folder}/{name}: neither this file nor {name}.gz exists; install Debian's package with "
        "'apt-get install dataset-fashion-mnist', or give the folder that holds the four IDX files"
    )


class FashionMnist:
    """Training images, then test images.

    Samples: ``image`` uint8 ``[28, 28]`` and ``label`` int64, a scalar. Metadata: ``label``, ``item`` (its name),
    ``split`` (``train`` or ``val``), and ``ink``, the mean brightness in ``[0, 1]``.
    """

    name = "fashion_mnist"
    fingerprint = "Fashion-MNIST IDX files, 1"

    def __init__(self, folder: str | Path = DEBIAN_FOLDER) -> None:
        self._files = {
            split: (
                find_file(Path(folder), f"{prefix}-images-idx3-ubyte"),
                find_file(Path(folder), f"{prefix}-labels-idx1-ubyte"),
            )
            for split, prefix in SPLITS.items()
        }

    def __iter__(self) -> Iterator[CacheInput]:
        for split, (image_file, label_file) in self._files.items():
            images, labels = read_idx(image_file), read_idx(label_file)
            for image, label in zip(images, labels.astype(np.int64), strict=True):
                yield CacheInput(
                    data={"image": image, "label": label},
                    metadata={
                        "label": int(label),
                        "item": CLASSES[label],
                        "split": split,
                        "ink": float(image.mean()) / 255,
                    },
                )


def build(folder: str = DEBIAN_FOLDER, root: str = "caches") -> None:
    """Make ``root/fashion_mnist``, or find that it is there."""
    (result,) = build_caches(FashionMnist(folder), root, codec="arrays")
    print(result.unwrap().path)


if __name__ == "__main__":
    try:
        build(*sys.argv[1:])
    except (OSError, EOFError, ValueError) as error:
        sys.exit(str(error))
