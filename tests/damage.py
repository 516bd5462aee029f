"""Named ways to damage a file or a cache, for tests that say what is then reported."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

from dsrt_lightning._core import crc32c


def flip_byte(path: Path, offset: int) -> None:
    """Invert the bits of one byte; a negative offset counts from the end."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


def break_record(cache: Path, sample_id: int) -> None:
    """Invert the first stored byte of a record."""
    offset, _, shard, _ = struct.unpack_from("<QQII", (cache / "index.bin").read_bytes(), 64 + 24 * sample_id)
    flip_byte(cache / f"shards/{shard:06d}.bin", offset)


def truncate(path: Path, *, by: int) -> None:
    """Remove the last bytes."""
    os.truncate(path, path.stat().st_size - by)


def extend(path: Path, *, by: int) -> None:
    """Append zeros."""
    os.truncate(path, path.stat().st_size + by)


def swap(first: Path, second: Path) -> None:
    """Exchange the contents of two files."""
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])


def edit_manifest(cache: Path, *keys: str | int, to: Any, sign: bool = True) -> None:
    """Replace the value under ``keys`` (``"files", 0, "bytes"``); with ``sign`` the identity fits again."""
    path = cache / "manifest.json"
    manifest = json.loads(path.read_bytes())
    *parents, last = keys
    target = manifest
    for key in parents:
        target = target[key]
    target[last] = to
    if sign:
        sign_manifest(manifest)
    path.write_text(json.dumps(manifest))


def forge(cache: Path, file: str) -> None:
    """Let the manifest agree with a file as it is now: size, checksum, and an identity that fits."""
    content = (cache / file).read_bytes()
    files = json.loads((cache / "manifest.json").read_bytes())["files"]
    ordinal = [entry["path"] for entry in files].index(file)
    edit_manifest(cache, "files", ordinal, to={"path": file, "bytes": len(content), "crc32c": crc32c(content)})


def sign_manifest(manifest: dict[str, Any]) -> None:
    """Give it the identity and the cache_id of its content."""
    header = ("format", "version", "cache_id", "identity")
    content = {key: value for key, value in manifest.items() if key not in header}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    manifest["identity"] = hashlib.sha256(canonical.encode()).hexdigest()
    manifest["cache_id"] = int(manifest["identity"][:16], 16) >> 1
