"""One training run over ranks, started by test_ddp.py: writes what each rank trained on, and a checkpoint half-way.

python tests/ddp_train.py '{"cache": "...", "out": "...", "ranks": 2, "strategy": "ddp", "global_batch": 4}'
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from safe_loading import SAFELY

from dsrt_lightning import DatasetRTDataModule


class Recorder(lightning.LightningModule):
    """Notes the ids of each trained batch, and of each valid row in evaluation, in one file a rank."""

    def __init__(self, out: str) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.out = out

    def _note(self, kind: str, ids: list[int]) -> None:
        with open(Path(self.out) / f"{kind}-{self.global_rank}.jsonl", "a") as file:
            file.write(json.dumps(ids) + "\n")

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor:
        self._note("train", batch["id"].tolist())
        return (self.weight * batch["id"].float().mean()).sum()

    def on_validation_start(self) -> None:
        self.sums = torch.zeros(2, dtype=torch.float64)

    def validation_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> None:
        valid = batch["valid"]
        self._note("val", batch["id"][valid].tolist())
        values = torch.where(valid, batch["id"].double(), 0.0)
        totals = torch.stack([values.sum(), valid.sum().double()])
        totals = self.all_gather(totals).reshape(-1, 2).sum(dim=0)
        self.sums += totals

    def on_validation_end(self) -> None:
        if self.global_rank == 0:
            (Path(self.out) / "mean.txt").write_text(str(float(self.sums[0] / self.sums[1])))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class SaveAt(lightning.Callback):
    """Saves a checkpoint after a number of batches."""

    def __init__(self, batches: int, path: str) -> None:
        self.batches, self.path = batches, path

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if trainer.fit_loop.epoch_loop.batch_progress.total.processed == self.batches:
            trainer.save_checkpoint(self.path)
            trainer.should_stop = True
            trainer.fit_loop.epoch_loop.max_steps = trainer.global_step


def config(options: dict[str, Any]) -> dict[str, Any]:
    """Return the run's data: 22 shuffled numbers, the same order for every number of ranks."""
    return {
        "caches": [options["cache"]],
        "seed": 3,
        "rules": [{"head": 22}],
        "train": {
            "sampling": {"mode": "shuffle"},
            "loader": {"batch_size": options["global_batch"] // options["ranks"]},
        },
        "val": {"loader": {"batch_size": 3}},
    }


def main(options: dict[str, Any]) -> None:
    """Run as the options say."""
    warnings.simplefilter("ignore")
    callbacks = [SaveAt(options["save_at"], options["checkpoint"])] if "save_at" in options else []
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=options["ranks"],
        strategy=options["strategy"],
        max_epochs=2,
        callbacks=callbacks,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=10,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=options["out"],
    )
    model, data = Recorder(options["out"]), DatasetRTDataModule(config(options))
    trainer.fit(model, datamodule=data, ckpt_path=options.get("resume"), **SAFELY)
    if options.get("validate"):
        trainer.validate(model, datamodule=data, verbose=False)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
