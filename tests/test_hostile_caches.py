"""Caches that somebody made to do harm: every checksum and the identity fit, and still nothing is believed."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cache_builders import build, numbers
from damage import edit_manifest, forge

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.errors import CorruptCacheError, DecodeError
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.manifest import Compression
from dsrt_lightning.store.verify import verify_cache

FILES = ["manifest.json", "index.bin", "metadata.arrow", "dictionary.zst", "shards/000000.bin"]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return numbers(tmp_path, count=120, compression=Compression(dictionary_bytes=256))


def read_everything(path: Path) -> list[Any]:
    dataset = open_dataset(path, sampling="sequential")
    metadata = dataset.get_metadata()
    batches = list(RTLoader(dataset, batch_size=1, drop_last=False))
    return [metadata, batches, [sample.data for sample in dataset]]


# --- files that are something else


@pytest.mark.parametrize("file", FILES)
def test_link_in_place_of_a_file_is_refused_even_if_it_leads_to_the_right_bytes(cache: Path, file: str) -> None:
    outside = cache.parent / "outside"
    os.rename(cache / file, outside)
    (cache / file).symlink_to(outside)
    with pytest.raises(CorruptCacheError, match=f"^{cache}/{file}: .*symbolic link"):
        read_everything(cache)
    assert any(f"{cache}/{file}: " in problem for problem in verify_cache(cache))


@pytest.mark.parametrize("file", FILES)
def test_pipe_in_place_of_a_file_is_refused_and_not_waited_for(cache: Path, file: str) -> None:
    (cache / file).unlink()
    os.mkfifo(cache / file)
    with pytest.raises(CorruptCacheError, match=f"^{cache}/{file}: .*(is not a regular file|has 0 bytes)"):
        read_everything(cache)
    assert any(f"{cache}/{file}: " in problem for problem in verify_cache(cache))


def test_link_in_place_of_the_shards_folder_is_refused(cache: Path) -> None:
    outside = cache.parent / "outside"
    os.rename(cache / "shards", outside)
    (cache / "shards").symlink_to(outside)
    with pytest.raises(CorruptCacheError, match=f"^{cache}/shards: is not a directory itself"):
        read_everything(cache)
    assert any(f"{cache}/shards: " in problem for problem in verify_cache(cache))


def test_cache_may_be_reached_through_a_link(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cache)
    assert len(read_everything(tmp_path / "link")[1]) == 120


# --- numbers that lie


@pytest.mark.parametrize("number", [0, 1, 119, 121, 2**31, 2**40, 2**62])
@pytest.mark.parametrize(
    "keys",
    [("num_records",), ("max_record_bytes",), *(("files", ordinal, "bytes") for ordinal in range(4))],
    ids=lambda keys: ".".join(map(str, keys)),
)
def test_signed_manifest_with_another_number_is_refused_by_name(
    cache: Path, keys: tuple[Any, ...], number: int
) -> None:
    before = json.loads((cache / "manifest.json").read_bytes())
    edit_manifest(cache, *keys, to=number)
    if keys == ("max_record_bytes",) and number >= before["max_record_bytes"]:
        assert len(read_everything(cache)[1]) == 120  # It is only a bound.
        return
    with pytest.raises(CorruptCacheError, match=f"^{cache}/"):
        read_everything(cache)


@pytest.mark.parametrize(
    "row",
    [
        (0, 2**63, 0),
        (2**64 - 1, 2**64 - 1, 0),
        (2**64 - 8, 16, 0),
        (0, 16, 1),
        (0, 16, 2**32 - 1),
    ],
    ids=str,
)
def test_index_row_that_leads_out_of_its_shard_is_refused_with_its_record(
    tmp_path: Path, row: tuple[int, int, int]
) -> None:
    cache = numbers(tmp_path, count=4)
    index = bytearray((cache / "index.bin").read_bytes())
    struct.pack_into("<QQI", index, 64 + 2 * 24, *row)
    (cache / "index.bin").write_bytes(index)
    forge(cache, "index.bin")
    with pytest.raises(CorruptCacheError, match=rf"^{cache}/.*: record 2 "):
        read_everything(cache)
    dataset = open_dataset(cache, sampling="sequential")
    assert int(dataset[3].data["id"]) == 3  # The others are as readable as before.


def test_records_may_overlap_since_each_is_only_read(tmp_path: Path) -> None:
    cache = numbers(tmp_path, count=4)
    index = bytearray((cache / "index.bin").read_bytes())
    index[64 + 24 : 64 + 48] = index[64 : 64 + 24]
    (cache / "index.bin").write_bytes(index)
    forge(cache, "index.bin")
    assert [int(batch["id"]) for batch in read_everything(cache)[1]] == [0, 0, 2, 3]


def test_lengths_that_would_blow_up_a_batch_are_refused_with_the_field(tmp_path: Path) -> None:
    records = [({"x": np.zeros(shape, np.int8)}, {}) for shape in ((2**20, 0), (0, 2**20))]
    cache = build(tmp_path, "ragged", records, codec=ArraysCodec(ragged={"x": [0, 1]}))
    dataset = open_dataset(cache, sampling="sequential")
    with pytest.raises(
        ValueError, match=r"field 'x' padded to \[1048576, 1048576\].* more than 1024 times the 32 bytes"
    ):
        next(iter(RTLoader(dataset, batch_size=2)))
    assert dataset[0].data["x"].shape == (2**20, 0)


# --- metadata that lie


def test_text_whose_offset_leads_out_of_its_buffer_is_refused(tmp_path: Path) -> None:
    cache = build(tmp_path, "text", [(b"x", {"name": "longer than twelve bytes"}) for _ in range(3)], codec="bytes")
    content = bytearray((cache / "metadata.arrow").read_bytes())
    view = struct.pack("<i4sii", 24, b"long", 0, 0)  # length, prefix, buffer, offset
    at = content.index(view)
    struct.pack_into("<i", content, at + 12, 2**30)
    (cache / "metadata.arrow").write_bytes(content)
    forge(cache, "metadata.arrow")
    with pytest.raises(CorruptCacheError, match=rf"^{cache}/metadata\.arrow: cannot be read as an Arrow file"):
        open_dataset(cache).get_metadata()


@pytest.mark.parametrize("lie", [b"tr\xffin", b"train\0\0\0\0\0\0!"], ids=["no UTF-8", "something after its end"])
def test_short_text_that_is_none_is_refused(tmp_path: Path, lie: bytes) -> None:
    cache = build(tmp_path, "text", [(b"x", {"split": "train"}) for _ in range(1000)], codec="bytes")
    content = (cache / "metadata.arrow").read_bytes()
    last = content.rindex(struct.pack("<i12s", 5, b"train"))
    (cache / "metadata.arrow").write_bytes(content[: last + 4] + struct.pack("12s", lie) + content[last + 16 :])
    forge(cache, "metadata.arrow")
    with pytest.raises(CorruptCacheError, match=rf"^{cache}/metadata\.arrow: cannot be read as an Arrow file"):
        open_dataset(cache).get_metadata()


def test_number_of_nulls_that_is_another_is_refused(tmp_path: Path) -> None:
    records = [(b"x", {"split": None if i == 7 else "train"}) for i in range(1000)]
    cache = build(tmp_path, "nulls", records, codec="bytes")
    content = (cache / "metadata.arrow").read_bytes()
    counts = struct.pack("<qq", 1000, 1)  # rows, nulls
    assert content.count(counts) == 1
    (cache / "metadata.arrow").write_bytes(content.replace(counts, struct.pack("<qq", 1000, 2)))
    forge(cache, "metadata.arrow")
    with pytest.raises(CorruptCacheError, match=rf"^{cache}/metadata\.arrow: cannot be read as an Arrow file"):
        open_dataset(cache).get_metadata()


def test_columns_that_the_manifest_does_not_have_are_refused(tmp_path: Path) -> None:
    cache = build(tmp_path, "columns", [(b"x", {"label": i}) for i in range(3)], codec="bytes")
    table = pa.table({"weight": [0.0, 1.0, 2.0]})
    with pa.OSFile(str(cache / "metadata.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    forge(cache, "metadata.arrow")
    with pytest.raises(CorruptCacheError, match=r"has the columns \['weight'\] but the manifest says \['label'\]"):
        open_dataset(cache).get_metadata()


def test_schema_that_does_not_fit_the_records_is_refused_with_the_record(tmp_path: Path) -> None:
    cache = numbers(tmp_path, count=3)
    edit_manifest(cache, "codec", "schema", "fields", 1, "shape", to=[2**40])
    dataset = open_dataset(cache, sampling="sequential")
    with pytest.raises(CorruptCacheError, match=f"record 0 has 14 bytes but the schema says {8 + 2**40}"):
        next(iter(RTLoader(dataset, batch_size=2)))
    with pytest.raises(DecodeError, match=f"record 1: the record has 14 bytes but its fields take {8 + 2**40}"):
        _ = dataset[1]
