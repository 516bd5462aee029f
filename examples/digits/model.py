"""A small network for the digits, plain Lightning."""

from __future__ import annotations

import lightning as L
import torch
from torch import Tensor, nn


class DigitsNet(L.LightningModule):
    """Two layers on ``(image float32 [B, 8, 8], label int64 [B])`` batches; further batch elements are ignored."""

    def __init__(self, hidden: int = 64, learning_rate: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
        self.learning_rate = learning_rate

    def forward(self, image: Tensor) -> Tensor:
        """Return logits float32 ``[B, 10]``."""
        return self.layers(image)

    def training_step(self, batch: tuple[Tensor, ...], batch_index: int) -> Tensor:
        image, label, *_ = batch
        return nn.functional.cross_entropy(self(image), label)

    def validation_step(self, batch: tuple[Tensor, ...], batch_index: int) -> None:
        image, label, *_ = batch
        self.log("val_accuracy", (self(image).argmax(dim=1) == label).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)
