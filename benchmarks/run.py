"""Builds every store once, then measures all cases in turn, trial by trial, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.case import Measures, load

WORKLOADS = ("w1", "w2", "w3", "zstd", "w4", "w5", "w6", "resume")
PEER_WORKLOADS = ("peers.w1", "peers.w2", "peers.w3")


@dataclass(frozen=True)
class Runner:
    """Starts the processes of cases.

    Attributes:
        pythons: The interpreter of each system's cases; a system without one is not measured.
        data: Folder of all stores.
        size: Name of their size.
        timeout_s: For one process.
    """

    pythons: Mapping[str, str]
    data: Path
    size: str
    timeout_s: float

    def measures(self, workload: str, name: str) -> bool:
        """Return whether the case's system has an interpreter."""
        return load(workload).CASES[name].system in self.pythons

    def run(self, workload: str, name: str, *options: str) -> Measures:
        """Return what one process measured.

        Raises:
            RuntimeError: It failed; the message ends with what it wrote to stderr.
        """
        python = self.pythons[load(workload).CASES[name].system]
        command = [python, "-m", "benchmarks.case", workload, name, "--data", str(self.data), "--size", self.size]
        root = Path(__file__).parents[1]
        environment = {**os.environ, "PYTHONPATH": str(root), "DSRT_CACHE_DIR": str(self.data / "user-cache")}
        done = subprocess.run(
            [*command, *options], cwd=root, env=environment, timeout=self.timeout_s, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{workload} {name} ended with {done.returncode}: {done.stderr[-2000:]}")
        measured: Measures = json.loads(done.stdout.splitlines()[-1])
        return measured


@dataclass(frozen=True)
class Measured:
    """One case in one trial."""

    workload: str
    case: str
    trial: int
    measures: Measures


def run_all(runner: Runner, workloads: Sequence[str], trials: int) -> list[Measured]:
    """Return all measurements; trial ``t`` begins with case ``t``, so that no case is always first."""
    measured = []
    for workload in workloads:
        names = [name for name in load(workload).CASES if runner.measures(workload, name)]
        for name in list(names):
            print(f"build {workload} {name}", file=sys.stderr, flush=True)
            try:
                runner.run(workload, name, "--build")
            except RuntimeError as error:
                # Somebody else's library that does not work here costs its own rows alone.
                if not workload.startswith("peers."):
                    raise
                print(f"left out: {error}", file=sys.stderr, flush=True)
                names.remove(name)
        for trial in range(trials):
            first = trial % len(names)
            for name in names[first:] + names[:first]:
                print(f"trial {trial + 1}/{trials} {workload} {name}", file=sys.stderr, flush=True)
                measured.append(Measured(workload, name, trial, runner.run(workload, name)))
    return measured
