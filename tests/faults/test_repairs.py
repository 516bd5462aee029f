"""Whatever happens to a repair, no file is worse than before, and the next one finishes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scale import count


def test_repair_that_dies_or_fails_at_any_system_call_makes_no_file_worse(
    run_script: Callable[..., str], injector: Path
) -> None:
    run_script("repairs.py", count(fast=5, full=100), count(fast=17, full=1), preload=injector)
