"""The training of a soak: all ranks in one process, in step, each sample compared with the model."""

from __future__ import annotations

import json
import mmap
import os
import random
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forks import as_it_is
from soak_model import NUM_RECORDS, SEED, order, payload

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.errors import DsrtError

REFUSED, WRONG = 3, 4
BATCHES_PER_STATE = 3


@dataclass(frozen=True)
class Topology:
    """How a training is spread: none of it may change what is delivered."""

    ranks: int = 1
    batch_size: int = 4
    threads: int = 1
    workers: int = 0
    in_python: bool = False

    @classmethod
    def random(cls, chooser: random.Random) -> Topology:
        return cls(
            ranks=chooser.choice((1, 2)),
            batch_size=chooser.choice((1, 4, 7, 16)),
            threads=chooser.choice((1, 2, 3)),
            workers=chooser.choice((0, 1, 2)),
            in_python=chooser.random() < 0.4,
        )

    def without_processes(self) -> Topology:
        return replace(self, workers=0)


class Shared:
    """Counters that outlive the processes that count."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    @property
    def samples(self) -> int:
        return int(struct.unpack("qq", self._memory[:16])[0])

    @property
    def wrong(self) -> int:
        return int(struct.unpack("qq", self._memory[:16])[1])

    def count(self, samples: int, wrong: int) -> None:
        self._memory[:16] = struct.pack("qq", self.samples + samples, self.wrong + wrong)


def train(cache: Path, state_file: Path, topology: Topology, shared: Shared, num_batches: int) -> None:
    """Resume from the last state, train for a number of batches, and save the state now and then.

    Ends the process with `REFUSED` where the cache is broken, and with `WRONG` where a sample is not the model's.
    """
    try:
        dataset = open_dataset(cache, seed=SEED, sampling="shuffle")
        loaders = [loader_of(dataset, topology, rank) for rank in range(topology.ranks)]
        follow(loaders, state_file, topology.ranks * topology.batch_size, shared, num_batches)
    except (DsrtError, OSError) as error:
        if os.fspath(cache) not in str(error):
            print(f"an error that does not name the cache: {error!r}", file=sys.stderr)
            sys.exit(WRONG)
        sys.exit(REFUSED)


def prepare(state_file: Path) -> None:
    """Compute the orders of the next passes, for all processes forked from now on."""
    if state_file.exists():
        state = json.loads(state_file.read_text())
        order(state["epoch"], state["pass"])
        order(state["epoch"] + 1, 0)
        order(state["epoch"] + 2, 0)


def loader_of(dataset: Any, topology: Topology, rank: int) -> RTLoader:
    return RTLoader(
        dataset,
        batch_size=topology.batch_size,
        threads=topology.threads,
        workers=topology.workers,
        transform=as_it_is if topology.in_python else None,
        rank=rank,
        world_size=topology.ranks,
    )


def follow(loaders: list[RTLoader], state_file: Path, global_batch: int, shared: Shared, num_batches: int) -> None:
    """Read from all ranks in step, and walk the model beside them."""
    epoch = pass_ = samples = 0
    if state_file.exists():
        state = json.loads(state_file.read_text())
        for loader in loaders:
            loader.load_state_dict(state)
        epoch, pass_, samples = state["epoch"], state["pass"], state["samples"]
        if samples + global_batch > NUM_RECORDS:  # The pass has no further batch.
            pass_, samples = pass_ + 1, 0
    count = 0
    while True:
        for batches in zip(*loaders, strict=True):
            check(batches, order(epoch, pass_)[samples : samples + global_batch], shared)
            samples += global_batch
            count += 1
            states = [loader.state_dict() for loader in loaders]
            assert all(state == states[0] for state in states)
            assert (states[0]["epoch"], states[0]["pass"], states[0]["samples"]) == (epoch, pass_, samples)
            if count % BATCHES_PER_STATE == 0:
                save(states[0], state_file)
            if count == num_batches:
                return
        epoch, pass_, samples = epoch + 1, 0, 0
        for loader in loaders:
            loader.set_epoch(epoch)


def check(batches: tuple[Any, ...], expected: tuple[int, ...], shared: Shared) -> None:
    """Compare a global batch with the model, sample by sample; any difference ends the process."""
    delivered = list(samples_of(batches))
    wanted = [(i, payload(i)) for i in expected]
    wrong = sum(a != b for a, b in zip(delivered, wanted, strict=False)) + abs(len(delivered) - len(wanted))
    shared.count(len(delivered), wrong)
    if wrong:
        print(f"delivered {[i for i, _ in delivered]}, expected {list(expected)}", file=sys.stderr)
        sys.exit(WRONG)


def samples_of(batches: tuple[Any, ...]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        for i, x in zip(batch["i"].tolist(), batch["x"].numpy(), strict=True):
            yield i, x.tobytes()


def save(state: Any, state_file: Path) -> None:
    """Replace the state as a whole: a training may be killed here too."""
    temporary = state_file.with_suffix(".new")
    temporary.write_text(json.dumps(state))
    os.replace(temporary, state_file)
