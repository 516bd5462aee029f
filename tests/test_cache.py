"""Opening caches: one, many, again in another process."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cache_builders import build

from dsrt_lightning.errors import (
    CacheConflictError,
    CacheNotFoundError,
    ConfigError,
    PickleNotAllowedError,
    UnknownCodecError,
)
from dsrt_lightning.store.cache import open_cache
from dsrt_lightning.store.cache_set import CacheSet, open_caches
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec

ROOT = Path(__file__).parents[1]


def numbers(root: Path, name: str, count: int) -> Path:
    """Build a cache whose record ``i`` is ``[name, i]`` as bytes."""
    return build(root, name, [(f"{name} {i}".encode(), {"i": i}) for i in range(count)], codec="bytes")


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    return [numbers(tmp_path, name, count) for name, count in [("a", 3), ("b", 1), ("c", 4)]]


def all_records(caches: CacheSet) -> list[bytes]:
    return [bytes(record) for record in caches.shards.read_many(np.arange(caches.num_records))]


# --- one cache


def test_cache_is_what_its_manifest_says(tmp_path: Path) -> None:
    path = build(tmp_path, "s", [({"x": np.zeros(3)}, {"i": 1})])
    cache = open_cache(path)
    assert (cache.path, cache.num_records, cache.metadata_path) == (path, 1, path / "metadata.arrow")
    assert cache.cache_id == cache.manifest.cache_id
    assert isinstance(cache.codec, ArraysCodec)


def test_opening_reads_the_manifest_alone(tmp_path: Path) -> None:
    path = numbers(tmp_path, "s", 3)
    for file in ("index.bin", "metadata.arrow", "shards/000000.bin"):
        (path / file).unlink()
    assert open_caches(path).num_records == 3


def test_path_is_absolute_so_that_the_working_directory_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers(tmp_path, "s", 3)
    monkeypatch.chdir(tmp_path)
    caches = open_caches("s")
    monkeypatch.chdir("/")
    assert all_records(caches) == [b"s 0", b"s 1", b"s 2"]


def test_cache_may_be_moved_and_renamed(tmp_path: Path) -> None:
    before = open_caches(numbers(tmp_path, "s", 3))
    moved = open_caches((tmp_path / "s").rename(tmp_path / "other"))
    assert moved.identities == before.identities
    assert all_records(moved) == [b"s 0", b"s 1", b"s 2"]


def test_pickle_cache_needs_to_be_allowed(tmp_path: Path) -> None:
    path = build(tmp_path, "s", [(object, {})], codec="pickle")
    with pytest.raises(
        PickleNotAllowedError, match=f"^{path}: codec 'pickle' runs code .*; pass allow_pickle=True only"
    ):
        open_cache(path)
    caches = open_caches(path, allow_pickle=True)
    assert caches.codec.decode(caches.shards.read(0)) is object


def test_cache_of_a_codec_that_is_not_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = numbers(tmp_path, "s", 1)
    monkeypatch.delitem(sys.modules["dsrt_lightning.store.codecs"]._BUILT_IN, "bytes")
    monkeypatch.setattr("dsrt_lightning.store.codecs.entry_points", lambda group: [])
    with pytest.raises(UnknownCodecError, match=r"codec 'bytes' is not installed \(codecs: arrays, pickle\)"):
        open_cache(path)


@pytest.mark.parametrize("missing", ["nowhere", "."])
def test_missing_cache_is_named(tmp_path: Path, missing: str) -> None:
    with pytest.raises(CacheNotFoundError, match=str(tmp_path)):
        open_caches([tmp_path / missing])


# --- many caches


def test_record_numbers_do_not_depend_on_the_order_of_opening(three: list[Path]) -> None:
    forwards, backwards = open_caches(three), open_caches(three[::-1])
    assert [cache.path for cache in forwards.listed] == three
    assert [cache.path for cache in backwards.listed] == three[::-1]
    assert forwards.caches == backwards.caches
    assert [cache.cache_id for cache in forwards.caches] == sorted(cache.cache_id for cache in forwards.caches)
    assert all_records(forwards) == all_records(backwards)


def test_every_record_number_is_a_sample_id_of_its_cache(three: list[Path]) -> None:
    caches = open_caches(three)
    assert caches.num_records == 8
    assert list(caches.shards.bases) == list(caches.bases)
    for row, record in enumerate(all_records(caches)):
        ordinal, sample_id = caches.locate(row)
        assert record == f"{caches.caches[ordinal].path.name} {sample_id}".encode()
        assert caches.bases[ordinal] + sample_id == row


@pytest.mark.parametrize("row", [-1, 8])
def test_record_number_outside_is_refused(three: list[Path], row: int) -> None:
    with pytest.raises(IndexError, match=rf"record number {row} is outside \[0, 8\)"):
        open_caches(three).locate(row)


def test_same_cache_twice_is_refused_even_as_a_copy(tmp_path: Path) -> None:
    path = numbers(tmp_path, "s", 3)
    shutil.copytree(path, tmp_path / "copy")
    with pytest.raises(CacheConflictError, match=f"{path} and {tmp_path}/copy have the same cache_id [0-9]+; open"):
        open_caches([path, tmp_path / "copy"])


@pytest.mark.parametrize(
    ("second", "described"),
    [
        ({"x": 1.5}, r"'arrays' with \{'fields': \[\{'name': 'x', 'dtype': 'float64', 'shape': \[\]\}\]\}"),
        (b"", "'bytes'"),
    ],
)
def test_caches_of_different_codecs_or_schemas_are_refused(tmp_path: Path, second: Any, described: str) -> None:
    first = build(tmp_path, "a", [({"x": 1}, {})])
    other = build(tmp_path, "b", [(second, {})], codec="bytes" if second == b"" else "arrays")
    with pytest.raises(
        ConfigError, match=f"^{first} has codec 'arrays' with .*int64.* but {other} has {described}; open"
    ):
        open_caches([first, other])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda path: open_caches([]), "caches: the list is empty"),
        (lambda path: open_caches(path, verify="sometimes"), "verify is 'sometimes'; choose first, always, never"),
    ],
)
def test_impossible_arguments_are_refused(tmp_path: Path, action: Callable[[Path], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        action(numbers(tmp_path, "s", 1))


# --- in another process


def test_pickled_set_opens_the_same_caches_in_the_same_order(three: list[Path]) -> None:
    caches = open_caches(three[::-1], verify="always")
    caches.shards.read(0)
    again = pickle.loads(pickle.dumps(caches))
    assert (again.listed, again.caches, again.verify) == (caches.listed, caches.caches, "always")
    assert all_records(again) == all_records(caches)


def test_pickled_set_is_small_and_opens_without_polars_pyarrow_or_torch(three: list[Path]) -> None:
    pickled = pickle.dumps(open_caches(three))
    assert len(pickled) < 1000
    code = (
        "import pickle, sys; caches = pickle.loads(bytes.fromhex(sys.argv[1])); caches.shards.read(0);"
        "print({'polars', 'pyarrow', 'torch', 'rich', 'zstandard'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, pickled.hex()], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_cache_replaced_while_in_use_is_noticed_by_the_receiver(tmp_path: Path) -> None:
    path = numbers(tmp_path, "s", 3)
    pickled = pickle.dumps(open_caches(path))
    shutil.rmtree(path)
    numbers(tmp_path, "s", 4)
    with pytest.raises(CacheConflictError, match=f"^{path}: has identity [0-9a-f]{{12}} but the process that sent it"):
        pickle.loads(pickled)
