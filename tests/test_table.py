"""Tables become samples and metadata by their columns' types."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dsrt_lightning.errors import ConfigError, EncodeError
from dsrt_lightning.store.table import TableSource

FRAME = pl.DataFrame(
    {
        "age": pl.Series([31, 47, 25], dtype=pl.Int16),
        "job": ["nurse", None, "smith"],
        "pixels": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "tokens": [[7], [8, 9], []],
        "file": [b"\x00", b"\x01\x02", b""],
        "born": [datetime.date(1990, 1, 2)] * 3,
    }
)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    FRAME.write_parquet(path)
    return path


def test_numbers_and_lists_are_payload_and_single_values_are_metadata(parquet: Path) -> None:
    source = TableSource(parquet)
    assert source.name == "people"
    assert source.payload == ("age", "pixels", "tokens")
    assert source.metadata == ("age", "job", "born")
    assert source.left_out == ("file",)
    assert source.metadata_schema == {"age": pl.Int16, "job": pl.String, "born": pl.Date}


def test_rows_come_in_file_order_with_the_tables_types(parquet: Path) -> None:
    rows = list(TableSource(parquet))
    assert [row.metadata for row in rows] == FRAME.select("age", "job", "born").to_dicts()
    for row, expected in zip(rows, FRAME.to_dicts(), strict=True):
        assert row.data["age"] == expected["age"]
        assert row.data["age"].dtype == np.int16
        np.testing.assert_array_equal(row.data["pixels"], np.array(expected["pixels"]), strict=True)
        np.testing.assert_array_equal(row.data["tokens"], np.array(expected["tokens"], np.int64), strict=True)


def test_lists_of_one_length_are_fixed_and_others_ragged(parquet: Path) -> None:
    fields = {field.name: (str(field.dtype), field.shape) for field in TableSource(parquet).codec.fields}
    assert fields == {"age": ("int16", ()), "pixels": ("float64", (2,)), "tokens": ("int64", (None,))}


def test_bytes_takes_the_binary_column_itself(parquet: Path) -> None:
    assert [row.data for row in TableSource(parquet, codec="bytes")] == FRAME["file"].to_list()


def test_bytes_encodes_a_named_text_column_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    pl.DataFrame({"text": ["größer", ""]}).write_ndjson(path)
    assert [row.data for row in TableSource(path, codec="bytes", payload=["text"])] == ["größer".encode(), b""]


def test_pickle_takes_any_named_column(parquet: Path) -> None:
    source = TableSource(parquet, codec="pickle", payload=["job", "tokens"])
    assert source.metadata == ("age", "job", "born")
    with pytest.raises(EncodeError, match="null in row 1"):
        list(source)


@pytest.mark.parametrize(("suffix", "write"), [(".csv", "write_csv"), (".jsonl", "write_ndjson")])
def test_text_formats_give_the_same_rows(tmp_path: Path, suffix: str, write: str) -> None:
    path = tmp_path / f"people{suffix}"
    getattr(FRAME.select("age", "job"), write)(path)
    rows = list(TableSource(path))
    assert [(int(row.data["age"]), row.metadata["job"]) for row in rows] == FRAME.select("age", "job").rows()


def test_csv_dates_are_dates(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    FRAME.select("age", "born").write_csv(path)
    assert TableSource(path).metadata_schema["born"] == pl.Date


def test_nested_lists_keep_their_depth_when_empty(tmp_path: Path) -> None:
    path = tmp_path / "boxes.parquet"
    pl.DataFrame({"boxes": [[[1, 2], [3, 4]], []]}).write_parquet(path)
    first, second = (row.data["boxes"] for row in TableSource(path))
    assert first.tolist() == [[1, 2], [3, 4]]
    assert second.shape == (0, 0)


def test_tables_longer_than_a_chunk_are_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    pl.DataFrame({"x": range(10_000)}).write_parquet(path, row_group_size=3000)
    assert [int(row.data["x"]) for row in TableSource(path)] == list(range(10_000))


def test_null_in_the_payload_is_refused_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "gaps.parquet"
    pl.DataFrame({"x": [*range(5000), None]}).write_parquet(path)
    with pytest.raises(EncodeError, match=r"gaps\.parquet: column 'x' is null in row 5000; .* fill it"):
        list(TableSource(path))


@pytest.mark.parametrize("value", [[1, None], [[1], [2, 3]]])
def test_lists_that_are_no_array_are_refused(tmp_path: Path, value: list[object]) -> None:
    path = tmp_path / "odd.parquet"
    pl.DataFrame({"x": [value]}).write_parquet(path)
    with pytest.raises(EncodeError, match=r"column 'x' has nulls or is not rectangular in rows \[0, 1\)"):
        list(TableSource(path))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"payload": ["agee"]}, r"no column 'agee' for the payload of codec arrays \(columns: age Int16, job String"),
        ({"payload": ["job"]}, r"column 'job' of type String cannot be the payload of codec arrays"),
        ({"metadata": ["file"]}, r"column 'file' of type Binary cannot be metadata"),
        ({"payload": []}, r"codec arrays needs a payload column of numbers, not 0"),
        ({"codec": "bytes", "payload": ["job", "file"]}, r"codec bytes needs exactly one payload column .* not 2"),
    ],
)
def test_unusable_columns_are_refused_by_name_and_type(parquet: Path, options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TableSource(parquet, **options)  # type: ignore[arg-type]


def test_unknown_suffix_is_refused_with_the_choices(tmp_path: Path) -> None:
    path = tmp_path / "people.xls"
    path.touch()
    with pytest.raises(ConfigError, match=r"'\.xls' is not the suffix of a table \(\.parquet \.csv \.jsonl \.ndjson\)"):
        TableSource(path)


def test_fingerprint_follows_contents_and_columns_but_not_the_path(tmp_path: Path, parquet: Path) -> None:
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(parquet.read_bytes())
    assert TableSource(copy).fingerprint == TableSource(parquet).fingerprint
    assert TableSource(parquet, payload=["age"]).fingerprint != TableSource(parquet).fingerprint
    FRAME.head(2).write_parquet(copy)
    assert TableSource(copy).fingerprint != TableSource(parquet).fingerprint
