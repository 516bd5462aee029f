"""Ranks: real processes under Lightning's launchers, gloo on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ddp_train
import pytest
from cache_builders import numbers

from dsrt_lightning import DatasetRTDataModule

SCRIPT = Path(ddp_train.__file__)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(numbers(tmp_path_factory.mktemp("caches")))


def in_processes(out, **options):
    """Train over ranks in processes of their own; return the global batches, the ranks' parts joined."""
    out.mkdir()
    options = {"ranks": 2, "global_batch": 4, "out": str(out), **options}
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1]), "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(options)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    parts = [read(out / f"train-{rank}.jsonl") for rank in range(2)]
    return [[*first, *second] for first, second in zip(*parts, strict=True)]


def here(out, **options):
    """Train as one rank in this process."""
    out.mkdir()
    ddp_train.main({"ranks": 1, "global_batch": 4, "out": str(out), "strategy": "auto", **options})
    return read(out / "train-0.jsonl")


def drawn(cache):
    """Return the batches of two epochs, from the draws alone."""
    data = DatasetRTDataModule(ddp_train.config({"cache": cache, "global_batch": 4, "ranks": 1}))
    data.setup("fit")
    view = data.datasets["train"].view
    stream = view.stream(global_batch=4)
    return [
        view.records.rows(stream.positions(epoch, 0, start, 4)).tolist()
        for epoch in (0, 1)
        for start in range(0, 20, 4)
    ]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_two_ranks_train_the_batches_of_one_and_a_checkpoint_moves_between_them(tmp_path, cache):
    first, second = tmp_path / "first.ckpt", tmp_path / "second.ckpt"
    begun = in_processes(tmp_path / "two", cache=cache, strategy="ddp", save_at=3, checkpoint=str(first))
    continued = here(tmp_path / "one", cache=cache, resume=str(first), save_at=7, checkpoint=str(second))
    ended = in_processes(tmp_path / "two_again", cache=cache, strategy="ddp_spawn", resume=str(second), validate=True)
    assert begun + continued + ended == drawn(cache)
    assert (len(begun), len(continued), len(ended)) == (3, 4, 3)

    # The last run evaluated too: every row once, equally many batches, and the masked mean is the true one.
    evaluated = [read(tmp_path / "two_again" / f"val-{rank}.jsonl") for rank in range(2)]
    assert len(evaluated[0]) == len(evaluated[1])
    assert sorted(i for part in evaluated for batch in part for i in batch) == list(range(22))
    assert float((tmp_path / "two_again" / "mean.txt").read_text()) == sum(range(22)) / 22
