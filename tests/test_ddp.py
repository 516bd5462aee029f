"""Ranks: real processes under Lightning's launchers, gloo on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from caches import numbers

SCRIPT = Path(__file__).with_name("ddp_train.py")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return numbers(tmp_path_factory.mktemp("caches"))


def run(out, **options):
    """Run the script; return the global batches of training, rank by rank joined."""
    out.mkdir()
    options = {"strategy": "auto", "ranks": 1, "global_batch": 4, **options, "out": str(out)}
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
    return joined(out, "train", options["ranks"])


def joined(out, kind, ranks):
    lines = [read(out / f"{kind}-{rank}.jsonl") for rank in range(ranks)]
    return [[i for part in parts for i in part] for parts in zip(*lines, strict=True)]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_two_ranks_train_on_the_batches_of_one_and_a_checkpoint_moves_between_them(tmp_path, cache):
    alone = run(tmp_path / "alone", cache=str(cache))
    assert len(alone) == 10

    first = tmp_path / "first.ckpt"
    begun = run(tmp_path / "two", cache=str(cache), ranks=2, strategy="ddp", save_at=3, checkpoint=str(first))
    assert begun == alone[:3]

    second = tmp_path / "second.ckpt"
    continued = run(tmp_path / "one", cache=str(cache), resume=str(first), save_at=7, checkpoint=str(second))
    assert continued == alone[3:7]

    ended = run(tmp_path / "two_again", cache=str(cache), ranks=2, strategy="ddp_spawn", resume=str(second))
    assert ended == alone[7:]


@pytest.mark.parametrize("strategy", ["ddp_spawn"])
def test_ranks_evaluate_every_row_once_and_the_masked_mean_is_that_of_one_process(tmp_path, cache, strategy):
    run(tmp_path / "out", cache=str(cache), ranks=2, strategy=strategy, validate=True)
    parts = [read(tmp_path / "out" / f"val-{rank}.jsonl") for rank in range(2)]
    assert len(parts[0]) == len(parts[1])
    assert sorted(i for part in parts for batch in part for i in batch) == list(range(22))
    assert float((tmp_path / "out" / "mean.txt").read_text()) == sum(range(22)) / 22
