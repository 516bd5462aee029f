"""A model that keeps what it is trained on, and a trainer for it."""

from __future__ import annotations

import warnings

import lightning
import torch
from safe_loading import SAFELY

from dsrt_lightning import DatasetRTDataModule


class Model(lightning.LightningModule):
    """Keeps the ids that it was given, by loader where there are several."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.trained, self.validated = [], []

    def training_step(self, batch, batch_idx):
        ids = batch["id"] if isinstance(batch, dict) and "id" in batch else None
        self.trained.append(ids.tolist() if ids is not None else {k: v["id"].tolist() for k, v in batch.items() if v})
        return self.weight.sum()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.validated.append((dataloader_idx, batch["id"][batch["valid"]].tolist()))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(tmp_path, **options):
    """Return a silent trainer of one epoch on the CPU."""
    settings = {"max_epochs": 1, "num_sanity_val_steps": 0, "enable_checkpointing": False, **options}
    return lightning.Trainer(
        default_root_dir=tmp_path,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def fit(tmp_path, cfg, *, ckpt_path=None, model=None, datamodule=None, **options):
    """Train, and return the model and its trainer."""
    model = model or Model()
    run = trainer(tmp_path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = datamodule or DatasetRTDataModule(cfg)
        run.fit(model, datamodule=data, ckpt_path=ckpt_path, **SAFELY)
    return model, run
