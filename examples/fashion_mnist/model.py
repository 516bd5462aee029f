"""A small convolutional network for Fashion-MNIST, plain Lightning."""

from __future__ import annotations

import lightning as L
import torch
from torch import Tensor, nn


class FashionNet(L.LightningModule):
    """Two convolutions on ``(image uint8 [B, 28, 28], label int64 [B])`` batches."""

    def __init__(self, width: int = 16, learning_rate: float = 2e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * 7 * 7, 10),
        )
        self.learning_rate = learning_rate

    def forward(self, image: Tensor) -> Tensor:
        """Return logits float32 ``[B, 10]``; pixels are scaled here, a quarter of the bytes travel."""
        return self.layers(image.unsqueeze(1).float() / 255)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_index: int) -> Tensor:
        image, label = batch
        return nn.functional.cross_entropy(self(image), label)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_index: int) -> None:
        image, label = batch
        self.log("val_accuracy", (self(image).argmax(dim=1) == label).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)
