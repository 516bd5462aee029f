"""Press Ctrl-C at random times of a build.

python interrupts.py WORK NUM_INTERRUPTS
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from kills import check_after_death, is_complete
from scale import tell
from small_caches import KINDS, Kind, build, entries

INTERRUPTED = 3


def start_builder(root: Path, kind: Kind) -> int:
    """Build in a new process, and return its id; Ctrl-C is on from the moment the build begins."""
    ready, tell_ready = os.pipe()
    child = os.fork()
    if child:
        os.close(tell_ready)
        os.read(ready, 1)
        os.close(ready)
        return child
    try:
        os.write(tell_ready, b"1")
        build(root, kind).unwrap()
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    finally:
        os._exit(1)


def main(work: Path, num_interrupts: int) -> None:
    chooser = random.Random(5)
    longest_s = 0.01
    slowest_s = 0.0
    interrupted = attempts = left = 0
    while interrupted < num_interrupts:
        attempts += 1
        kind = chooser.choice(KINDS)
        root = work / str(attempts)
        root.mkdir()
        delay_s = chooser.uniform(0, longest_s)
        tell(f"{kind.name}: Ctrl-C after {delay_s} s, attempt {attempts}")
        child = start_builder(root, kind)
        time.sleep(delay_s)
        start = time.monotonic()
        os.kill(child, signal.SIGINT)
        _, status = os.waitpid(child, 0)
        slowest_s = max(slowest_s, time.monotonic() - start)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, INTERRUPTED, -signal.SIGINT), code
        longest_s *= 0.8 if code == 0 else 1.1
        interrupted += code == INTERRUPTED
        if not is_complete(root, kind):
            left += entries(root) != []
        check_after_death(root, kind)
        shutil.rmtree(root)
    print(f"Ctrl-C at a random time of a build: {interrupted}; longest wait {slowest_s:.2f} s; debris: {left}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
