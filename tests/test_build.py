"""build_caches: what is built comes back, with what it tells on the way."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from building import Items, build, files, inputs, records

from dsrt_lightning.errors import (
    BuildError,
)
from dsrt_lightning.store.build_results import BuildFailed, CacheBuilt, raise_for_failures
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.codecs.pickle_codec import PickleCodec
from dsrt_lightning.store.manifest import Compression
from dsrt_lightning.store.sources import CacheInput
from dsrt_lightning.store.verify import verify_cache

COMPRESSIONS = ["none", "zstd", Compression(level=-1), Compression(level=19, dictionary_bytes=512)]


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
@pytest.mark.parametrize("codec", ["bytes", "arrays", "pickle"])
def test_records_and_metadata_come_back_in_order(tmp_path: Path, codec: str, compression: str | Compression) -> None:
    rng = np.random.default_rng(0)
    samples: list[Any] = [{"x": rng.integers(0, 3, 50, np.uint8), "i": i} for i in range(300)]
    if codec == "bytes":
        samples = [b"a" * (i % 40) + bytes([i % 256]) for i in range(300)]
    source = Items("s", [CacheInput(sample, {"i": i, "even": i % 2 == 0}) for i, sample in enumerate(samples)])
    (built,) = build(source, tmp_path, codec=codec, compression=compression, shard_bytes=1000)
    assert built == CacheBuilt("s", tmp_path / "s", 300, built.raw_bytes, built.stored_bytes, built.seconds)
    caches = open_caches(built.path, allow_pickle=True)
    for i, sample in enumerate(samples):
        decoded = caches.codec.decode(caches.shards.read(i))
        if codec == "bytes":
            assert decoded == sample
        else:
            assert decoded["i"] == i
            np.testing.assert_array_equal(decoded["x"], sample["x"])
    metadata = pl.read_ipc(caches.caches[0].metadata_path)
    assert metadata["i"].to_list() == list(range(300))
    assert list(verify_cache(built.path)) == []
    assert (built.raw_bytes == built.stored_bytes) == (compression == "none")


def test_results_come_in_the_sources_order_and_a_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    results = build([Items("b", inputs()), Items("a", []), Items("c", inputs())], tmp_path)
    assert [(type(result), result.name, result.path) for result in results] == [
        (CacheBuilt, "b", tmp_path / "b"),
        (BuildFailed, "a", tmp_path / "a"),
        (CacheBuilt, "c", tmp_path / "c"),
    ]
    assert sorted(os.listdir(tmp_path)) == ["b", "c"]


def test_a_failure_is_a_warning_too_for_those_who_ignore_the_result(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"source 'a' was not built: source 'a': it yielded no records") as caught:
        build(Items("a", []), tmp_path)
    assert len(caught) == 1


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_equal_input_gives_equal_bytes_whatever_the_threads(tmp_path: Path, compression: str | Compression) -> None:
    items = [CacheInput({"x": np.full(i % 7, i % 5), "y": i}, {"i": i, "s": str(i)}) for i in range(500)]
    built = []
    for threads, pending in [(1, 1), (3, 1 << 20)]:
        (result,) = build(
            Items("s", items),
            tmp_path / f"{threads}",
            codec=ArraysCodec(ragged={"x": [0]}),
            compression=compression,
            shard_bytes=3000,
            threads=threads,
            max_pending_bytes=pending,
        )
        built.append(files(result.unwrap().path))
    assert built[0] == built[1]
    assert {"manifest.json", "index.bin", "metadata.arrow", "shards/000000.bin"} <= set(built[0])


def test_another_name_or_fingerprint_makes_another_identity(tmp_path: Path) -> None:
    results = build([Items("a", inputs()), Items("b", inputs()), Items("c", inputs(), "v1")], tmp_path)
    assert len({open_caches(result.path).identities for result in results}) == 3


def test_shards_rotate_at_their_size_and_a_larger_record_stays_whole(tmp_path: Path) -> None:
    sizes = [40, 40, 40, 250, 0, 60, 40]
    build(Items("s", [CacheInput(bytes(size)) for size in sizes]), tmp_path, shard_bytes=100)
    shards = sorted((tmp_path / "s/shards").iterdir())
    assert [(shard.name, shard.stat().st_size) for shard in shards] == [
        ("000000.bin", 80),
        ("000001.bin", 40),
        ("000002.bin", 250),
        ("000003.bin", 100),
    ]
    assert [len(record) for record in records(tmp_path / "s")] == sizes


def test_categories_and_enums_are_given_by_the_metadata_schema(tmp_path: Path) -> None:
    items = [CacheInput(b"", {"c": "ab"[i % 2], "e": "y"}) for i in range(4)]
    build(Items("s", items), tmp_path, metadata_schema={"c": pl.Categorical, "e": pl.Enum(["x", "y"])})
    schema = pl.scan_ipc(tmp_path / "s/metadata.arrow").collect_schema()
    assert schema == {"c": pl.Categorical(), "e": pl.Enum(["x", "y"])}


def test_every_source_has_a_schema_of_its_own(tmp_path: Path) -> None:
    results = build(
        [Items("a", [CacheInput({"x": 1})]), Items("b", [CacheInput({"y": 1.5})])], tmp_path, codec="arrays"
    )
    assert [open_caches(result.path).codec.fields[0].name for result in results] == ["x", "y"]


def test_codec_with_options_is_used_for_every_source_afresh(tmp_path: Path) -> None:
    codec = PickleCodec()
    results = build([Items("a", inputs()), Items("b", inputs())], tmp_path, codec=codec)
    assert all(isinstance(result, CacheBuilt) for result in results)


# --- results


def test_raise_for_failures_returns_good_results_and_raises_the_one_error(tmp_path: Path) -> None:
    good = build([Items("a", inputs()), Items("b", inputs())], tmp_path)
    assert raise_for_failures(good) == good
    with pytest.raises(BuildError, match=r"^source 'c': it yielded no records"):
        raise_for_failures([*good, *build(Items("c", []), tmp_path)])


def test_raise_for_failures_lists_several(tmp_path: Path) -> None:
    results = build([Items("a", inputs()), Items("b", []), Items("c", [])], tmp_path)
    with pytest.raises(
        BuildError, match=r"^2 of 3 caches failed:\n  b: source 'b': it .*\n  c: source 'c': it yielded"
    ):
        raise_for_failures(results)


# --- progress


def output_of(action: Callable[[], object]) -> str:
    captured = io.StringIO()
    with redirect_stderr(captured), redirect_stdout(captured):
        action()
    return captured.getvalue()


def test_progress_shows_records_and_rates(tmp_path: Path) -> None:
    shown = output_of(lambda: build(Items("digits", inputs()), tmp_path, progress=True))
    assert all(part in shown for part in ("digits", "5 records", "records/s", "MB/s"))


def test_progress_off_prints_nothing(tmp_path: Path) -> None:
    assert output_of(lambda: build([Items("a", inputs()), Items("b", [])], tmp_path)) == ""
