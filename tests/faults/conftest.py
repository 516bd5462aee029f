"""Runs fault scripts in processes of their own, and prints how many faults were tried."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IN_MEMORY = Path("/dev/shm")
_TRIED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def injector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes system calls fail."""
    library = tmp_path_factory.mktemp("inject") / "inject.so"
    source = ROOT / "csrc/faults/inject.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def work() -> Iterator[Path]:
    """An empty directory, in memory where that is possible: thousands of builds wait for no disk."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="dsrt-faults-", dir=place))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def run_script(request: pytest.FixtureRequest, tmp_path: Path, work: Path) -> Callable[..., str]:
    """Run a script of this folder on an empty directory; it prints what it tried, and fails by an exception.

    It has a process of its own because it may die; what it last passed to ``tell`` is then reported.
    """

    def run(
        script: str, *arguments: object, preload: Path | None = None, prefix: Sequence[str] = (), timeout_s: float = 900
    ) -> str:
        case = tmp_path / "case"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{HERE}", "DSRT_CASE": os.fspath(case)}
        if preload is not None:
            environment["LD_PRELOAD"] = os.fspath(preload)
        command = [*prefix, sys.executable, "-X", "faulthandler", HERE / script, work, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s)
        last = case.read_text() if case.exists() else "none"
        assert done.returncode == 0, f"{script} ended with {done.returncode} in case {last}:\n{done.stderr[-6000:]}"
        request.config.stash.setdefault(_TRIED, []).append(done.stdout.strip())
        return done.stdout

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(_TRIED, []):
        terminalreporter.section("faults tried")
        terminalreporter.write_line("\n".join(lines))
