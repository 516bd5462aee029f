"""Train on Fashion-MNIST; the cache is built on the first run from Debian's package dataset-fashion-mnist.

python examples/fashion_mnist/train.py fit --config configs/fashion_mnist.yaml
"""

from __future__ import annotations

import sys
from pathlib import Path

from dsrt_lightning import DatasetRTCLI, DatasetRTDataModule

from build import build
from model import FashionNet

if __name__ == "__main__":
    if not Path("caches/fashion_mnist").exists():
        try:
            build()
        except FileNotFoundError as error:
            sys.exit(str(error))
    DatasetRTCLI(FashionNet, DatasetRTDataModule, trainer_defaults={"max_epochs": 3})
