"""build_caches: what is built comes back, what is there is reused, and a source that fails says where."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from damage import flip_byte

from dsrt_lightning.errors import (
    BuildError,
    CacheBusyError,
    CorruptCacheError,
    EncodeError,
    FingerprintMismatchError,
    OptionsMismatchError,
    SourceNameError,
)
from dsrt_lightning.store.build import build_caches
from dsrt_lightning.store.build_results import BuildFailed, CacheBuilt, CacheReused, raise_for_failures
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.codecs.pickle_codec import PickleCodec
from dsrt_lightning.store.manifest import Compression
from dsrt_lightning.store.publication import locked
from dsrt_lightning.store.sources import CacheInput
from dsrt_lightning.store.verify import verify_cache


class Items:
    """A source over a list, or over what a function yields."""

    def __init__(self, name: Any, items: Iterable[Any] | Callable[[], Iterator[Any]], fingerprint: Any = None) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._items() if callable(self._items) else iter(self._items)


class Unreadable(Items):
    """A source that must not be read."""

    def __init__(self, name: str, fingerprint: str | None = None) -> None:
        super().__init__(name, self._fail, fingerprint)

    def _fail(self) -> Iterator[Any]:
        raise AssertionError("the source was read")


def inputs(count: int = 5) -> list[CacheInput]:
    return [CacheInput(bytes([i]) * (i + 1), {"label": i % 2}) for i in range(count)]


def build(sources: Any, root: Path, **options: Any) -> list[Any]:
    return build_caches(sources, root, **{"codec": "bytes", "progress": False, **options})


def records(path: Path) -> list[bytes]:
    caches = open_caches(path, allow_pickle=True)
    return [bytes(caches.shards.read(row)) for row in range(caches.num_records)]


def files(path: Path) -> dict[str, bytes]:
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


# --- what is built comes back

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


# --- reuse


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


# --- a source that fails


def failing_at(number: int, error: BaseException) -> Callable[[], Iterator[CacheInput]]:
    def items() -> Iterator[CacheInput]:
        yield from inputs(number)
        raise error

    return items


def refused(tmp_path: Path, items: Any, **options: Any) -> BuildError:
    """Build a source that must fail, make sure that nothing is left, and return the error."""
    (result,) = build(Items("s", items), tmp_path, **options)
    assert isinstance(result, BuildFailed)
    assert isinstance(result.error, BuildError)
    assert os.listdir(tmp_path) == []
    return result.error


@pytest.mark.parametrize("number", [0, 1, 4])
def test_source_that_raises_is_named_with_its_record_and_the_cause(tmp_path: Path, number: int) -> None:
    error = refused(tmp_path, failing_at(number, ZeroDivisionError("oh")))
    assert str(error) == f"source 's': record {number}: ZeroDivisionError: oh"
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_oserror_of_the_source_is_the_sources(tmp_path: Path) -> None:
    error = refused(tmp_path, failing_at(2, FileNotFoundError(2, "No such file", "image.png")))
    assert str(error).startswith("source 's': record 2: FileNotFoundError: ")
    assert "image.png" in str(error)


@pytest.mark.parametrize(
    ("items", "codec", "message"),
    [
        ([*inputs(2), CacheInput("text")], "bytes", "record 2: the sample is a str but codec 'bytes' stores bytes"),
        ([CacheInput({"x": 1}), CacheInput({"x": 1.5})], "arrays", "record 1: x: the dtype is float64 but int64"),
        (
            [CacheInput({"x": 1}), CacheInput({"y": 1})],
            "arrays",
            r"record 1: the sample lacks \['x'\] and adds \['y'\]",
        ),
        ([CacheInput(lambda: 1)], "pickle", "record 0: a function cannot be pickled"),
    ],
)
def test_record_that_does_not_fit_its_codec_is_named(tmp_path: Path, items: Any, codec: str, message: str) -> None:
    items = [CacheInput(item.data, {}) for item in items]
    error = refused(tmp_path, items, codec=codec)
    with pytest.raises(BuildError, match=f"^source 's': {message}"):
        raise error
    assert isinstance(error.__cause__, EncodeError)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "it yielded no records; a cache has at least one"),
        ([b"raw"], r"record 0 is a bytes, not a CacheInput\(data, metadata\)"),
        ([*inputs(1), (b"raw", {})], r"record 1 is a tuple, not a CacheInput\(data, metadata\)"),
        ([CacheInput(b"", {"weight": 1.0})], "record 0: metadata column 'weight' is reserved"),
        ([CacheInput(b"", {"a": 1}), CacheInput(b"", {"b": 1})], "record 1: the metadata lacks"),
        ([CacheInput(b"", {"a": 1}), CacheInput(b"", {"a": "x"})], "record 1: metadata column 'a' is string but int64"),
    ],
)
def test_source_whose_records_are_wrong_is_refused(tmp_path: Path, items: Any, message: str) -> None:
    with pytest.raises(BuildError, match=f"^source 's': {message}"):
        raise refused(tmp_path, items)


def test_dictionary_that_cannot_be_trained_is_refused_with_the_sample(tmp_path: Path) -> None:
    error = refused(tmp_path, inputs(3), compression=Compression(dictionary_bytes=1024))
    assert "no dictionary of 1024 bytes can be trained on its first 3 records (6 bytes)" in str(error)


def test_fingerprint_that_is_no_string_fails_its_source_alone(tmp_path: Path) -> None:
    first, second = build([Items("a", inputs(), 7), Items("b", inputs())], tmp_path)
    assert str(first.error) == "source 'a': fingerprint is a int, not a string or None"
    assert isinstance(second, CacheBuilt)


def test_fingerprint_that_fails_is_not_taken_for_none(tmp_path: Path) -> None:
    class Failing:
        name = "s"

        @property
        def fingerprint(self) -> str:
            return self.files  # type: ignore[attr-defined,no-any-return]

        def __iter__(self) -> Iterator[CacheInput]:
            return iter(inputs())

    (result,) = build(Failing(), tmp_path)
    assert "has no attribute 'files'" in str(result.error)


def test_source_without_fingerprint_attribute_has_none(tmp_path: Path) -> None:
    class Plain:
        name = "s"

        def __iter__(self) -> Iterator[CacheInput]:
            return iter(inputs())

    (result,) = build(Plain(), tmp_path)
    assert open_caches(result.path).caches[0].manifest.fingerprint is None


# --- names and options, refused before anything is written


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is empty"),
        (".", "begins with a dot"),
        ("..", "begins with a dot"),
        (".hidden", "begins with a dot"),
        ("a/b", "has a path separator"),
        ("/abs", "has a path separator"),
        ("a\\b", "has a path separator"),
        ("a\nb", "has a control character"),
        ("a\0b", "has a control character"),
        ("\ud800", "has a control character or a surrogate"),
        ("ü" * 101, "has 202 bytes, more than 200"),
        (7, "is a int, not a string"),
    ],
)
def test_name_that_is_no_plain_directory_name_is_refused(tmp_path: Path, name: Any, reason: str) -> None:
    with pytest.raises(SourceNameError, match=rf"^sources\[1\]: the name .* {reason}"):
        build([Items("good", inputs()), Items(name, inputs())], tmp_path / "root")
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("name", ["digits", "with space", "ü" * 100, "a.b", "-x"])
def test_plain_directory_names_are_fine(tmp_path: Path, name: str) -> None:
    build(Items(name, inputs()), tmp_path)[0].unwrap()
    assert os.listdir(tmp_path) == [name]


def test_two_sources_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceNameError, match=r"^sources\[0\] and sources\[2\] are both named 'a'; rename one"):
        build([Items("a", inputs()), Items("b", inputs()), Items("a", inputs())], tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^sources\[0\] is a list, which has no name or is not iterable"):
        build([[CacheInput(b"")]], tmp_path / "root")


@pytest.mark.parametrize("option", ["shard_bytes", "threads", "max_pending_bytes"])
def test_option_out_of_range_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(ValueError, match=f"^build_caches: {option} is 0 but must be at least 1"):
        build(Items("a", inputs()), tmp_path / "root", **{option: 0})
    assert not (tmp_path / "root").exists()


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


def test_codec_with_options_is_used_for_every_source_afresh(tmp_path: Path) -> None:
    codec = PickleCodec()
    results = build([Items("a", inputs()), Items("b", inputs())], tmp_path, codec=codec)
    assert all(isinstance(result, CacheBuilt) for result in results)
