"""Feed mutated bytes to the parsers written in Python; only their own refusals may come out.

python fuzz_parsers.py WORK NUM_EXECUTIONS [TARGET...]
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from corruption import limit_memory
from damage import sign_manifest
from small_caches import KINDS, build

from dsrt_lightning.errors import CorruptCacheError, DecodeError, FormatVersionError, UnknownCodecError
from dsrt_lightning.store.codecs import codec_class
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.codecs.pickle_codec import split_record
from dsrt_lightning.store.manifest import parse_manifest

REFUSALS = (CorruptCacheError, DecodeError, FormatVersionError, UnknownCodecError)
NUMBERS = [0, 1, 7, 8, 15, 16, 0x7F, 0x80, 0xFF, *(2**bits for bits in (16, 31, 32, 40, 62, 63, 64))]
WORDS = [b"null", b"true", b"[]", b"{}", b'"', b"\\ud800", b"../", b"1e999", b"NaN"]


RAGGED_SCHEMA = {
    "a": (np.uint8, ()),
    "b": (np.float64, (None, 2)),
    "c": (np.int16, (None, None)),
    "d": (np.int32, (0, None)),
}


@dataclass(frozen=True)
class Target:
    """A parser, and bytes that it accepts."""

    run: Callable[[bytes], object]
    seeds: list[bytes]


def parse_signed_manifest(content: bytes) -> None:
    """Parse a manifest as it is, and again with an identity that fits, so that the rest is reached too."""
    with suppress(*REFUSALS):
        parse_manifest(content, "manifest.json")
    manifest = parse_manifest(signed(content), "manifest.json")
    codec_class(manifest.codec.name).from_schema(manifest.codec.schema, "manifest.json")
    assert parse_manifest(manifest.to_bytes(), "manifest.json") == manifest


def signed(content: bytes) -> bytes:
    try:
        manifest = json.loads(content)
        sign_manifest(manifest)
        return json.dumps(manifest).encode()
    except (ValueError, AttributeError, RecursionError):
        return content


def decode_ragged(record: bytes) -> None:
    """Decode under a schema with scalars, ragged and empty axes, and look at every byte of what comes out."""
    for array in ArraysCodec(schema=RAGGED_SCHEMA).decode(memoryview(record)).values():
        np.asarray(array).tobytes()


def split_pickle(record: bytes) -> None:
    """Take a pickle record apart, without loading it."""
    stream, buffers = split_record(memoryview(record))
    assert len(stream) + sum(map(len, buffers)) <= len(record)


def targets(work: Path) -> dict[str, Target]:
    caches = [build(work / kind.name, kind).unwrap().path for kind in KINDS]
    codec = ArraysCodec(schema=RAGGED_SCHEMA)
    samples = [
        {"a": np.uint8(n), "b": np.ones((n, 2)), "c": np.ones((n, 3), np.int16), "d": np.ones((0, n), np.int32)}
        for n in range(3)
    ]
    pickled = codec_class("pickle")()
    return {
        "manifest": Target(parse_signed_manifest, [(cache / "manifest.json").read_bytes() for cache in caches]),
        "arrays": Target(decode_ragged, [b"".join(map(bytes, codec.encode(sample))) for sample in samples]),
        "pickle": Target(
            split_pickle, [b"".join(map(bytes, pickled.encode([np.ones(n), np.ones(3)]))) for n in range(3)]
        ),
    }


def mutated(seed: bytes, chooser: random.Random) -> bytes:
    """Return ``seed`` after one to four changes, of the kinds that parsers get wrong."""
    content = bytearray(seed)
    for _ in range(chooser.randint(1, 4)):
        at = chooser.randrange(len(content) + 1)
        match chooser.randrange(7):
            case 0:
                content[at : at + 1] = bytes([chooser.randrange(256)])
            case 1:
                del content[at : at + chooser.randint(1, 16)]
            case 2:
                content[at:at] = content[at : at + chooser.randint(1, 64)]
            case 3:  # a number in binary
                size = chooser.choice((1, 2, 4, 8))
                number = chooser.choice(NUMBERS) + chooser.randint(-1, 1)
                content[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")
            case 4:  # a number in text
                number = chooser.choice(NUMBERS) * chooser.choice((1, -1))
                content[at : at + chooser.randint(0, 4)] = str(number).encode()
            case 5:
                content[at:at] = chooser.choice(WORDS)
            case 6:
                del content[at:]
    return bytes(content)


def main(work: Path, num_executions: int, names: list[str]) -> None:
    limit_memory()
    chosen = {name: target for name, target in targets(work).items() if not names or name in names}
    chooser = random.Random(3)
    for name, target in chosen.items():
        counts: Counter[str] = Counter()
        for _ in range(num_executions // len(chosen)):
            content = mutated(chooser.choice(target.seeds), chooser)
            try:
                target.run(content)
                counts["accepted"] += 1
            except REFUSALS:
                counts["refused"] += 1
            except BaseException:
                print(f"finding for {name}: {content!r}", file=sys.stderr)
                raise
        total, refused = counts.total(), counts["refused"]
        print(f"mutated inputs of the {name} parser in Python: {total} ({refused} refused); findings: 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
