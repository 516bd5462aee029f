from __future__ import annotations

import gc
import time
from collections import deque
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import flip_byte, truncate
from hypothesis import given
from hypothesis import strategies as st
from raw_caches import write_cache

from dsrt_lightning._core import BatchReader, RawReader, RecordLayout, ShardSet
from dsrt_lightning.errors import CorruptCacheError

COUNT = 300
IMAGES = np.random.default_rng(0).integers(0, 255, (COUNT, 5, 7), dtype=np.uint8)
LAYOUT = RecordLayout([("image", 1, [5, 7]), ("label", 8, [])])
RECORDS = [IMAGES[i].tobytes() + bytes(5) + np.int64(i).tobytes() for i in range(COUNT)]
OPTIONS: dict[str, Any] = {"threads": 2, "max_batches": 4, "max_bytes": 1 << 20}


@pytest.fixture
def shards(tmp_path: Path) -> ShardSet:
    return ShardSet([write_cache(tmp_path / "a", RECORDS, shard_bytes=4000)], "first")


@pytest.fixture
def reader(shards: ShardSet) -> BatchReader:
    return BatchReader(shards, LAYOUT, [1, 0], **OPTIONS)


def check(batch: list[Any], rows: np.ndarray) -> None:
    (labels, label_extents, label_shape), (images, image_extents, image_shape) = batch
    assert label_extents is None
    assert image_extents is None
    assert (label_shape, image_shape) == ((), (5, 7))
    assert images.dtype == labels.dtype == np.uint8
    assert (labels.view(np.int64)[:, 0] == rows).all()
    assert (images.reshape(-1, 5, 7) == IMAGES[rows]).all()


@pytest.mark.parametrize("level", [None, 3])
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_come_in_submission_order(tmp_path: Path, threads: int, level: int | None) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS, level=level)], "first")
    reader = BatchReader(shards, LAYOUT, [1, 0], **{**OPTIONS, "threads": threads})
    began = time.monotonic_ns()
    rng = np.random.default_rng(1)
    submitted: list[np.ndarray] = []
    for size in [1, 64, 300, 0, 5000, 2, 64, 64, 64]:
        submitted.append(rng.integers(0, COUNT, size))
        reader.submit(submitted[-1])
        if not reader.can_submit():
            check(reader.next(), submitted.pop(0))
    assert reader.pending == len(submitted)
    for rows in submitted:
        check(reader.next(), rows)
    stats = reader.stats()
    assert (stats["batches"], stats["records"]) == (9, 5559)
    assert stats["bytes"] >= 5559 * 43
    assert stats["read_ns"] > 0
    assert began <= stats["finished_ns"] <= time.monotonic_ns()


def test_submitted_rows_are_copied(reader: BatchReader) -> None:
    rows = np.arange(100)
    reader.submit(rows)
    rows[:] = 0
    check(reader.next(), np.arange(100))


@given(st.data())
def test_ragged_batches_equal_padding_by_hand(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12))
    wanted = data.draw(st.permutations([0, 1, 2]))
    level = data.draw(st.sampled_from([None, 1]))
    layout = RecordLayout([("x", 2, [None, 2, None]), ("y", 4, [None]), ("z", 8, [])])
    arrays = []
    for i, (a, b, c) in enumerate(shapes):
        x = np.arange(a * 2 * b, dtype=np.uint16).reshape(a, 2, b) + 1
        arrays.append((x, np.arange(c, dtype=np.int32) - i, np.float64(i)))

    def record(i: int) -> bytes:
        x, y, z = arrays[i]
        parts = np.array([x.shape[0], x.shape[2], y.shape[0]], np.uint64).tobytes()
        for array in (x, y, z):
            parts += bytes(-len(parts) % array.itemsize) + array.tobytes()
        return parts

    directory = tmp_path_factory.mktemp("ragged") / "a"
    shards = ShardSet([write_cache(directory, map(record, range(len(shapes))), level=level)], "first")
    reader = BatchReader(shards, layout, wanted, **OPTIONS)
    rows = np.array(data.draw(st.lists(st.integers(0, len(shapes) - 1), max_size=20)), np.int64)
    reader.submit(rows)
    for field, (raw, extents, shape) in zip(wanted, reader.next(), strict=True):
        chosen = [np.asarray(arrays[row][field]) for row in rows]
        dtype = (np.uint16, np.int32, np.float64)[field]
        padded = raw.view(dtype).reshape(len(rows), *shape) if raw.size else np.empty((len(rows), *shape), dtype)
        longest = tuple(max((array.shape[axis] for array in chosen), default=size) for axis, size in enumerate(shape))
        assert shape == longest
        for array, found in zip(chosen, padded, strict=True):
            expected = np.zeros(shape, dtype)
            expected[tuple(slice(size) for size in array.shape)] = array
            assert np.array_equal(found, expected)
        if field == 2:
            assert extents is None
        else:
            ragged = (0, 2) if field == 0 else (0,)
            assert extents is not None
            assert extents.tolist() == [[array.shape[axis] for axis in ragged] for array in chosen]


@pytest.mark.parametrize("level", [None, 3])
def test_whole_records_are_views_in_order(tmp_path: Path, level: int | None) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS, level=level)], "first")
    reader = RawReader(shards, **OPTIONS)
    rows = np.random.default_rng(2).integers(0, COUNT, 2000)
    reader.submit(rows)
    views = list(reader.next())
    del shards, reader
    gc.collect()
    assert [bytes(view) for view in views] == [RECORDS[row] for row in rows]
    assert all(view.readonly for view in views)


@pytest.mark.parametrize("level", [None, 3])
def test_touching_records_ahead_changes_nothing_about_them(tmp_path: Path, level: int | None) -> None:
    records = [bytes([i]) * (20_000 + i) for i in range(100)]
    shards = ShardSet([write_cache(tmp_path / "a", records, level=level)], "first")
    reader = RawReader(shards, threads=2, max_batches=4, max_bytes=1 << 30, touch_ahead=True)
    waiting = deque(np.random.default_rng(3).integers(0, 100, (40, 30)))
    taken: deque[np.ndarray] = deque()
    while waiting or taken:
        while waiting and reader.can_submit():
            reader.submit(waiting[0])
            taken.append(waiting.popleft())
        rows = taken.popleft()
        # Some batches are left half-read, as by a consumer that breaks off.
        count = len(rows) if rows[0] % 2 else 7
        assert [bytes(view) for view in islice(reader.next(), count)] == [records[row] for row in rows[:count]]


def test_records_that_are_touched_outlive_their_reader(tmp_path: Path) -> None:
    records = [bytes([i]) * 100_000 for i in range(40)]
    reader = RawReader(
        ShardSet([write_cache(tmp_path / "a", records)], "first"),
        threads=1,
        max_batches=2,
        max_bytes=1 << 30,
        touch_ahead=True,
    )
    reader.submit(np.arange(20))
    reader.submit(np.arange(20, 40))
    list(reader.next())
    views = reader.next()
    reader.close()
    del reader
    gc.collect()
    assert length_hint(views) == 20
    assert [bytes(view) for view in views] == records[20:]


def test_arrays_are_the_callers_own(reader: BatchReader) -> None:
    reader.submit(np.arange(64))
    (labels, _, _), (images, _, _) = reader.next()
    assert labels.flags.writeable
    assert images.flags.writeable
    assert labels.ctypes.data % 64 == images.ctypes.data % 64 == 0
    kept = images.copy()
    for _ in range(20):
        reader.submit(np.arange(100, 164))
        reader.next()
    reader.close()
    del reader
    gc.collect()
    assert (images == kept).all()


def test_memory_of_dropped_batches_is_used_again(reader: BatchReader) -> None:
    addresses = set()
    for _ in range(50):
        reader.submit(np.arange(64))
        (labels, _, _), (images, _, _) = reader.next()
        addresses.add(images.ctypes.data)
        del labels, images
    assert len(addresses) <= 2


def test_corrupt_record_is_reported_in_its_batch_and_later_ones_stay_readable(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS)], "first")
    flip_byte(tmp_path / "a/shards/000000.bin", 42 * 48)
    reader = BatchReader(shards, LAYOUT, [1, 0], **OPTIONS)
    for rows in (np.arange(42), np.arange(40, 50), np.arange(43, 90)):
        reader.submit(rows)
    check(reader.next(), np.arange(42))
    with pytest.raises(CorruptCacheError, match=r"a/shards/000000.bin: record 42 has checksum 0x\w+ but 0x\w+ is"):
        reader.next()
    check(reader.next(), np.arange(43, 90))


def test_shard_truncated_under_the_reader_fails_the_batch_and_not_the_process(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", [bytes(4096)] * 64)], "first")
    reader = BatchReader(shards, RecordLayout([("x", 1, [4096])]), [0], **OPTIONS)
    reader.submit(np.arange(64))
    reader.next()
    truncate(tmp_path / "a/shards/000000.bin", by=4096)
    reader.submit(np.arange(64))
    with pytest.raises(CorruptCacheError, match="record 63 cannot be read, the file has 258048 bytes but had 262144"):
        reader.next()


def test_removed_shard_stays_readable_while_it_is_open(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS)], "always")
    reader = BatchReader(shards, LAYOUT, [1, 0], **OPTIONS)
    reader.submit(np.arange(1))
    check(reader.next(), np.arange(1))
    (tmp_path / "a/shards/000000.bin").unlink()
    reader.submit(np.arange(COUNT))
    check(reader.next(), np.arange(COUNT))


def test_record_that_does_not_fit_the_schema_is_refused_with_both_sizes(shards: ShardSet) -> None:
    reader = BatchReader(shards, RecordLayout([("image", 1, [5, 8])]), [0], **OPTIONS)
    reader.submit(np.array([7]))
    with pytest.raises(CorruptCacheError, match="record 7 has 48 bytes but the schema says 40;"):
        reader.next()
    huge = BatchReader(shards, RecordLayout([("image", 1, [1 << 40])]), [0], **OPTIONS)
    huge.submit(np.array([7]))
    with pytest.raises(CorruptCacheError, match="record 7 has 48 bytes but the schema says 1099511627776;"):
        huge.next()


def test_misuse_is_refused(shards: ShardSet, reader: BatchReader) -> None:
    with pytest.raises(ValueError, match="no batch is pending"):
        reader.next()
    with pytest.raises(IndexError, match=r"row 300 is outside \[0, 300\)"):
        reader.submit(np.array([0, 300]))
    with pytest.raises(TypeError):
        reader.submit([1, 2])  # type: ignore[arg-type]
    for _ in range(4):
        reader.submit(np.array([0]))
    with pytest.raises(ValueError, match="4 batches are pending and max_batches is 4; take one first"):
        reader.submit(np.array([0]))
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match="the reader is closed"):
        reader.next()
    with pytest.raises(ValueError, match=r"field 2 is outside \[0, 2\)"):
        BatchReader(shards, LAYOUT, [2], **OPTIONS)
    with pytest.raises(
        ValueError, match="threads is 0, max_batches is 4, max_bytes is 1048576; each must be at least 1"
    ):
        BatchReader(shards, LAYOUT, [0], **{**OPTIONS, "threads": 0})
    with pytest.raises(ValueError, match="field 'a' has items of 3 bytes; choose 1, 2, 4, 8 or 16"):
        RecordLayout([("a", 3, [])])
