"""Codec `bytes`, and codecs by name."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from dsrt_lightning.errors import CorruptCacheError, EncodeError, UnknownCodecError
from dsrt_lightning.store.codecs import codec_class, resolve_codec
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.codecs.bytes_codec import BytesCodec
from dsrt_lightning.store.codecs.pickle_codec import PickleCodec


@pytest.mark.parametrize("sample", [b"", b"\x00record", bytearray(b"record"), memoryview(b"record")])
def test_bytes_come_back_as_bytes(sample: bytes | bytearray | memoryview) -> None:
    record = b"".join(BytesCodec().encode(sample))
    assert record == sample
    decoded = BytesCodec().decode(memoryview(record))
    assert type(decoded) is bytes
    assert decoded == sample


@pytest.mark.parametrize("sample", ["text", None, [1], memoryview(b"abcdef")[::2]])
def test_what_is_not_bytes_is_refused(sample: object) -> None:
    with pytest.raises(EncodeError, match=f"the sample is a {type(sample).__name__} but codec 'bytes' stores bytes"):
        BytesCodec().encode(sample)


@pytest.mark.parametrize("codec", [BytesCodec, PickleCodec])
def test_schema_is_empty_and_nothing_else_is_accepted(codec: type[BytesCodec]) -> None:
    assert codec().schema() == {}
    assert isinstance(codec.from_schema({}, "m.json").fresh(), codec)
    with pytest.raises(CorruptCacheError, match=rf"^m\.json: codec\.schema .*'x'.* but codec '{codec.name}'"):
        codec.from_schema({"x": 1}, "m.json")


def test_built_in_codecs_are_known_by_name() -> None:
    assert [codec_class(name) for name in ("bytes", "arrays", "pickle")] == [BytesCodec, ArraysCodec, PickleCodec]
    codec = ArraysCodec()
    assert resolve_codec(codec) is codec
    assert isinstance(resolve_codec("pickle"), PickleCodec)
    assert [codec_class(name).needs_trust for name in ("bytes", "arrays", "pickle")] == [False, False, True]


def test_unknown_codec_is_refused_with_the_choices() -> None:
    with pytest.raises(UnknownCodecError, match=r"codec 'jpeg' is not installed \(codecs: arrays, bytes, pickle\)"):
        codec_class("jpeg")


class ReversedCodec(BytesCodec):
    name = "reversed"


def install(monkeypatch: pytest.MonkeyPatch, name: str, target: str) -> None:
    point = importlib.metadata.EntryPoint(name, target, "dsrt_lightning.codecs")
    monkeypatch.setattr("dsrt_lightning.store.codecs.entry_points", lambda group: [point])


def test_codec_of_another_package_is_found_through_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "reversed", f"{__name__}:ReversedCodec")
    assert codec_class("reversed") is sys.modules[__name__].ReversedCodec


@pytest.mark.parametrize(("name", "target"), [("reversed", "pathlib:Path"), ("other", f"{__name__}:ReversedCodec")])
def test_entry_point_that_is_no_such_codec_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, target: str) -> None:
    install(monkeypatch, name, target)
    with pytest.raises(UnknownCodecError, match=f"codec '{name}': entry point '{target}' is not a Codec class"):
        codec_class(name)


def test_codecs_import_neither_polars_nor_torch_nor_pyarrow() -> None:
    code = "import sys, dsrt_lightning.store.codecs; print({'polars', 'torch', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
