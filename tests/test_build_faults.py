"""A build that is killed, interrupted or cannot write leaves nothing that opens, and the next one cleans up."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsrt_lightning.errors import BuildError, CacheNotFoundError
from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.build_results import BuildFailed, CacheBuilt
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.sources import CacheInput
from dsrt_lightning.store.verify import verify_cache

ROOT = Path(__file__).parents[1]


class Counting:
    """A source of ``count`` records; before record ``stop_at`` it does ``stop``."""

    name = "s"

    def __init__(self, count: int, stop_at: int = -1, stop: object = None) -> None:
        self._count, self._stop_at, self._stop = count, stop_at, stop

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(self._count):
            if i == self._stop_at:
                self._stop()  # type: ignore[operator]
            yield CacheInput(i.to_bytes(4, "little") * 64, {"i": i})


def build(root: Path, source: Counting) -> CacheBuilt | BuildFailed:
    return build_caches(source, root, codec="bytes", progress=False, shard_bytes=4096)[0]  # type: ignore[return-value]


def assert_nothing_opens(root: Path) -> None:
    for entry in [root / "s", *root.iterdir()]:
        with pytest.raises((CacheNotFoundError, NotADirectoryError)):
            open_caches(entry)


def assert_next_build_succeeds_without_debris(root: Path) -> None:
    assert isinstance(build(root, Counting(100)), CacheBuilt)
    assert os.listdir(root) == ["s"]
    assert list(verify_cache(root / "s")) == []


# Runs the function named in argv with the moment of death named in argv, in a process of its own.
CHILD = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = ["", "tests"]
import test_build_faults as this

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

root, moment = Path(sys.argv[1]), sys.argv[2]
if moment.isdigit():
    this.build(root, this.Counting(100, int(moment), die))
module, name = moment.rsplit(".", 1)
module = __import__(module, fromlist=[name])
real = getattr(module, name)
calls = int(sys.argv[3])

def dying(*args, **kwargs):
    global calls
    calls -= 1
    return die() if calls < 0 else real(*args, **kwargs)

setattr(module, name, dying)
this.build(root, this.Counting(100))
"""


@pytest.mark.parametrize(
    "moment",
    ["0", "57", "os.mkdir 0", "os.fsync 0", "os.fsync 2", "os.fsync 3", "os.rename 0"],
)
def test_killed_build_leaves_nothing_that_opens_and_the_next_cleans_up(tmp_path: Path, moment: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    killed = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), *moment.split()], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert os.listdir(root) != []
    assert_nothing_opens(root)
    assert_next_build_succeeds_without_debris(root)


def test_build_killed_after_publishing_has_published(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), "os.fsync", "4"], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert open_caches(tmp_path / "s").num_records == 100
    assert list(verify_cache(tmp_path / "s")) == []


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", [0, 50])
def test_interrupt_passes_on_after_cleaning_up(tmp_path: Path, moment: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, Counting(100, moment, interrupt))
    assert os.listdir(tmp_path) == []


def test_ctrl_c_ends_a_building_process_promptly_and_cleanly(tmp_path: Path) -> None:
    code = (
        "import sys, time; sys.path[:0] = ['', 'tests']; import test_build_faults as t; from pathlib import Path\n"
        "def stop():\n    print('ready', flush=True)\n    while True: time.sleep(0.1)\n"
        "t.build(Path(sys.argv[1]), t.Counting(100, 50, stop))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert sorted(os.listdir(tmp_path)) == [".s.building", ".s.lock"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert os.listdir(tmp_path) == []


def test_live_builders_directory_is_not_taken_for_debris(tmp_path: Path) -> None:
    inner: list[object] = []
    built = build(tmp_path, Counting(100, 50, lambda: inner.append(build(tmp_path, Counting(100)))))
    assert isinstance(built, CacheBuilt)
    assert type(inner[0].error).__name__ == "CacheBusyError"  # type: ignore[attr-defined]
    assert list(verify_cache(tmp_path / "s")) == []


def test_full_disk_is_an_oserror_with_its_file_and_publishes_nothing(tmp_path: Path) -> None:
    """A limit on the size of files fails writes as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    try:
        result = build(tmp_path, Counting(100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(result, BuildFailed)
    assert isinstance(result.error, OSError)
    assert not isinstance(result.error, BuildError)
    assert str(result.error.filename).startswith(f"{tmp_path}/.s.building/")
    assert os.listdir(tmp_path) == []


def test_full_disk_while_metadata_are_written_is_not_blamed_on_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsrt_lightning.store.metadata_file.ROWS_PER_BATCH", 10)

    def write(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dsrt_lightning.store.arrow_file.ArrowFile.write", write)
    result = build(tmp_path, Counting(100))
    assert isinstance(result, BuildFailed)
    assert (type(result.error), result.error.errno) == (OSError, 28)  # type: ignore[attr-defined]
    assert result.error.filename == str(tmp_path / ".s.building/metadata.arrow")  # type: ignore[attr-defined]
    assert os.listdir(tmp_path) == []


def test_root_that_cannot_be_made_is_an_oserror_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file") as caught:
        build(tmp_path / "file/root", Counting(1))
    assert caught.value.filename is not None


def test_memory_is_bounded_by_what_may_wait(tmp_path: Path) -> None:
    """512 MB of records go through a process that may have 200 MB more than it starts with."""
    code = (
        "import resource, sys\n"
        "from dsrt_lightning.store.build import build_caches\n"
        "from dsrt_lightning.store.sources import CacheInput\n"
        "import pyarrow, polars\n"
        "class Large:\n"
        "    name = 's'\n"
        "    def __iter__(self):\n"
        "        for i in range(512):\n"
        "            yield CacheInput(bytes(1 << 20), {'i': i})\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)\n"
        "build_caches(Large(), sys.argv[1], codec='bytes', compression='zstd', progress=False,\n"
        "             max_pending_bytes=16 << 20)[0].unwrap()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=ROOT)
