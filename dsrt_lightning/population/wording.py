"""How problems are worded: the choices that exist, and the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

IDS = ("cache_id", "sample_id")
BUILT_IN = (*IDS, "weight")
_LISTED = 20


def unknown(kind: str, name: object, choices: Collection[str], plural: str) -> str:
    """Return e.g. ``unknown key 'cuont', did you mean 'count'? (keys: by, count)``."""
    return f"unknown {kind} {name!r}{guess(name, choices)} ({plural}: {listing(choices)})"


def missing_column(name: str, columns: Iterable[str], place: str = "the metadata") -> str:
    """Return that a column is not in a table, and which are."""
    stored = [column for column in columns if column not in BUILT_IN]
    return f"column {name!r} is not in {place}{guess(name, stored)} (columns: {listing(stored)})"


def guess(name: object, choices: Collection[str]) -> str:
    """Return ``, did you mean 'x'?`` where a choice is close to the name."""
    meant = closest(name, choices)
    return f", did you mean {meant!r}?" if meant else ""


def closest(name: object, choices: Collection[str]) -> str | None:
    """Return the choice that is spelt most like the name, if any is alike."""
    return next(iter(difflib.get_close_matches(str(name), choices, n=1)), None)


def listing(choices: Collection[str]) -> str:
    """Return the choices separated by commas, at most 20 of them."""
    names = list(choices)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (", ".join(names[:_LISTED]) or "none") + more
