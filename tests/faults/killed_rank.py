"""Kill one of two training ranks in the middle of an epoch: the other ends with an error soon.

python killed_rank.py WORK
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import torch.distributed
from killed_workers import is_gone, shared_memory_of
from vanishing_files import build

from dsrt_lightning import RTLoader, open_dataset

WORLD_SIZE = 2
PATIENCE_S = 60
STEPS_BEFORE = 5


def train(rank: int, work: Path) -> None:
    store = f"file://{work}/rendezvous"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD_SIZE)
    dataset = open_dataset(work / "large", seed=1, epoch_length=10**6)
    for step, batch in enumerate(RTLoader(dataset, batch_size=4)):
        torch.distributed.all_reduce(batch["i"])
        if step == STEPS_BEFORE:
            print("training", flush=True)


def start(rank: int, work: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(work), str(rank)]
    environment = {**os.environ, "TMPDIR": f"{work}/tmp"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def main(work: Path) -> None:
    build(work, "none")
    (work / "tmp").mkdir()
    survivor, victim = (start(rank, work) for rank in range(WORLD_SIZE))
    for process in (survivor, victim):
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n", process.communicate()
    names = shared_memory_of(victim.pid) | shared_memory_of(survivor.pid)
    victim.kill()
    killed = time.monotonic()
    _, errors = survivor.communicate(timeout=PATIENCE_S)
    waited_s = time.monotonic() - killed
    victim.communicate()
    assert survivor.returncode == 1, survivor.returncode
    assert "onnection" in errors, errors
    assert is_gone(names)
    assert os.listdir(work / "tmp") == []
    print(f"killed ranks: 1, the other ended with an error after {waited_s:.1f} s and left nothing")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        train(int(sys.argv[2]), Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]))
