"""Cache scikit-learn's handwritten digits: 1,797 real images of 8 x 8 pixels that ship in its wheel.

python examples/digits/build.py [ROOT]      default ROOT: caches
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits

from dsrt_lightning import CacheInput, build_caches

# The digits come writer by writer, so the last fifth holds handwriting that the first four fifths do not.
NUM_TRAIN = 1437


class Digits:
    """The images in scikit-learn's order, each with what an experiment may want to select by.

    Samples: ``image`` float32 ``[8, 8]`` in ``[0, 1]`` and ``label`` int64, a scalar. Metadata: ``label``; ``split``,
    ``train`` or ``val``; ``quality``, the cosine between an image and the mean image of its class, so that untypical
    digits can be left out; ``source``, the collection.
    """

    name = "digits"
    fingerprint = "scikit-learn load_digits, 1"

    def __iter__(self) -> Iterator[CacheInput]:
        digits = load_digits()
        images = (digits.images / 16).astype(np.float32)
        means = np.stack([images[digits.target == digit].mean(axis=0) for digit in range(10)])
        for index, (image, label) in enumerate(zip(images, digits.target, strict=True)):
            mean = means[label]
            quality = (image * mean).sum() / np.sqrt((image**2).sum() * (mean**2).sum())
            yield CacheInput(
                data={"image": image, "label": np.int64(label)},
                metadata={
                    "label": int(label),
                    "split": "train" if index < NUM_TRAIN else "val",
                    "quality": float(quality),
                    "source": "optdigits",
                },
            )


def build(root: str = "caches") -> None:
    """Make ``root/digits``, or find that it is there."""
    (result,) = build_caches(Digits(), root, codec="arrays", progress=False)
    print(result.unwrap().path)


if __name__ == "__main__":
    build(*sys.argv[1:])
