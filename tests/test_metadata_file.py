"""metadata.arrow: which type a column gets, what is refused, and that everything comes back through Polars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsrt_lightning.errors import BuildError
from dsrt_lightning.store import metadata_file
from dsrt_lightning.store.metadata_file import MetadataWriter
from dsrt_lightning.store.metadata_schema import given_columns

BERLIN = ZoneInfo("Europe/Berlin")


def write(
    directory: Path, rows: Iterable[Mapping[str, Any]], schema: Mapping[str, Any] | None = None
) -> tuple[Path, dict[str, str]]:
    """Write rows; return the file and the manifest's column types."""
    path = directory / "metadata.arrow"
    writer = MetadataWriter(path, given_columns(schema), "source 's'")
    for row in rows:
        writer.add(row)
    return path, dict(writer.finish())


def column(directory: Path, values: Iterable[Any], dtype: Any = None) -> tuple[pl.Series, str]:
    """Write one column; return it as Polars reads it, and its type in the manifest."""
    path, types = write(directory, [{"x": value} for value in values], None if dtype is None else {"x": dtype})
    return pl.scan_ipc(path).collect()["x"], types["x"]


@pytest.fixture(params=[2, 65_536])
def any_batch_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(metadata_file, "ROWS_PER_BATCH", request.param)
    return request.param


# --- values come back


@pytest.mark.usefixtures("any_batch_size")
@pytest.mark.parametrize(
    ("values", "dtype", "name"),
    [
        ([None, None, None], pl.Null, "null"),
        ([True, None, False], pl.Boolean, "bool"),
        ([1, -(2**63), None, 2**63 - 1], pl.Int64, "int64"),
        ([1.5, float("inf"), None], pl.Float64, "float64"),
        (["a", None, "", "ü" * 100], pl.String, "string"),
        ([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pl.Date, "date"),
        ([dt.time(23, 59, 59, 999_999), None, dt.time(0)], pl.Time, "time"),
        ([dt.datetime(1900, 1, 1, 0, 0, 0, 1), None], pl.Datetime("us"), "datetime[us]"),
        ([dt.datetime(2020, 7, 1, tzinfo=dt.timezone.utc), None], pl.Datetime("us", "UTC"), "datetime[us, UTC]"),
        (
            [dt.datetime(2020, 7, 1, tzinfo=BERLIN), None, dt.datetime(2020, 1, 1, tzinfo=BERLIN)],
            pl.Datetime("us", "Europe/Berlin"),
            "datetime[us, Europe/Berlin]",
        ),
        ([dt.timedelta(days=-1, microseconds=1), None], pl.Duration("us"), "duration[us]"),
        ([[1, None], [], None, [2]], pl.List(pl.Int64), "list[int64]"),
        ([["a"], None, ["b", "c" * 20]], pl.List(pl.String), "list[string]"),
        ([[[1.5], []], [None]], pl.List(pl.List(pl.Float64)), "list[list[float64]]"),
    ],
)
def test_column_has_the_type_of_its_values_and_comes_back(
    tmp_path: Path, values: list[Any], dtype: pl.DataType, name: str
) -> None:
    series, stored = column(tmp_path, values)
    assert (series.dtype, stored) == (dtype, name)
    assert series.to_list() == values


@pytest.mark.usefixtures("any_batch_size")
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, 3, 1.5], pl.Float64),
        ([1.5, 2, 3, 4], pl.Float64),
        ([None, None, None, "a"], pl.String),
        (["a", None, None, None], pl.String),
        ([[], [], [None], [1]], pl.List(pl.Int64)),
        ([[1], [2], [3], [1.5, None]], pl.List(pl.Float64)),
        ([None, [None], [["a"]]], pl.List(pl.List(pl.String))),
    ],
)
def test_null_and_int_widen_wherever_the_wider_value_stands(
    tmp_path: Path, values: list[Any], dtype: pl.DataType
) -> None:
    series, _ = column(tmp_path, values)
    assert series.dtype == dtype
    assert series.to_list() == values


@pytest.mark.usefixtures("any_batch_size")
@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1, None, 255], pl.UInt8, None),
        ([2**64 - 1], pl.UInt64, None),
        ([1, 2.5, None], pl.Float32, None),
        ([None, None], pl.String, None),
        (["b", None, "a", "b", "c"], pl.Categorical, None),
        (["b", None, "a", "b"], pl.Enum(["a", "b", "unused"]), None),
        ([dt.datetime(2020, 1, 1)], pl.Datetime("ns"), None),
        (
            [dt.datetime(2020, 1, 1, tzinfo=BERLIN)],
            pl.Datetime("ms", "UTC"),
            [dt.datetime(2019, 12, 31, 23, tzinfo=dt.timezone.utc)],
        ),
        ([dt.timedelta(seconds=1)], pl.Duration("ms"), None),
        ([[1], None, []], pl.List(pl.Int8), None),
    ],
)
def test_given_type_is_kept(tmp_path: Path, values: list[Any], dtype: Any, expected: list[Any] | None) -> None:
    series, _ = column(tmp_path, values, dtype)
    assert series.dtype == dtype
    assert series.to_list() == (expected or values)


def test_enum_states_its_choices_in_the_manifest_and_a_category_does_not(tmp_path: Path) -> None:
    _, types = write(tmp_path, [{"e": "a", "c": "a"}], {"e": pl.Enum(["b", "a"]), "c": pl.Categorical})
    assert types == {"e": 'enum["b", "a"]', "c": "category"}


def test_numpy_values_count_as_python_ones(tmp_path: Path) -> None:
    row = {
        "i": np.int8(1),
        "f": np.float32(0.5),
        "b": np.bool_(True),
        "s": np.str_("x"),
        "l": np.arange(4).reshape(2, 2),
    }
    path, types = write(tmp_path, [row, {"i": 2, "f": 1.5, "b": False, "s": "y", "l": [[7]]}])
    assert types == {"i": "int64", "f": "float64", "b": "bool", "s": "string", "l": "list[list[int64]]"}
    assert pl.read_ipc(path).row(0) == (1, 0.5, True, "x", [[0, 1], [2, 3]])


def test_fixed_offset_becomes_utc_which_is_the_same_instant(tmp_path: Path) -> None:
    value = dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    series, name = column(tmp_path, [value])
    assert name == "datetime[us, UTC]"
    assert series[0] == value


def test_columns_keep_the_first_rows_order_whatever_the_order_of_later_keys(tmp_path: Path) -> None:
    path, types = write(tmp_path, [{"b": 1, "a": "x"}, {"a": "y", "b": 2}])
    assert list(types) == ["b", "a"]
    assert pl.read_ipc(path).rows() == [(1, "x"), (2, "y")]


def test_a_source_may_reuse_one_dict_for_all_its_rows(tmp_path: Path) -> None:
    def rows() -> Iterable[dict[str, int]]:
        row: dict[str, int] = {}
        for i in range(5):
            row["x"] = i
            yield row

    path, _ = write(tmp_path, rows())
    assert pl.read_ipc(path)["x"].to_list() == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("any_batch_size")
def test_rows_are_counted_without_columns(tmp_path: Path) -> None:
    path, types = write(tmp_path, [{}] * 5)
    assert types == {}
    with pa.memory_map(str(path)) as source:
        assert pa.ipc.open_file(source).read_all().num_rows == 5


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False)), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_bytes_and_types_do_not_depend_on_where_batches_end(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], rows_per_batch: int
) -> None:
    series, name = column(tmp_path_factory.mktemp("whole"), values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata_file, "ROWS_PER_BATCH", rows_per_batch)
        in_pieces = column(tmp_path_factory.mktemp("pieces"), values)
    assert in_pieces[1] == name
    assert in_pieces[0].to_list() == series.to_list()


# --- the file


def test_file_is_mapped_by_pyarrow_without_a_copy(tmp_path: Path) -> None:
    path, _ = write(tmp_path, [{"x": i} for i in range(10_000)])
    before = pa.total_allocated_bytes()
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        assert table["x"][9_999].as_py() == 9_999
        assert pa.total_allocated_bytes() - before < 4_096


def test_batches_have_65536_rows(tmp_path: Path) -> None:
    path, _ = write(tmp_path, ({"x": None} for _ in range(65_537)))
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        assert [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)] == [65_536, 1]


@pytest.mark.usefixtures("any_batch_size")
def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    rows = [{"c": "ab"[i % 2], "x": i if i > 2 else None, "s": str(i), "l": [i] * i} for i in range(6)]
    contents = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        contents.append(write(tmp_path / name, rows, {"c": pl.Categorical})[0].read_bytes())
    assert contents[0] == contents[1]
    assert [path.name for path in (tmp_path / "first").iterdir()] == ["metadata.arrow"]


# --- what is refused, and what the user is told


@pytest.mark.usefixtures("any_batch_size")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2, "a"], "record 2: metadata column 'x' is string but int64 in the records before; make its values alike"),
        ([1, 2, True], "record 2: metadata column 'x' is bool but int64 in the records before"),
        ([None, "a", None, 1.5], "record 3: metadata column 'x' is float64 but string in the records before"),
        ([dt.datetime(2020, 1, 1), dt.date(2020, 1, 1)], r"record 1: .*'x' is date but datetime\[us\] in the records"),
        (
            [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)],
            r"record 1: .*'x' is datetime\[us, UTC\] but datetime\[us\] in the records before",
        ),
        ([[1], ["a"]], r"record 1: metadata column 'x' is string but int64 in the records before"),
        ([[1], 1], r"record 1: metadata column 'x' is int64 but list\[int64\] in the records before"),
        ([1, {"a": 1}], "record 1: metadata column 'x' is a dict but metadata are None, bools, numbers, strings"),
        ([b"a"], "record 0: metadata column 'x' is a bytes but metadata are"),
        ([np.timedelta64(1, "s")], "record 0: metadata column 'x' is a timedelta64 but metadata are"),
        (
            [1, 2**63],
            r"record 1: metadata column 'x': 9223372036854775808 does not fit int64 \(.*\); give metadata_schema",
        ),
        (["a", "\ud800"], r"record 1: metadata column 'x': '\\ud800' does not fit string"),
        (
            [2**60 + 1, 0, 1.5],
            r"(record 2: metadata column 'x' is a float|records \[2, 3\) have floats).*no exact float",
        ),
    ],
)
def test_value_of_another_type_is_refused_with_record_column_and_both_types(
    tmp_path: Path, values: list[Any], message: str
) -> None:
    with pytest.raises(BuildError, match=f"^source 's': {message}"):
        column(tmp_path, values)


@pytest.mark.usefixtures("any_batch_size")
@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        ([1, 2, 1.5], pl.Int8, "record 2: metadata column 'x' is a float but metadata_schema says int8"),
        ([1, 2, True], pl.Int8, "record 2: metadata column 'x' is a bool but metadata_schema says int8"),
        ([1, 2, 128], pl.Int8, "record 2: metadata column 'x': 128 does not fit int8"),
        ([1], pl.String, "record 0: metadata column 'x' is a int but metadata_schema says string"),
        ([1], pl.Categorical, "record 0: metadata column 'x' is a int but metadata_schema says category"),
        (["2020-01-01"], pl.Date, "record 0: metadata column 'x' is a string but metadata_schema says date"),
        (["a", None, "c"], pl.Enum(["a"]), r"record 2: .* 'x' is 'c' but metadata_schema says one of \['a'\]"),
        ([[1], [1.5]], pl.List(pl.Int8), "record 1: metadata column 'x' is a float but metadata_schema says int8"),
        (
            [dt.datetime(2020, 1, 1)],
            pl.Datetime("us", "UTC"),
            r"'x' is a datetime with no zone but .* datetime\[us, UTC\]",
        ),
    ],
)
def test_value_that_a_given_type_does_not_hold_is_refused(
    tmp_path: Path, values: list[Any], dtype: Any, message: str
) -> None:
    with pytest.raises(BuildError, match=f"^source 's': .*{message}"):
        column(tmp_path, values, dtype)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1}, {"a": 1, "b": 2}], r"record 1: the metadata lacks \[\] and adds \['b'\]; .* keys \['a'\]"),
        ([{"a": 1, "b": 1}, {"a": 1}], r"record 1: the metadata lacks \['b'\] and adds \[\]; .* keys \['a', 'b'\]"),
        ([{"a": 1}, {"c": 1}], r"record 1: the metadata lacks \['a'\] and adds \['c'\]"),
        ([{}, {"c": 1}], r"record 1: the metadata lacks \[\] and adds \['c'\]"),
        ([{"a": 1}, None], "record 1: the metadata is a NoneType, not a dict"),
        ([{"a": 1, "b": 1}, [1, 2]], "record 1: the metadata is a list, not a dict"),
        ([[1]], "record 0: the metadata is a list, not a dict"),
        ([{1: 1}], "record 0: metadata key 1 is not a string"),
        ([{"weight": 1}], "record 0: metadata column 'weight' is reserved, as are cache_id, sample_id, weight; rename"),
        ([{"sample_id": 1}], "record 0: metadata column 'sample_id' is reserved"),
    ],
)
def test_keys_that_are_not_the_first_records_are_refused(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(BuildError, match=f"^source 's': {message}"):
        write(tmp_path, rows)


def test_given_column_that_the_metadata_lack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"record 0: metadata_schema names \['y'\] but the metadata has \['x'\]"):
        write(tmp_path, [{"x": 1}], {"y": pl.Int8})


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        (
            "x",
            pl.Struct({"a": pl.Int8}),
            "'x' cannot be stored as Struct.*: has the type struct<a: int8> but metadata are",
        ),
        ("x", pl.Binary, "'x' cannot be stored as Binary"),
        ("x", pl.List(pl.Categorical), "'x' cannot be stored as List"),
        ("x", pl.Int128, "'x' cannot be stored as Int128"),
        ("weight", pl.Float64, "'weight' is reserved"),
    ],
)
def test_given_type_that_metadata_cannot_have_is_refused(name: str, dtype: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^metadata_schema: {message}"):
        given_columns({name: dtype})
