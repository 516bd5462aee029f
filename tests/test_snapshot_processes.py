"""A population in other processes: mapped, without Polars, safe under concurrency, and nothing is left behind."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tiny_caches import make_caches

from dsrt_lightning.population.population import Population
from dsrt_lightning.population.scratch import ScratchFolder
from dsrt_lightning.population.snapshot import prepare
from dsrt_lightning.store.cache_set import CacheSet

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> CacheSet:
    root = tmp_path_factory.mktemp("caches")
    return make_caches(root, a={"label": [i % 7 for i in range(500)], "name": [f"record {i}" for i in range(500)]})


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> str:
    """Return what a process printed, once it ended well."""
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    return output


def pickled(population: Population, path: Path) -> Path:
    path.write_bytes(pickle.dumps(population))
    return path


# --- workers ---

DRAW = """
import pickle, sys
from pathlib import Path
population = pickle.loads(Path(sys.argv[1]).read_bytes())
assert population.rows.sum() + population.weights.sum() + population.table("alias", lambda: 1 / 0).sum() > 0
assert population.group_codes("label")[0].sum() > 0
"""
LIST_IMPORTS = """
print(*sorted({"polars", "pyarrow", "pydantic", "torch", "yaml"} & set(sys.modules)))
"""
READ_ROW = """
assert population.metadata(8) == {"label": 1, "name": "record 8", "weight": 1.0}
"""


@pytest.mark.parametrize("kind", ["frame", "all rows", "prepared"])
def test_worker_draws_without_polars_and_reads_rows_by_pyarrow(caches: CacheSet, tmp_path: Path, kind: str) -> None:
    if kind == "prepared":
        population = prepare(caches, [], where="rules", group_columns=["label"], directory=tmp_path)
    else:
        population = Population.all_rows(caches)
        if kind == "frame":
            population = Population.from_frame(caches, population.frame())
    population.table("alias", lambda: np.arange(3))
    population.group_codes("label")
    path = pickled(population, tmp_path / "pickled")
    assert result(start(DRAW + LIST_IMPORTS, path)) == "\n"
    assert result(start(DRAW + READ_ROW + LIST_IMPORTS, path)) == "pyarrow\n"


PRIVATE_BYTES = """
fields = dict(line.split()[:2] for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
print(int(fields["Anonymous:"]) << 10)
"""


def test_private_memory_of_a_worker_does_not_grow_with_the_population(tmp_path: Path) -> None:
    private = []
    for size in (1000, 2_000_000):
        caches = make_caches(tmp_path / str(size), a=pl.select(label=pl.int_range(size) % 3))
        population = Population.from_frame(
            caches, Population.all_rows(caches).frame().with_columns(weight=1.5 + pl.col("label"))
        )
        population.table("alias", lambda size=size: np.zeros(2 * size))
        population.group_codes("label")
        private.append(int(result(start(DRAW + PRIVATE_BYTES, pickled(population, tmp_path / "pickled")))))
    assert private[1] - private[0] < 1 << 20, "of 72 MB in arrays"


FORK = """
import os, signal, sys
from dsrt_lightning.population.population import Population
from dsrt_lightning.store.cache_set import open_caches

caches = open_caches(sys.argv[1])
frame = Population.all_rows(caches).frame()
frame.group_by("label").len().sort("label")  # now Polars has threads, which a forked process has not
for population in (Population.all_rows(caches), Population.from_frame(caches, frame)):
    for _ in range(10):
        if (child := os.fork()) == 0:
            signal.alarm(30)
            names = [population.metadata(position)["name"] for position in range(0, 500, 50)]
            os._exit(names[1] != "record 50")
        assert os.waitpid(child, 0)[1] == 0
"""


def test_forked_worker_reads_rows_of_a_population_in_memory(caches: CacheSet) -> None:
    result(start(FORK, caches.listed[0].path))


# --- concurrency and sudden ends ---

PREPARE = """
import sys
from dsrt_lightning.population.snapshot import prepare
from dsrt_lightning.store.cache_set import open_caches

caches = open_caches(sys.argv[1])
sys.stdin.readline()
for round in range(3):
    rules = [{"keep": f"label <> {round}"}, {"weight": {"balance": "label"}}]
    population = prepare(caches, rules, where="rules", directory=sys.argv[2])
    population.table("alias", lambda: population.weights * 2)
    print(population.digest, population.rows.sum(), population.frame().height)
"""


def test_processes_that_prepare_at_once_agree_and_leave_one_folder_each(caches: CacheSet, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PREPARE, str(caches.listed[0].path), str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = {result(process) for process in processes}
    assert len(printed) == 1
    assert len(printed.pop().splitlines()) == 3
    assert len([path for path in tmp_path.iterdir() if path.name != "scratch"]) == 3
    assert list((tmp_path / "scratch").iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy
from dsrt_lightning.population.snapshot import prepare
from dsrt_lightning.store.cache_set import open_caches

def die(path, *_, **__):
    Path(path).write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

numpy.save = die
prepare(open_caches(sys.argv[1]), [], where="rules", directory=sys.argv[2])
"""


def test_killed_process_publishes_nothing_and_the_next_removes_its_leftovers(caches: CacheSet, tmp_path: Path) -> None:
    killed = start(KILLED, caches.listed[0].path, tmp_path)
    killed.communicate(timeout=TIMEOUT_S)
    assert killed.returncode == -9
    (leftover,) = (tmp_path / "scratch").iterdir()
    assert [path.name for path in leftover.iterdir()] == ["rows.npy"]
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]
    assert len(prepare(caches, [], where="rules", directory=tmp_path)) == 500
    assert list((tmp_path / "scratch").iterdir()) == []


def test_folder_of_a_running_process_is_left_alone(tmp_path: Path) -> None:
    holder = """
import sys
from pathlib import Path
from dsrt_lightning.population.scratch import ScratchFolder
print(ScratchFolder(Path(sys.argv[1])).path, flush=True)
sys.stdin.readline()
"""
    command = [sys.executable, "-c", holder, str(tmp_path)]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        ScratchFolder(tmp_path).close()
        assert held.exists()
        process.communicate("end\n", timeout=TIMEOUT_S)
    ScratchFolder(tmp_path).close()
    assert not held.exists()
