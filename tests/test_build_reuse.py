"""build_caches: what is there is reused where it fits, and kept where it does not."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from building import Items, Unreadable, build, files, inputs
from damage import flip_byte

from dsrt_lightning.errors import (
    BuildError,
    CacheBusyError,
    CorruptCacheError,
    FingerprintMismatchError,
    OptionsMismatchError,
)
from dsrt_lightning.store.build_results import CacheBuilt, CacheReused
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.publication import locked
from dsrt_lightning.store.sources import CacheInput
from dsrt_lightning.store.verify import verify_cache


def test_complete_cache_is_reused_without_reading_the_source(tmp_path: Path) -> None:
    build(Items("s", inputs(), "v1"), tmp_path)
    before = files(tmp_path)
    assert build(Unreadable("s", "v1"), tmp_path) == [CacheReused("s", tmp_path / "s", 5)]
    assert files(tmp_path) == before


def test_cache_is_reused_where_neither_side_has_a_fingerprint(tmp_path: Path) -> None:
    build(Items("s", inputs()), tmp_path)
    assert build(Unreadable("s"), tmp_path) == [CacheReused("s", tmp_path / "s", 5, is_compared=False)]


def test_reuse_without_a_fingerprint_is_told_unless_progress_is_off(tmp_path: Path, capsys: Any) -> None:
    for fingerprint, progress, expected in [(None, True, 1), (None, False, 0), ("v1", True, 0)]:
        name = str(fingerprint)
        build(Items(name, inputs(), fingerprint), tmp_path)
        capsys.readouterr()
        build(Unreadable(name, fingerprint), tmp_path, progress=progress)
        line = f"{tmp_path / name}: reused without comparing: no fingerprint"
        assert capsys.readouterr().err.count(line) == expected


@pytest.mark.parametrize(("before", "after"), [("v1", "v2"), (None, "v1"), ("v1", None)])
def test_changed_fingerprint_is_refused_with_both_and_the_cache_kept(
    tmp_path: Path, before: str | None, after: str | None
) -> None:
    build(Items("s", inputs(), before), tmp_path)
    kept = files(tmp_path)
    (result,) = build(Unreadable("s", after), tmp_path)
    with pytest.raises(
        FingerprintMismatchError,
        match=f"^{tmp_path}/s: was built from fingerprint {before!r} but the source has {after!r}; remove the cache",
    ):
        result.unwrap()
    assert files(tmp_path) == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "pickle"}, "codec 'arrays' but 'pickle' is asked for"),
        (
            {"codec": ArraysCodec(ragged={"x": [0]})},
            r"codec 'arrays' and schema .*'shape': \[3\].* but ArraysCodec\(ragged=\{'x': \[0\]\}\)",
        ),
        (
            {"codec": ArraysCodec({"x": ("int8", (3,))})},
            r"codec 'arrays' and schema .* but ArraysCodec\(schema=\{'x': \('int8', \(3,\)\)\}\)",
        ),
        ({"compression": "zstd"}, "compression none but zstd level 3 is asked for"),
        ({"metadata_schema": {"m": pl.Int8}}, "metadata column 'm' as int64 but int8 is asked for"),
        ({"metadata_schema": {"n": pl.Int8}}, "metadata column 'n' as nothing but int8 is asked for"),
    ],
)
def test_cache_built_with_other_options_is_refused_with_both(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    build(Items("s", [CacheInput({"x": np.zeros(3)}, {"m": 1})]), tmp_path, codec="arrays")
    (result,) = build(Unreadable("s"), tmp_path, **{"codec": "arrays", **options})
    with pytest.raises(
        OptionsMismatchError, match=f"^{tmp_path}/s: was built with {message}.*; use it as it is, or remove"
    ):
        result.unwrap()


def test_other_shard_size_or_threads_do_not_keep_a_cache_from_reuse(tmp_path: Path) -> None:
    build(Items("s", inputs()), tmp_path)
    assert isinstance(build(Unreadable("s"), tmp_path, shard_bytes=10, threads=1)[0], CacheReused)


def test_damaged_manifest_is_reported_and_nothing_is_overwritten(tmp_path: Path) -> None:
    build(Items("s", inputs()), tmp_path)
    flip_byte(tmp_path / "s/manifest.json", 100)
    before = files(tmp_path)
    (result,) = build(Unreadable("s"), tmp_path)
    assert isinstance(result.error, CorruptCacheError)
    assert files(tmp_path) == before


def test_directory_that_is_no_cache_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s/precious.txt").write_text("mine")
    (result,) = build(Unreadable("s"), tmp_path)
    with pytest.raises(
        BuildError, match=rf"^{tmp_path}/s: exists but is no complete cache \(no manifest\.json\); remove"
    ):
        result.unwrap()
    assert files(tmp_path) == {"s/precious.txt": b"mine"}


def test_empty_directory_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    assert isinstance(build(Items("s", inputs()), tmp_path)[0], CacheBuilt)


# --- several builders


def test_second_builder_of_a_name_is_told_and_does_not_read_its_source(tmp_path: Path) -> None:
    with locked(tmp_path / "s"):
        (result,) = build(Unreadable("s"), tmp_path)
        with pytest.raises(
            CacheBusyError, match=f"^{tmp_path}/s: process {os.getpid()} is building or repairing it; wait for it"
        ):
            result.unwrap()
    assert isinstance(build(Items("s", inputs()), tmp_path)[0], CacheBuilt)


def test_of_many_builders_at_once_one_builds_and_the_others_are_told(tmp_path: Path) -> None:
    start = threading.Barrier(6)
    results: list[Any] = []

    def builder() -> None:
        start.wait()
        results.extend(build(Items("s", inputs(200)), tmp_path))

    threads = [threading.Thread(target=builder) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(result, CacheBuilt) for result in results) == 1
    for result in results:
        assert isinstance(result, CacheBuilt | CacheReused) or isinstance(result.error, CacheBusyError)
    assert os.listdir(tmp_path) == ["s"]
    assert list(verify_cache(tmp_path / "s")) == []
