"""Codec `pickle`: any object, its buffers viewed in place."""

from __future__ import annotations

import pickle
import random
import re
import struct
from typing import Any

import numpy as np
import pytest

from dsrt_lightning._core import split_pickle_record
from dsrt_lightning.errors import CorruptCacheError, DecodeError, EncodeError
from dsrt_lightning.store.codecs.pickle_codec import PickleCodec, split_record


def encode(sample: object) -> bytes:
    return b"".join(PickleCodec().encode(sample))


def decode(record: bytes) -> Any:
    return PickleCodec().decode(memoryview(record))


@pytest.mark.parametrize("sample", [None, 7, "text", {"a": [1, (2, b"3")]}, {1, 2}, b"x" * 100_000])
def test_objects_without_buffers_come_back(sample: object) -> None:
    record = encode(sample)
    assert decode(record) == sample
    assert record[:16] == struct.pack("<QQ", 0, len(record) - 16)


def test_arrays_come_back_as_read_only_views_of_the_record() -> None:
    sample = {"image": np.arange(12, dtype=np.uint8).reshape(3, 4), "x": np.array([1.5]), "none": np.zeros(0)}
    record = np.frombuffer(encode(sample), np.uint8)
    decoded = PickleCodec().decode(memoryview(record))
    assert list(decoded) == ["image", "x", "none"]
    for name, array in sample.items():
        np.testing.assert_array_equal(decoded[name], array)
        assert decoded[name].dtype == array.dtype
    assert np.shares_memory(decoded["image"], record)
    assert not decoded["image"].flags.writeable


def test_buffers_start_at_multiples_of_16() -> None:
    record = encode([np.full(5, 0x11, np.uint8), np.full(40, 0x22, np.uint8)])
    num_buffers, pickle_bytes, first, second = struct.unpack_from("<QQQQ", record)
    assert (num_buffers, first, second) == (2, 5, 40)
    start = -(-(32 + pickle_bytes) // 16) * 16
    assert record[start : start + 5] == b"\x11" * 5
    assert record[start + 5 : start + 16] == bytes(11)
    assert record[start + 16 :] == b"\x22" * 40


def test_in_band_arrays_come_back_writable_and_apart_from_the_record() -> None:
    codec = PickleCodec(in_band=True)
    record = np.frombuffer(b"".join(codec.encode({"image": np.arange(40)})), np.uint8)
    decoded = codec.decode(memoryview(record))
    np.testing.assert_array_equal(decoded["image"], np.arange(40))
    assert decoded["image"].flags.writeable
    assert not np.shares_memory(decoded["image"], record)


@pytest.mark.parametrize("in_band", [False, True])
def test_the_schema_keeps_where_buffers_are(in_band: bool) -> None:
    codec = PickleCodec(in_band=in_band)
    for same in (codec.fresh(), PickleCodec.from_schema(codec.schema(), "manifest.json")):
        assert repr(same) == repr(codec)
        assert same.accepts(codec.schema())
        assert not same.accepts(PickleCodec(in_band=not in_band).schema())


@pytest.mark.parametrize("schema", [{"in_band": False}, {"in_band": 1}, {"fields": []}])
def test_another_schema_is_refused(schema: Any) -> None:
    with pytest.raises(
        CorruptCacheError, match=f"caches/x/manifest.json: codec.schema is {re.escape(str(schema))} but"
    ):
        PickleCodec.from_schema(schema, "caches/x/manifest.json")


def test_what_cannot_be_pickled_is_refused_with_the_cause() -> None:
    with pytest.raises(EncodeError, match="a function cannot be pickled") as caught:
        encode(lambda: 1)
    assert caught.value.__cause__ is not None


RECORD = encode({"x": np.arange(3, dtype=np.int16)})


@pytest.mark.parametrize("size", range(len(RECORD)))
def test_truncated_record_is_refused_with_its_size(size: int) -> None:
    with pytest.raises(DecodeError, match=f"the record has {size} bytes but"):
        decode(RECORD[:size])


@pytest.mark.parametrize("offset", [0, 8, 16])
@pytest.mark.parametrize("number", [2**64 - 1, 2**32, 1 << 20])
def test_huge_numbers_in_the_header_are_refused_before_anything_is_allocated(offset: int, number: int) -> None:
    record = bytearray(RECORD)
    struct.pack_into("<Q", record, offset, number)
    with pytest.raises(DecodeError, match=str(len(RECORD))):
        decode(bytes(record))


def test_record_that_does_not_unpickle_says_why() -> None:
    record = struct.pack("<QQ", 0, 4) + b"nope"
    with pytest.raises(DecodeError, match="the record does not unpickle: UnpicklingError") as caught:
        decode(record)
    assert isinstance(caught.value.__cause__, pickle.UnpicklingError)


def test_the_core_splits_records_as_python_does_and_refuses_the_same():
    chooser = random.Random(0)
    sample = {"a": np.arange(30), "b": [np.ones(3, np.float32), "text"], "empty": np.empty(0)}
    record = b"".join(bytes(part) for part in PickleCodec().encode(sample))
    num_refused = 0
    for _ in range(2000):
        changed = bytearray(record[: chooser.choice([len(record), chooser.randrange(len(record) + 1)])])
        for _ in range(chooser.randrange(3)):
            if changed:
                changed[chooser.randrange(min(64, len(changed)))] = chooser.choice([0, 1, 2, 16, 255])
        found = split_pickle_record(memoryview(bytes(changed)))
        try:
            stream, buffers = split_record(memoryview(bytes(changed)))
        except DecodeError:
            assert found is None
            num_refused += 1
        else:
            assert found == (stream, buffers)
    assert 0 < num_refused < 2000
