"""Several processes build the same cache at once, each with records of its own.

python rivals.py WORK NUM_ROUNDS NUM_BUILDERS
"""

from __future__ import annotations

import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scale import tell
from small_caches import NAME, entries

from dsrt_lightning.errors import CacheBusyError
from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.build_results import BuildFailed, CacheBuilt
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.sources import CacheInput
from dsrt_lightning.store.verify import verify_cache

OUTCOMES = ("built", "reused", "told that another one builds")


class Mine:
    """Records that say who wrote them."""

    name = NAME

    def __init__(self, builder: int) -> None:
        self._record = bytes([builder]) * 100

    def __iter__(self) -> Iterator[CacheInput]:
        for i in range(50):
            yield CacheInput(self._record, {"i": i})


def run_builder(root: Path, builder: int, gate: int) -> int:
    """Build when the gate opens; return the position of what happened in OUTCOMES."""
    os.read(gate, 1)
    (result,) = build_caches(Mine(builder), root, codec="bytes", shard_bytes=1000, progress=False)
    if isinstance(result, BuildFailed):
        if not isinstance(result.error, CacheBusyError):
            raise result.error
        return 2
    return 0 if isinstance(result, CacheBuilt) else 1


def one_round(root: Path, num_builders: int) -> list[str]:
    """Return what happened to each builder."""
    gate, opener = os.pipe()
    children = []
    for builder in range(num_builders):
        children.append(os.fork())
        if children[-1] == 0:
            os.close(opener)
            status = 9
            try:
                status = run_builder(root, builder, gate)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
    os.close(gate)
    os.close(opener)  # All read the end of the pipe at once.
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(codes) <= {0, 1, 2}, codes
    return [OUTCOMES[code] for code in codes]


def main(work: Path, num_rounds: int, num_builders: int) -> None:
    total: Counter[str] = Counter()
    for number in range(num_rounds):
        tell(f"round {number}")
        root = work / str(number)
        root.mkdir()
        outcomes = one_round(root, num_builders)
        assert outcomes.count("built") == 1, outcomes
        winner = outcomes.index("built")
        caches = open_caches(root / NAME)
        records = {bytes(caches.shards.read(row)) for row in range(caches.num_records)}
        assert records == {bytes([winner]) * 100}, "records of several builders, or of the wrong one"
        assert list(verify_cache(root / NAME)) == []
        assert entries(root) == [NAME], entries(root)
        total.update(outcomes)
    told = ", ".join(f"{total[outcome]} {outcome}" for outcome in OUTCOMES)
    print(f"{num_builders} builders of one cache at once, {num_rounds} rounds: {told}; mixed: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
