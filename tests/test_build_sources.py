"""build_caches: a source that is wrong or fails says where, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from building import Items, build, inputs

from dsrt_lightning.errors import (
    BuildError,
    EncodeError,
    SourceNameError,
)
from dsrt_lightning.store.build_results import BuildFailed, CacheBuilt
from dsrt_lightning.store.cache_set import open_caches
from dsrt_lightning.store.manifest import Compression
from dsrt_lightning.store.sources import CacheInput


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
