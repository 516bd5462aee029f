"""Faults in this process's own system calls; it must run under ``LD_PRELOAD`` of the compiled csrc/faults/inject.c."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

KILL, HALVE = -1, -2


class Injector:
    """Numbers the system calls on a directory and lets one of them fail."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.fault_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int)
        self._library.fault_count.restype = ctypes.c_long
        self._library.fault_fired.restype = self._library.fault_log.restype = ctypes.c_char_p

    def watch(self, directory: Path) -> None:
        """Count from now on the calls on ``directory`` and what lies in it, and let all succeed."""
        self._library.fault_watch(os.fsencode(directory))

    def arm(self, number: int, fault: int, *, call: str = "", sticks: bool = False) -> None:
        """Let call ``number`` fail with an errno, or with `KILL` or `HALVE`; with ``sticks`` also those like it."""
        self._library.fault_arm(call.encode(), number, fault)
        if sticks:
            self._library.fault_stick()

    def disarm(self) -> str:
        """Let all calls succeed, and return the name of the one that failed, or ""."""
        fired = self._library.fault_fired().decode()
        self._library.fault_watch(b"")
        return fired

    def log(self) -> list[tuple[str, str]]:
        """Return name and path of the calls so far."""
        return [tuple(line.split(" ", 1)) for line in self._library.fault_log().decode().splitlines()]
