"""The main job on real data: cache, make a class rare, balance it, interrupt, resume exactly.

python examples/digits/demo.py      or: make demo
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import OnExceptionCheckpoint
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from torch import Tensor

from dsrt_lightning import DatasetRTDataModule

from build import build
from model import DigitsNet

CONFIGS = Path(__file__).parents[2] / "configs"
RARE = 8
EPOCHS = 3  # of 64 batches
INTERRUPTED_AFTER = 100  # steps: in the middle of the second epoch


class Interruption(Exception):
    """Stands for whatever ends a run: a full disk, a signal, a power cut."""


@dataclass
class Recorder(L.Callback):
    """Remembers what was trained on; raises `Interruption` after a number of steps."""

    stop_after: int | None = None
    sample_ids: list[list[int]] = field(default_factory=list)
    labels: Counter[int] = field(default_factory=Counter)

    def on_train_batch_end(self, trainer: L.Trainer, module: L.LightningModule, *args: object) -> None:
        _, batch, _ = args
        _image, label, sample_id = batch
        self.sample_ids.append(sample_id.tolist())
        self.labels.update(label.tolist())
        if trainer.global_step == self.stop_after:
            raise Interruption


@dataclass
class Run:
    """One finished or interrupted training run."""

    net: DigitsNet
    data: DatasetRTDataModule
    recorder: Recorder


def train(config: str, folder: Path, *, stop_after: int | None = None, ckpt_path: Path | None = None) -> Run:
    L.seed_everything(0, verbose=False)
    net, data, recorder = DigitsNet(), DatasetRTDataModule(CONFIGS / config), Recorder(stop_after)
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=EPOCHS,
        logger=False,
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[recorder, OnExceptionCheckpoint(folder, "interrupted")],
    )
    try:
        trainer.fit(net, datamodule=data, ckpt_path=ckpt_path)
    except Interruption:
        print(f"interrupted after step {trainer.global_step}, in epoch {trainer.current_epoch + 1} of {EPOCHS}")
    return Run(net, data, recorder)


def recall(run: Run, digit: int) -> tuple[int, int]:
    """Return how many of the validation digits were recognised, and how many there are."""
    (loader,) = run.data.val_dataloader()
    images, labels = (torch.cat(parts) for parts in zip(*loader, strict=True))
    wanted: Tensor = labels == digit
    return int((run.net(images[wanted]).argmax(dim=1) == digit).sum()), int(wanted.sum())


def class_shares(title: str, run: Run) -> Table:
    """Tabulate what there was to draw from and what was drawn."""
    table = Table("digit", "rows", "share", "drawn", "share", title=title)
    rows = Counter(run.data.datasets["train"].get_metadata()["label"].to_list())
    for digit in sorted(rows):
        counts = (rows, run.recorder.labels)
        cells = [cell for count in counts for cell in (f"{count[digit]:,}", f"{count[digit] / count.total():.1%}")]
        table.add_row(str(digit), *cells, style="bold" if digit == RARE else None)
    return table


def main() -> int:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")  # advice about worker counts and idle accelerators
    torch.set_num_threads(1)  # the network is small, threads would cost more than they save
    console = Console(width=100)
    build()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        console.rule("Eights are rare")
        as_is = train("digits_rare.yaml", folder)
        balanced = train("digits_rare_balanced.yaml", folder)
        console.print(Columns([class_shares("as it is", as_is), class_shares("balanced", balanced)]))
        for title, run in (("as it is", as_is), ("balanced", balanced)):
            found, total = recall(run, RARE)
            console.print(f"recall of {RARE}, {title}: {found}/{total} = {found / total:.0%}")

        console.rule("Interrupt the balanced run and resume it")
        cut = train("digits_rare_balanced.yaml", folder, stop_after=INTERRUPTED_AFTER)
        resumed = train("digits_rare_balanced.yaml", folder, ckpt_path=folder / "interrupted.ckpt")

    expected, actual = balanced.recorder.sample_ids[INTERRUPTED_AFTER:], resumed.recorder.sample_ids
    console.print(f"first resumed batch, uninterrupted run: {expected[0][:8]} ...")
    console.print(f"first resumed batch, resumed run:       {actual[0][:8]} ...")
    same_ids = cut.recorder.sample_ids + actual == balanced.recorder.sample_ids
    same_weights = all(
        torch.equal(a, b) for a, b in zip(balanced.net.parameters(), resumed.net.parameters(), strict=True)
    )
    num_ids = sum(map(len, actual))
    console.print(f"the {num_ids:,} remaining sample ids are {'the same' if same_ids else 'DIFFERENT'}")
    console.print(f"the trained weights are {'the same, bit for bit' if same_weights else 'DIFFERENT'}")
    return 0 if same_ids and same_weights else 1


if __name__ == "__main__":
    sys.exit(main())
