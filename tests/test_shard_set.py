from __future__ import annotations

import gc
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import zstandard
from damage import flip_byte, truncate
from raw_caches import write_cache

from dsrt_lightning._core import RawReader, ShardSet
from dsrt_lightning.errors import CorruptCacheError

RECORDS = [f"record {i}".encode() * (i % 7) for i in range(200)]


def dictionary() -> bytes:
    return zstandard.train_dictionary(1024, [record + os.urandom(4) for record in RECORDS * 20]).as_bytes()


@pytest.mark.parametrize(
    "options",
    [{}, {"alignment": 16, "shard_bytes": 500}, {"level": 3}, {"level": 3, "dictionary": dictionary()}],
    ids=["plain", "many shards", "zstd", "dictionary"],
)
@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_what_was_written_is_read_whatever_the_storage(tmp_path: Path, options: dict, verify: str) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS, **options)], verify)
    assert [bytes(shards.read(row)) for row in range(200)] == RECORDS
    rows = np.array([5, 199, 0, 5])
    assert [bytes(view) for view in shards.read_many(rows)] == [RECORDS[row] for row in rows]
    assert shards.verify_cache(0) == []


def test_rows_run_through_the_caches_in_the_given_order(tmp_path: Path) -> None:
    caches = [
        write_cache(tmp_path / "a", RECORDS[:3]),
        write_cache(tmp_path / "b", RECORDS[3:10], level=3, dictionary=dictionary()),
        write_cache(tmp_path / "c", RECORDS[10:], level=1),
    ]
    shards = ShardSet(caches, "first")
    assert (shards.num_records, shards.bases) == (200, [0, 3, 10])
    assert [bytes(view) for view in shards.read_many(np.arange(200))] == RECORDS
    assert bytes(shards.read(7)) == RECORDS[7]


def test_no_cache_at_all_is_an_empty_set() -> None:
    shards = ShardSet([], "first")
    assert (shards.num_records, shards.bases) == (0, [])
    assert shards.read_many(np.array([], np.int64)) == []


def test_views_are_read_only_and_outlive_the_set(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS), write_cache(tmp_path / "z", RECORDS, level=3)], "first")
    views = [shards.read(6), *shards.read_many(np.array([13, 206]))]
    assert all(view.readonly for view in views)
    with pytest.raises(TypeError, match="cannot modify read-only memory"):
        views[0][0] = 1
    del shards
    gc.collect()
    assert [bytes(view) for view in views] == [RECORDS[6], RECORDS[13], RECORDS[6]]


def test_plain_views_of_the_same_record_share_the_map(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS)], "first")
    first, second = np.frombuffer(shards.read(5), np.uint8), np.frombuffer(shards.read(5), np.uint8)
    assert np.shares_memory(first, second)


def test_wrong_rows_are_refused(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS)], "first")
    with pytest.raises(IndexError, match=r"row 200 is outside \[0, 200\)"):
        shards.read(200)
    with pytest.raises(IndexError, match=r"row -1 is outside \[0, 200\)"):
        shards.read_many(np.array([3, -1]))
    with pytest.raises(TypeError):
        shards.read_many(np.array([0.5]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows has 2 dimensions but 1 is expected"):
        shards.read_many(np.zeros((2, 2), np.int64))
    with pytest.raises(IndexError, match=r"cache 1 is outside \[0, 1\)"):
        shards.verify_cache(1)
    with pytest.raises(ValueError, match="verify is 'sometimes'; choose first, always or never"):
        ShardSet([], "sometimes")  # type: ignore[arg-type]


def test_rows_with_strides_are_taken_as_they_read(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS)], "first")
    assert [bytes(view) for view in shards.read_many(np.arange(200)[::-2])] == RECORDS[::-2]


def test_flipped_payload_byte_is_reported_with_shard_and_record(tmp_path: Path) -> None:
    files = write_cache(tmp_path / "a", [b"zero", b"one", b"two"])
    flip_byte(tmp_path / "a/shards/000000.bin", 5)
    message = f"{tmp_path}/a/shards/000000.bin: record 1 has checksum 0x8977966a but 0x2a94b2e9 is expected; restore"
    with pytest.raises(CorruptCacheError, match=message):
        ShardSet([files], "first").read(1)
    assert bytes(ShardSet([files], "first").read(2)) == b"two"
    (problem,) = ShardSet([files], "never").verify_cache(0)
    assert problem.startswith(message)


def test_flipped_index_byte_is_refused_on_opening(tmp_path: Path) -> None:
    files = write_cache(tmp_path / "a", RECORDS)
    flip_byte(tmp_path / "a/index.bin", -1)
    with pytest.raises(CorruptCacheError, match=r"a/index.bin: the file has checksum 0x\w{8} but 0x\w{8} is expected"):
        ShardSet([files], "first")


def test_truncated_shard_is_refused_with_both_sizes(tmp_path: Path) -> None:
    files = write_cache(tmp_path / "a", [b"0123456789"])
    truncate(tmp_path / "a/shards/000000.bin", by=4)
    with pytest.raises(CorruptCacheError, match=r"a/shards/000000.bin: has 6 bytes but the manifest says 10;"):
        ShardSet([files], "first").read(0)


def test_missing_shard_is_an_os_error_with_its_name(tmp_path: Path) -> None:
    files = write_cache(tmp_path / "a", [b"0123456789"])
    (tmp_path / "a/shards/000000.bin").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        ShardSet([files], "first").read(0)
    assert caught.value.filename == f"{tmp_path}/a/shards/000000.bin"


def test_shard_truncated_under_the_map_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", [bytes(4096)] * 10)], "always")
    assert len(shards.read(9)) == 4096
    truncate(tmp_path / "a/shards/000000.bin", by=4096)
    with pytest.raises(CorruptCacheError, match="record 9 cannot be read, the file has 36864 bytes but had 40960 when"):
        shards.read(9)
    assert len(shards.read(8)) == 4096


def test_the_guard_survives_that_signal_handlers_are_reset_as_trainers_do(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", [bytes(4096)] * 10)], "always")
    assert len(shards.read(9)) == 4096
    signal.signal(signal.SIGBUS, signal.SIG_DFL)
    truncate(tmp_path / "a/shards/000000.bin", by=4096)
    with pytest.raises(CorruptCacheError, match="record 9 cannot be read"):
        shards.read(9)
    reader = RawReader(shards, threads=1, max_batches=1, max_bytes=1 << 20)
    signal.signal(signal.SIGBUS, signal.SIG_DFL)
    reader.submit(np.array([9]))
    with pytest.raises(CorruptCacheError, match="record 9 cannot be read"):
        reader.next()
    signal.signal(signal.SIGBUS, signal.SIG_DFL)
    (problem,) = shards.verify_cache(0)
    assert "36864 bytes" in problem


def test_verifying_reports_progress_and_stops_when_that_raises(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", [bytes(1 << 20)] * 40, shard_bytes=16 << 20)], "never")
    done: list[int] = []
    assert shards.verify_cache(0, done.append) == []
    assert done == sorted(done)
    assert done[-1] == 40
    assert len(done) > 1

    def stop(num_done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shards.verify_cache(0, stop)


def test_opened_caches_hold_no_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    shards = ShardSet([write_cache(tmp_path / str(i), RECORDS, shard_bytes=500) for i in range(20)], "first")
    assert len(shards.read_many(np.arange(4000))) == 4000
    assert len(os.listdir("/proc/self/fd")) == before


def test_threads_may_read_one_set_at_once(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS, level=3)], "first")
    wrong: list[int] = []

    def read_all() -> None:
        wrong.extend(row for row in range(200) if bytes(shards.read(row)) != RECORDS[row])

    threads = [threading.Thread(target=read_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_forked_child_may_read_the_opened_set(tmp_path: Path) -> None:
    shards = ShardSet([write_cache(tmp_path / "a", RECORDS, level=3)], "first")
    shards.read(1)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(7 if [bytes(shards.read(row)) for row in range(200)] == RECORDS else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
