"""Build with each system call failing in turn.

python failing_calls.py WORK [KIND...]
"""

from __future__ import annotations

import errno
import shutil
import sys
from collections import Counter
from pathlib import Path

from injection import HALVE, Injector
from scale import tell
from small_caches import KINDS, NAME, Kind, build, entries

from dsrt_lightning.store.build_results import BuildFailed, BuildResult, CacheBuilt
from dsrt_lightning.store.verify import verify_cache

# A failing call of these is nothing to the build: its file is written, or it only cleans up.
HARMLESS = ("unlink", "close")


def build_or_fail(root: Path, kind: Kind) -> BuildResult:
    """Build; an error before any source begins becomes a result too."""
    try:
        return build(root, kind)
    except OSError as error:
        return BuildFailed(NAME, root / NAME, error)


def check_failure(root: Path, result: BuildResult, fired: str, error_number: int) -> None:
    """A build that could not do a call has published nothing and says which file; else it is whole."""
    if isinstance(result, CacheBuilt):
        assert fired in HARMLESS, f"a failing {fired} was ignored"
        assert list(verify_cache(result.path)) == []
        return
    assert isinstance(result, BuildFailed)
    error = result.error
    assert isinstance(error, OSError), repr(error)
    # Arrow does not pass on why it could not close its file.
    assert error.errno == error_number or (fired == "close" and error.errno is None), repr(error)
    if not str(error.filename).startswith(str(root)):
        raise AssertionError(f"{error!r} names {error.filename}") from error
    assert NAME not in entries(root), "published, though the build failed"


def check_next_build(root: Path, kind: Kind) -> None:
    result = build(root, kind)
    assert isinstance(result, CacheBuilt), result
    assert entries(root) == [NAME], entries(root)
    assert list(verify_cache(result.path)) == []


def main(work: Path, kinds: list[Kind]) -> None:
    injector = Injector()
    tried: Counter[str] = Counter()
    faults = [(errno.EIO, False), (errno.ENOSPC, True), (errno.EINTR, False), (HALVE, False)]
    for kind in kinds:
        for fault, sticks in faults:
            number, fired = 0, "first"
            while fired:
                number += 1
                name = errno.errorcode.get(fault, "half")
                tell(f"{kind.name}: call {number} fails with {name}")
                root = work / f"{kind.name}-{fault}-{number}"
                root.mkdir()
                injector.watch(root)
                injector.arm(number, fault, sticks=sticks)
                result = build_or_fail(root, kind)
                fired = injector.disarm()
                if fault == HALVE or (fault == errno.EINTR and fired in ("write", "read", "open", "fsync")):
                    assert isinstance(result, CacheBuilt), f"{fired}: {result}"
                elif fired:
                    check_failure(root, result, fired, fault)
                if isinstance(result, BuildFailed):
                    check_next_build(root, kind)
                tried[fired] += 1
                shutil.rmtree(root)
    del tried[""]
    counts = ", ".join(f"{name} {n}" for name, n in tried.most_common())
    print(f"system calls of a build that failed, in turn: {tried.total()} ({counts}); wrong outcomes: 0")


if __name__ == "__main__":
    chosen = sys.argv[2:]
    main(Path(sys.argv[1]), [kind for kind in KINDS if not chosen or kind.name in chosen])
