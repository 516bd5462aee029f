"""``dsrt trace``: which samples a run trained on, from its config and a checkpoint."""

from __future__ import annotations

import argparse
from typing import Any

NAME = "trace"
HELP = "show which samples a run trained on at given steps"
DESCRIPTION = """Shows which samples each rank of a run gets at the given training batches, counted from 0 since
the run began. It reads the config and one checkpoint of the run, no payload. Batches before the checkpoint are what the
run trained on; batches after it are what a resume will train on."""
EXAMPLE = "dsrt trace configs/digits_balanced.yaml --checkpoint runs/last.ckpt --steps 400:410"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", help="the run's YAML file")
    parser.add_argument("--checkpoint", required=True, metavar="C", help="a Lightning checkpoint of the run")
    parser.add_argument(
        "--steps", required=True, type=_steps, metavar="A:B", help="training batches [A, B), or one batch A"
    )
    parser.add_argument(
        "--ranks", type=_count, metavar="N", help="number of ranks; default: as the config's batch size has it"
    )


def run(args: argparse.Namespace) -> int:
    """Print a line a batch and rank."""
    from dsrt_lightning.cli.output import print_table
    from dsrt_lightning.training.datamodule import DatasetRTDataModule
    from dsrt_lightning.training.trace import read_checkpoint, trace

    datamodule = DatasetRTDataModule(args.config)
    batches = list(trace(datamodule, read_checkpoint(args.checkpoint), args.steps, ranks=args.ranks))
    names = {cache.cache_id: cache.path.name for cache in next(iter(datamodule.datasets.values())).caches.caches}
    rows = [(batch.part, batch.step, batch.epoch, batch.index, batch.rank, _samples(batch, names)) for batch in batches]
    header = ("loader", "step", "epoch", "batch", "rank", "samples, as cache:sample_id")
    print_table(f"{args.config}: steps [{args.steps.start}, {args.steps.stop})", header, rows)
    return 0


def _samples(batch: Any, names: dict[int, str]) -> str:
    """Return the batch's samples, each run of one cache under its name."""
    text: list[str] = []
    before: int | None = None
    for cache_id, sample_id in zip(batch.cache_ids.tolist(), batch.sample_ids.tolist(), strict=True):
        text.append(f"{names[cache_id]}:{sample_id}" if cache_id != before else str(sample_id))
        before = cache_id
    return " ".join(text)


def _steps(text: str) -> range:
    start, colon, stop = text.partition(":")
    try:
        steps = range(int(start), int(stop) if colon else int(start) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not A:B with whole numbers") from None
    if steps.start < 0 or not steps:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of steps: 0 <= A < B must hold")
    return steps


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
