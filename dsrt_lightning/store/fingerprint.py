"""Fingerprints of files, for sources whose data lie in files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_READ_BYTES = 1 << 20


def fingerprint_files(files: Iterable[tuple[str, Path]], *, choices: object = None) -> str:
    """Return the SHA-256, in hex, of files' names and contents; every file is read once.

    Args:
        files: Each file's name in the fingerprint, so that a moved folder keeps its own, and its path.
        choices: What else decides about the records, by its ``repr``.
    """
    total = hashlib.sha256(repr(choices).encode())
    for name, path in files:
        contents = hashlib.sha256()
        with path.open("rb") as file:
            for block in iter(lambda: file.read(_READ_BYTES), b""):
                contents.update(block)
        total.update(hashlib.sha256(name.encode()).digest() + contents.digest())
    return total.hexdigest()
