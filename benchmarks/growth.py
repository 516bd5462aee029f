"""What grows with the number of rows, and of caches: speed, opening, memory, seeking, and the rules.

python -m benchmarks.growth --data build/bench/growth

Records of 16 bytes, weighted by class through rules, in batches of 1024, two threads. What was measured is kept in the
folder, so that it can be done in pieces: --points 100000000x1. A hundred million rows need 9 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.environment import describe
from benchmarks.synthetic import FIELD, Records, check, write_cache

BATCH = 1024
RECORD_BYTES = 16
RULES = [{"weight": {"by": {"label": {0: 1, 1: 2, 2: 4, 3: 8}}}}]
WARM_S, TRIAL_S, TRIALS, SEEKS = 2.0, 0.5, 3, 15

Measures = dict[str, float]


class Point(NamedTuple):
    """So many rows in so many caches of equal size."""

    rows: int
    caches: int

    @classmethod
    def parse(cls, text: str) -> Point:
        """Read ``ROWSxCACHES``."""
        rows, caches = text.split("x")
        return cls(int(rows), int(caches))

    def __str__(self) -> str:
        return f"{self.rows}x{self.caches}"


POINTS = [Point(10**n, 1) for n in (4, 6, 7, 8)] + [Point(10**6, 10**n) for n in (1, 2, 3, 4)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("build/bench/growth"), help="folder of the caches")
    parser.add_argument("--points", type=Point.parse, nargs="+", default=POINTS, metavar="ROWSxCACHES")
    parser.add_argument("--picture", type=Path, help="where to draw all points measured so far, as SVG")
    parser.add_argument("--part", choices=list(_PARTS), help="do one part of one point, in this process")
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(_PARTS[arguments.part](arguments.data / str(arguments.points[0]), arguments.points[0])))
        return
    for point in arguments.points:
        measures: Measures = {}
        for part in _PARTS:
            print(f"{point} {part}", file=sys.stderr, flush=True)
            command = [sys.executable, "-m", "benchmarks.growth", "--data", str(arguments.data)]
            done = subprocess.run(
                [*command, "--points", str(point), "--part", part], stdout=subprocess.PIPE, check=True
            )
            measures |= json.loads(done.stdout)
        (arguments.data / f"{point}.json").write_text(json.dumps(measures) + "\n")
    found = {path.stem: json.loads(path.read_text()) for path in arguments.data.glob("*.json")}
    measured = {point: found[str(point)] for point in sorted(map(Point.parse, found))}
    print("\n".join([*_table(measured), "", *(f"- {line}" for line in describe({"ours": sys.executable}))]))
    if arguments.picture:
        from benchmarks.pictures import draw_growth

        draw_growth([{**point._asdict(), **measures} for point, measures in measured.items()], arguments.picture)


def _build(root: Path, point: Point) -> Measures:
    for number in range(point.caches):
        write_cache(root / f"part{number}", _records(point))
    os.sync()
    return {}


def _rules(root: Path, point: Point) -> Measures:
    """Evaluate the rules and make what the draws need, once a node, into files."""
    import polars  # noqa: F401

    import dsrt_lightning.population.rules  # noqa: F401
    from dsrt_lightning import RTLoader
    from dsrt_lightning.loading.dataset import RTDataset  # noqa: F401

    shutil.rmtree(root / "snapshots", ignore_errors=True)
    before = _peak_mib()
    began = time.perf_counter()
    RTLoader(_dataset(root, point, "weighted"), batch_size=BATCH)
    measures = {"rules_s": time.perf_counter() - began, "rules_mib": _peak_mib() - before}
    os.sync()
    return measures


def _run(root: Path, point: Point) -> Measures:
    # What is imported costs the same at any size.
    import polars  # noqa: F401

    import dsrt_lightning.population.metadata
    import dsrt_lightning.population.rules  # noqa: F401
    from dsrt_lightning import RTLoader
    from dsrt_lightning.loading.dataset import RTDataset  # noqa: F401

    _read_all(root)
    before = _memory_mib()
    began = time.perf_counter()
    opened_s = _opened(root, point)
    dataset = _dataset(root, point, "weighted")
    batches = iter(RTLoader(dataset, batch_size=BATCH, fields=[FIELD, "sample_id"]))
    first = next(batches)
    measures = {"open_s": opened_s, "first_batch_s": time.perf_counter() - began}
    check(first[0].numpy(), first[1].numpy(), _records(point))

    seeks: dict[str, list[float]] = {"start": [], "seek": []}
    for _ in range(SEEKS):
        for name, samples in (("start", 0), ("seek", point.rows // 2)):
            seeks[name].append(_seconds_to_batch(dataset, samples))
    measures |= {f"{name}_s": statistics.median(seconds) for name, seconds in seeks.items()}
    measures |= {f"{name}_mib": mib - before[name] for name, mib in _memory_mib().items()}
    for sampling in ("weighted", "shuffle"):
        endless = _dataset(root, point, sampling, epoch_length=1 << 40)
        measures[f"{sampling}_per_s"] = _samples_per_s(iter(RTLoader(endless, batch_size=BATCH, fields=FIELD)).__next__)
    measures |= {f"{name}_warm_mib": mib - before[name] for name, mib in _memory_mib().items()}
    return measures


_PARTS: dict[str, Callable[[Path, Point], Measures]] = {"build": _build, "rules": _rules, "run": _run}


def _records(point: Point) -> Records:
    return Records(point.rows // point.caches, RECORD_BYTES)


def _paths(root: Path, point: Point) -> list[Path]:
    return [root / f"part{number}" for number in range(point.caches)]


def _read_all(root: Path) -> None:
    """Bring all files into the page cache."""
    block = bytearray(8 << 20)
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(block):
                pass


def _opened(root: Path, point: Point) -> float:
    """Return the seconds of reading manifests and mapping indexes, their checksums compared."""
    from dsrt_lightning.store.cache_set import open_caches

    began = time.perf_counter()
    assert open_caches(_paths(root, point)).shards.num_records == point.rows
    return time.perf_counter() - began


def _dataset(root: Path, point: Point, mode: Any, epoch_length: int | None = None) -> Any:
    from dsrt_lightning.draws.sampling import Sampling
    from dsrt_lightning.loading.dataset import RTDataset
    from dsrt_lightning.population.snapshot import prepare
    from dsrt_lightning.store.cache_set import open_caches

    caches = open_caches(_paths(root, point))
    population = prepare(caches, RULES, where="rules", directory=root / "snapshots")
    return RTDataset(caches, population, seed=7, sampling=Sampling(mode, epoch_length))


def _seconds_to_batch(dataset: Any, samples: int) -> float:
    from dsrt_lightning import RTLoader

    began = time.perf_counter()
    loader = RTLoader(dataset, batch_size=BATCH, fields=FIELD)
    loader.load_state_dict({**loader.state_dict(), "samples": samples})
    batches: Any = iter(loader)
    next(batches)
    seconds = time.perf_counter() - began
    batches.close()
    return seconds


def _samples_per_s(next_batch: Callable[[], object]) -> float:
    """Return the median speed after the pages were touched for some time."""
    _seconds_of_batches(next_batch, WARM_S)
    return BATCH / statistics.median(_seconds_of_batches(next_batch, TRIAL_S) for _ in range(TRIALS))


def _seconds_of_batches(next_batch: Callable[[], object], duration_s: float) -> float:
    began, count, seconds = time.perf_counter(), 0, 0.0
    while seconds < duration_s:
        next_batch()
        count += 1
        seconds = time.perf_counter() - began
    return seconds / count


def _memory_mib() -> Measures:
    """Return the memory that this process has for itself, and that with the file pages that it maps."""
    values = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, kib, *_ = line.split()
        values[name] = int(kib) / 1024
    return {"private": values["Anonymous:"], "rss": values["Rss:"]}


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


_COLUMNS: list[tuple[str, Callable[[Measures], str]]] = [
    ("weighted, samples/s", lambda one: f"{one['weighted_per_s'] / 1e6:.2f} M"),
    ("shuffle, samples/s", lambda one: f"{one['shuffle_per_s'] / 1e6:.2f} M"),
    ("open", lambda one: _seconds(one["open_s"])),
    ("open to first weighted batch", lambda one: _seconds(one["first_batch_s"])),
    ("start / seek to the middle, first batch", lambda one: f"{_seconds(one['start_s'])} / {_seconds(one['seek_s'])}"),
    ("private / resident with maps", lambda one: f"{one['private_warm_mib']:.0f} / {one['rss_warm_mib']:,.0f} MiB"),
    ("rules and tables, once a node", lambda one: f"{_seconds(one['rules_s'])}, {one['rules_mib']:,.0f} MiB"),
]


def _table(measured: dict[Point, Measures]) -> list[str]:
    lines = [
        "| rows | caches | " + " | ".join(name for name, _ in _COLUMNS) + " |",
        "| --- " * (len(_COLUMNS) + 2) + "|",
    ]
    for point, measures in measured.items():
        cells = [f"{point.rows:,}", f"{point.caches:,}", *(show(measures) for _, show in _COLUMNS)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.1 else f"{value * 1e3:.2f} ms"


if __name__ == "__main__":
    main()
