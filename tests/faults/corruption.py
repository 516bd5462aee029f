"""Flip each byte of each file of small caches, and truncate each file to every length.

python corruption.py WORK STRIDE [KIND...]
"""

from __future__ import annotations

import resource
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scale import tell
from small_caches import KINDS, Kind, build

from dsrt_lightning._core import BatchReader
from dsrt_lightning.errors import DsrtError
from dsrt_lightning.population.stored_columns import open_metadata
from dsrt_lightning.store.cache_set import Verify, open_caches

# Far more than reading these caches takes, far less than a length that nobody checked would ask for.
SPARE_BYTES = 256 << 20
ALL_BITS, ONE_BIT = 0xFF, 0x01  # With one bit flipped, a digit stays a digit.


def read_everything(path: Path, verify: Verify = "first") -> list[Any]:
    """Return all records, read one by one and in batches, and the metadata, in a form that can be compared."""
    caches = open_caches(path, verify=verify, allow_pickle=True)
    codec, rows = caches.codec, np.arange(caches.num_records)
    found: list[Any] = [plain(codec.decode(record)) for record in caches.shards.read_many(rows)]
    if codec.name == "arrays":
        fields = codec.fields
        reader = BatchReader(
            caches.shards, codec.layout(), range(len(fields)), threads=1, max_batches=1, max_bytes=1 << 20
        )
        reader.submit(rows)
        found += [(data.tobytes(), None if extents is None else extents.tolist()) for data, extents, _ in reader.next()]
        reader.close()
    for batch in open_metadata(caches.caches[0], verify=verify != "never"):
        found += batch.to_pylist()
    return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(below) for key, below in value.items()}
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray | np.generic) else value


def records_of_shards(path: Path) -> Iterator[tuple[int, str, range]]:
    """Yield each record's number, the shard it lies in, and which bytes of it."""
    content = (path / "index.bin").read_bytes()[64:]
    for sample_id, (offset, size, shard, _) in enumerate(struct.iter_unpack("<QQII", content)):
        yield sample_id, f"shards/{shard:06d}.bin", range(offset, offset + size)


class Damaged:
    """A cache of which one file at a time is damaged and then restored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.expected = read_everything(path)
        self.files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
        self.records = list(records_of_shards(path))

    def outcome(self, file: str, content: bytes, record: int | None, verify: Verify = "first") -> str:
        """Read everything with other ``content`` in ``file``; an error must name the file and the record."""
        sound = (self.path / file).read_bytes()
        (self.path / file).write_bytes(content)
        try:
            found = read_everything(self.path, verify)
        except (DsrtError, OSError) as error:
            text = str(error)
            assert verify == "never" or f"{self.path}/{file}" in text, text
            assert verify == "never" or record is None or f"record {record} " in text, f"not record {record}: {text}"
            return "refused"
        finally:
            (self.path / file).write_bytes(sound)
        if verify == "never":
            return "read"
        assert found == self.expected, "wrong bytes"
        return "harmless"

    def record_at(self, file: str, offset: int) -> int | None:
        return next((number for number, shard, covered in self.records if shard == file and offset in covered), None)


def flip_each_byte(cache: Damaged, kind: Kind, stride: int, verify: Verify, counts: Counter[str]) -> None:
    for file in cache.files:
        sound = (cache.path / file).read_bytes()
        for offset in range(0, len(sound), stride):
            for mask in (ALL_BITS, ONE_BIT) if file == "manifest.json" or verify == "never" else (ALL_BITS,):
                tell(f"{kind.name}: {file}: byte {offset} ^ {mask:#x}, verify {verify}")
                content = bytearray(sound)
                content[offset] ^= mask
                counts[cache.outcome(file, bytes(content), cache.record_at(file, offset), verify)] += 1


def truncate_to_every_length(cache: Damaged, kind: Kind, stride: int, counts: Counter[str]) -> None:
    for file in cache.files:
        sound = (cache.path / file).read_bytes()
        for length in range(0, len(sound), stride):
            tell(f"{kind.name}: {file}: {length} bytes of {len(sound)}")
            outcome = cache.outcome(file, sound[:length], None)
            # The manifest's last byte is the end of its last line.
            assert outcome == "refused" or (file == "manifest.json" and length == len(sound) - 1)
            counts[outcome] += 1


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES,) * 2)


def main(work: Path, stride: int, kinds: list[Kind]) -> None:
    caches = {kind: Damaged(build(work / kind.name, kind).unwrap().path) for kind in kinds}
    limit_memory()
    flipped: Counter[str] = Counter()
    unverified: Counter[str] = Counter()
    truncated: Counter[str] = Counter()
    for kind, cache in caches.items():
        flip_each_byte(cache, kind, stride, "first", flipped)
        truncate_to_every_length(cache, kind, stride, truncated)
        if kind.codec != "pickle":  # Whose bytes, unverified, are code.
            flip_each_byte(cache, kind, stride, "never", unverified)
    print(f"flipped bytes: {flipped.total()} ({flipped['refused']} refused, {flipped['harmless']} harmless); wrong: 0")
    print(f"flipped bytes with verify='never': {unverified.total()} ({unverified['refused']} refused); signals: 0")
    print(f"truncated files: {truncated.total()} ({truncated['refused']} refused); wrong: 0")


if __name__ == "__main__":
    chosen = sys.argv[3:]
    main(Path(sys.argv[1]), int(sys.argv[2]), [kind for kind in KINDS if not chosen or kind.name in chosen])
