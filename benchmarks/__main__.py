"""Measures everything and writes one table of ratios: to the screen, and with all numbers beside the data.

python -m benchmarks --data build/bench --baseline .venv-bench/bin/python
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path

from benchmarks.data import SIZES, Data
from benchmarks.environment import describe
from benchmarks.run import PEER_WORKLOADS, WORKLOADS, Runner, run_all
from benchmarks.table import Table

NOTES = """\
Ratios are of one trial, then their median, least and most; every measurement is a process of its own, and the first
of a trial is another each time. Above 1 is faster (smaller, for memory) than the baseline: DatasetRT from its wheel,
or what the row names. In no time: imports, building (but W5), opening before W1 to W3. In all times: validation of
what arrived. The page cache is warm. Not measured: cold disks, GPUs, several machines."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("build/bench"), help="folder of the stores, about 12 GB")
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS + PEER_WORKLOADS, help="all, if not given")
    parser.add_argument("--baseline", help="the interpreter that has dataset-rt; without it there are no ratios to it")
    parser.add_argument("--peers", nargs=2, help="the interpreters of the other libraries and of MosaicML streaming")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one process")
    arguments = parser.parse_args()
    root = (arguments.data / arguments.size).absolute()
    root.mkdir(parents=True, exist_ok=True)
    pythons = {"ours": sys.executable, "limit": sys.executable}
    if arguments.baseline:
        pythons["datasetrt"] = os.path.abspath(arguments.baseline)
    if arguments.peers:
        pythons |= zip(("peers", "streaming"), map(os.path.abspath, arguments.peers), strict=True)
    workloads = arguments.workloads or [*WORKLOADS, *(PEER_WORKLOADS if arguments.peers else ())]

    lines = describe(pythons)
    measured = run_all(Runner(pythons, root, arguments.size, arguments.timeout), workloads, arguments.trials)
    table = Table(Data(root, SIZES[arguments.size]), measured).markdown()
    facts = [*lines, f"size {arguments.size}, {arguments.trials} trials"]
    text = "\n".join([table, "", *(f"- {fact}" for fact in facts), "", NOTES])
    stem = root / f"results-{time.strftime('%Y%m%d-%H%M%S')}"
    stem.with_suffix(".md").write_text(text + "\n")
    numbers = {"facts": facts, "measured": [dataclasses.asdict(one) for one in measured]}
    stem.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(text)
    print(f"\nwritten to {stem}.md and .json", file=sys.stderr)


if __name__ == "__main__":
    main()
