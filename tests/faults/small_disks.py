"""Build on file systems that are too small, then on one that cannot be written; runs in a mount namespace of its own.

unshare --map-root-user --mount python small_disks.py WORK STEP_BYTES [KIND...]
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

from failing_calls import build_or_fail, check_failure
from scale import tell
from small_caches import KINDS, NAME, Kind, entries

from dsrt_lightning.store.build_results import BuildFailed, CacheBuilt
from dsrt_lightning.store.verify import verify_cache


def mount(root: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", root], check=True)


def fill_up(root: Path, kind: Kind, step_bytes: int) -> int:
    """Build with ever more room until it is enough; return how often it was not."""
    page = os.sysconf("SC_PAGESIZE")
    room = page
    while True:
        tell(f"{kind.name}: {room} bytes of disk")
        mount(root, f"size={room},mode=700")
        result = build_or_fail(root, kind)
        if isinstance(result, CacheBuilt):
            assert list(verify_cache(root / NAME)) == []
            subprocess.run(["umount", "--lazy", root], check=True)  # whoever looks into it may keep it busy
            return (room - page) // step_bytes
        check_failure(root, result, "write", errno.ENOSPC)
        assert entries(root) == [], entries(root)
        subprocess.run(["umount", "--lazy", root], check=True)  # whoever looks into it may keep it busy
        room += step_bytes


def write_protect(root: Path, kind: Kind) -> None:
    mount(root, "ro")
    result = build_or_fail(root, kind)
    assert isinstance(result, BuildFailed)
    check_failure(root, result, "open", errno.EROFS)
    subprocess.run(["umount", "--lazy", root], check=True)  # whoever looks into it may keep it busy


def main(work: Path, step_bytes: int, kinds: list[Kind]) -> None:
    root = work / "disk"
    root.mkdir()
    num_full = sum(fill_up(root, kind, step_bytes) for kind in kinds)
    for kind in kinds:
        write_protect(root, kind)
    print(f"disks too small: {num_full}, disks that cannot be written: {len(kinds)}; published or left behind: 0")


if __name__ == "__main__":
    chosen = sys.argv[3:]
    main(Path(sys.argv[1]), int(sys.argv[2]), [kind for kind in KINDS if not chosen or kind.name in chosen])
