"""The metadata of opened caches as one lazy table."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from damage import flip_byte, truncate
from hypothesis import given
from hypothesis import strategies as st
from tiny_caches import make_cache, make_caches

from dsrt_lightning.errors import CorruptCacheError, MetadataError
from dsrt_lightning.population import metadata
from dsrt_lightning.population.metadata import scan_metadata
from dsrt_lightning.population.population import Population
from dsrt_lightning.store.cache_set import CacheSet


def test_ids_come_first_and_weight_last(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, a={"label": [5, 6], "split": ["train", "val"]})
    table = scan_metadata(caches).collect()
    assert table.columns == ["cache_id", "sample_id", "label", "split", "weight"]
    assert table["cache_id"].to_list() == [caches.caches[0].cache_id] * 2
    assert table["sample_id"].to_list() == [0, 1]
    assert table["weight"].to_list() == [1.0, 1.0]
    assert [table.schema[name] for name in ("cache_id", "sample_id", "weight")] == [pl.Int64, pl.Int64, pl.Float64]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_caches_appear_in_the_order_they_were_given(tmp_path: Path, order: tuple[int, ...]) -> None:
    listed = [make_cache(tmp_path / str(i), {"source": [i] * (i + 1)}) for i in range(3)]
    table = scan_metadata(CacheSet([listed[i] for i in order])).collect()
    assert table["source"].to_list() == [i for i in order for _ in range(i + 1)]
    assert table["sample_id"].to_list() == [row for i in order for row in range(i + 1)]


def test_column_that_a_cache_lacks_is_null_there(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, a={"label": [1]}, b={"quality": [0.5]}, c={"label": [2], "quality": [0.7]})
    table = scan_metadata(caches).collect()
    assert table["label"].to_list() == [1, None, 2]
    assert table["quality"].to_list() == [None, 0.5, 0.7]


def test_cache_without_columns_keeps_its_rows(tmp_path: Path) -> None:
    caches = CacheSet([make_cache(tmp_path / "a", {}, num_records=3), make_cache(tmp_path / "b", {"label": [7]})])
    table = scan_metadata(caches).collect()
    assert table["sample_id"].to_list() == [0, 1, 2, 0]
    assert table["label"].to_list() == [None, None, None, 7]


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (pl.Int8, pl.Int32, pl.Int64),
        (pl.UInt8, pl.Int64, pl.Int64),
        (pl.Float32, pl.Float64, pl.Float64),
        (pl.Int64, pl.Float64, pl.Float64),
        (pl.Null, pl.String, pl.String),
    ],
)
def test_types_that_go_together_become_the_common_one(
    tmp_path: Path, one: type[pl.DataType], other: type[pl.DataType], common: type[pl.DataType]
) -> None:
    values = pl.Series("x", [None, None])
    a, b = values.cast(one).to_frame(), values.cast(other).to_frame()
    for first, second in ((a, b), (b, a)):
        caches = make_caches(tmp_path / first.schema["x"].__class__.__name__, a=first, b=second)
        assert scan_metadata(caches).collect_schema()["x"] == common


@pytest.mark.parametrize("other", [["x"], [True], [dt.date(2024, 1, 2)], [[1]]])
def test_types_that_do_not_go_together_name_both_caches(tmp_path: Path, other: list[object]) -> None:
    caches = make_caches(tmp_path, first={"label": [1]}, second={"label": other})
    with pytest.raises(MetadataError, match=r"'label' is Int64 in .*first but .* in .*second; rebuild one of them"):
        scan_metadata(caches)


EVERY_TYPE = pl.DataFrame(
    {
        "bool": [True, None],
        "int": pl.Series([-1, None], dtype=pl.Int8),
        "unsigned": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
        "float": [float("inf"), None],
        "text": ["a text too long to stand in a view itself, with ä", None],
        "category": pl.Series(["cat", None], dtype=pl.Categorical),
        "enum": pl.Series(["dog", None], dtype=pl.Enum(["cat", "dog"])),
        "date": [dt.date(2024, 2, 29), None],
        "time": [dt.time(1, 2, 3, 4), None],
        "datetime": [dt.datetime(2024, 2, 29, 1, 2, 3, 4), None],
        "duration": [dt.timedelta(seconds=1, microseconds=5), None],
        "nanoseconds": pl.Series([1_700_000_000_123_456_789, None]).cast(pl.Datetime("ns")),
        "list": [["a", None], None],
        "null": [None, None],
    }
)


def test_every_metadata_type_is_scanned_as_it_was_stored(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, a=EVERY_TYPE)
    assert scan_metadata(caches).drop("cache_id", "sample_id", "weight").collect().equals(EVERY_TYPE)


@given(texts=st.lists(st.none() | st.text(max_size=15), min_size=1, max_size=20))
def test_texts_of_any_length_and_alphabet_are_scanned_as_they_were_stored(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None]
) -> None:
    caches = make_caches(tmp_path_factory.mktemp("texts"), a={"text": pl.Series(texts, dtype=pl.String)})
    assert scan_metadata(caches).collect()["text"].to_list() == texts


@pytest.mark.parametrize("row", [0, 1])
def test_row_of_every_metadata_type_is_what_polars_gives(tmp_path: Path, row: int) -> None:
    caches = make_caches(tmp_path, a=EVERY_TYPE)
    assert Population.all_rows(caches).metadata(row) == EVERY_TYPE.row(row, named=True) | {"weight": 1.0}


def test_ten_thousand_caches_are_one_table(tmp_path: Path) -> None:
    one = make_cache(tmp_path / "a", {"label": [1, 2, 3]})
    many = [replace(one, manifest=replace(one.manifest, name=f"cache{i}")) for i in range(10_000)]
    table = scan_metadata(CacheSet(many)).collect()
    assert table.height == 30_000
    assert table["cache_id"].gather_every(3).to_list() == [cache.cache_id for cache in many]
    assert table["label"].n_chunks() < 100


@pytest.fixture(params=[0, 1 << 60], ids=["threads", "one_thread"])
def opened_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take these files for large, or for small ones."""
    monkeypatch.setattr(metadata, "_MIN_BYTES_PER_THREAD", request.param)


@pytest.mark.usefixtures("opened_by")
def test_files_of_any_size_are_one_table_in_the_order_they_were_given(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, **{f"c{i}": {"x": range(i, i + 100)} for i in range(20)})
    table = scan_metadata(caches).collect()
    assert table["x"].to_list() == [x for i in range(20) for x in range(i, i + 100)]
    assert table["cache_id"].to_list() == [cache.cache_id for cache in caches.listed for _ in range(100)]


@pytest.mark.usefixtures("opened_by")
def test_of_several_damaged_files_the_first_is_reported(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, **{f"c{i}": {"x": range(100)} for i in range(20)})
    for number in (13, 4, 17):
        flip_byte(caches.listed[number].metadata_path, -100)
    with pytest.raises(CorruptCacheError, match=r"c4/metadata\.arrow: CRC32C is"):
        scan_metadata(caches)


def test_flipped_byte_is_reported_with_both_checksums(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, a={"label": [1, 2, 3]})
    flip_byte(caches.caches[0].metadata_path, -100)
    expected = caches.caches[0].manifest.file("metadata.arrow").crc32c
    with pytest.raises(CorruptCacheError, match=rf"arrow: CRC32C is \w+ but the manifest says {expected:08x}"):
        scan_metadata(caches)


def test_truncated_file_is_reported_with_both_sizes(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, a={"label": [1, 2, 3]})
    size = caches.caches[0].metadata_path.stat().st_size
    truncate(caches.caches[0].metadata_path, by=3)
    expected = rf"has {size - 3} bytes but the manifest says {size}; it was truncated"
    with pytest.raises(CorruptCacheError, match=expected):
        scan_metadata(caches)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, a={"label": [1]})
    caches.caches[0].metadata_path.unlink()
    with pytest.raises(CorruptCacheError, match=r"a/metadata\.arrow: cannot be read as an Arrow file"):
        scan_metadata(caches)


def test_file_of_another_number_of_rows_is_refused_even_unverified(tmp_path: Path) -> None:
    cache = make_cache(tmp_path / "a", {"label": [1, 2, 3]})
    other = make_cache(tmp_path / "b", {"label": [1, 2]})
    shutil.copy(other.metadata_path, cache.metadata_path)
    files = tuple(other.manifest.file(e.path) if e.path == "metadata.arrow" else e for e in cache.manifest.files)
    swapped = replace(cache, manifest=replace(cache.manifest, files=files))
    with pytest.raises(CorruptCacheError, match=r"has 2 rows but the cache has 3 records"):
        scan_metadata(CacheSet([swapped], verify="never"))
