"""What a table was measured with."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("torch", "numpy", "polars", "zstandard")
_VERSION = "from importlib.metadata import version; import sys; print(version(sys.argv[1]))"


def describe(pythons: Mapping[str, str]) -> list[str]:
    """Return one line each on the machine, its load, the system, and the packages of each interpreter."""
    lines = [
        f"CPU: {_cpu()}, {len(os.sched_getaffinity(0))} for this process; load before the run {os.getloadavg()[0]:.1f}",
        f"Python {platform.python_version()}, {platform.system()} {platform.release()}",
        "ours and limits: " + ", ".join(f"{name} {_version(pythons['ours'], name)}" for name in PACKAGES),
    ]
    if "datasetrt" in pythons:
        packages = ("dataset-rt", *PACKAGES[:3])
        lines.append("baseline: " + ", ".join(f"{name} {_version(pythons['datasetrt'], name)}" for name in packages))
    return lines


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(python: str, package: str) -> str:
    done = subprocess.run([python, "-c", _VERSION, package], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "missing"
