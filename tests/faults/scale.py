"""How often a fault is tried: a few times in `make test`, in full in `make faults`; and which one is tried now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FULL = os.environ.get("DSRT_FAULTS") == "full"


def count(*, fast: T, full: T) -> T:
    """Return how often, how many, or which."""
    return full if FULL else fast


def tell(case: str) -> None:
    """Note what is tried next, for the report if this process dies of it."""
    Path(os.environ["DSRT_CASE"]).write_text(case)
