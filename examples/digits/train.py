"""Train on the digits with any of the configs; the cache is built on the first run.

python examples/digits/train.py fit --config configs/digits_balanced.yaml --trainer.max_epochs 5
"""

from __future__ import annotations

from pathlib import Path

from dsrt_lightning import DatasetRTCLI, DatasetRTDataModule

from build import build
from model import DigitsNet

if __name__ == "__main__":
    if not Path("caches/digits").exists():
        build()
    DatasetRTCLI(DigitsNet, DatasetRTDataModule)
