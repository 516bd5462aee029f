"""A population holds exactly what a frame selects, and is refused as a whole otherwise."""

from __future__ import annotations

import pickle
import random
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_caches import make_caches

from dsrt_lightning.errors import EmptyPopulationError, MetadataError, WeightError
from dsrt_lightning.population import selection
from dsrt_lightning.population.population import Population
from dsrt_lightning.store.cache_set import CacheSet

A = {"label": [3, 1, 1], "split": ["train", "val", "train"]}
B = {"label": [2, 3], "quality": [0.5, None]}


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> CacheSet:
    return make_caches(tmp_path_factory.mktemp("caches"), a=A, b=B)


@pytest.fixture
def table(caches: CacheSet) -> pl.DataFrame:
    return Population.all_rows(caches).frame()


def ids_of(population: Population) -> list[tuple[str, int]]:
    located = (population.caches.locate(int(row)) for row in population.rows)
    return [(population.caches.caches[ordinal].path.name, sample_id) for ordinal, sample_id in located]


# --- what it holds ---


def test_all_rows_are_in_listed_order_with_weight_one(caches: CacheSet) -> None:
    for listed in (caches.listed, caches.listed[::-1]):
        population = Population.all_rows(CacheSet(listed))
        names = [name for name, _ in ids_of(population)]
        assert list(dict.fromkeys(names)) == [cache.path.name for cache in listed]
        assert population.weights.tolist() == [1.0] * 5


def test_rows_follow_the_frame_in_any_order_with_repeats(caches: CacheSet, table: pl.DataFrame) -> None:
    chosen = [4, 0, 0, 3, 1, 4]
    population = Population.from_frame(caches, table[chosen])
    everything = ids_of(Population.all_rows(caches))
    assert ids_of(population) == [everything[row] for row in chosen]
    assert len(population) == 6


def test_a_table_that_was_only_weighted_anew_needs_no_array_of_rows(caches: CacheSet, table: pl.DataFrame) -> None:
    for frame, has_array in ((table.with_columns(weight=2.0), False), (table.reverse(), True), (table[:4], True)):
        population = Population.from_frame(caches, frame)
        assert ("rows" in vars(population)) == has_array
        ids = [(caches.caches[ordinal].cache_id, row) for ordinal, row in map(caches.locate, population.rows.tolist())]
        assert ids == frame.select("cache_id", "sample_id").rows()
        assert population.frame().equals(frame)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> CacheSet:
    """Caches of 1 to 40 records, opened in no order of their ids."""
    sizes = [random.Random(i).randrange(1, 40) for i in range(30)]
    opened = make_caches(tmp_path_factory.mktemp("many"), **{f"c{i}": {"x": range(n)} for i, n in enumerate(sizes)})
    return CacheSet(random.Random(0).sample(opened.listed, len(opened.listed)))


@given(one=st.integers(min_value=0), other=st.integers(min_value=0), is_copied=st.booleans(), piece=st.integers(1, 99))
def test_a_table_with_one_other_row_is_not_taken_for_the_whole(
    many: CacheSet, one: int, other: int, is_copied: bool, piece: int
) -> None:
    whole = Population.all_rows(many).frame()
    order = list(range(len(whole)))
    one, other = one % len(order), other % len(order)
    order[one], order[other] = (order[other], order[other]) if is_copied else (order[other], order[one])
    frame = whole[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_ROWS_PER_PIECE", piece)
        population = Population.from_frame(many, frame)
    assert ("rows" in vars(population)) == (one != other)
    assert population.frame().select("cache_id", "sample_id").equals(frame.select("cache_id", "sample_id"))


@pytest.mark.parametrize("piece", [5, 10])
def test_a_table_of_the_caches_in_another_order_is_not_taken_for_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(selection, "_ROWS_PER_PIECE", piece)
    caches = make_caches(tmp_path, a={"x": range(5)}, b={"x": range(5)})
    frame = Population.all_rows(CacheSet(caches.listed[::-1])).frame()
    population = Population.from_frame(caches, frame)
    assert population.frame().select("cache_id", "sample_id").equals(frame.select("cache_id", "sample_id"))


def test_rows_without_weight_leave_a_table_that_is_whole_otherwise(caches: CacheSet, table: pl.DataFrame) -> None:
    population = Population.from_frame(caches, table.with_columns(weight=pl.Series([1.0, 0.0, 2.0, 0.0, 3.0])))
    assert ids_of(population) == [ids_of(Population.all_rows(caches))[row] for row in (0, 2, 4)]
    assert population.weights.tolist() == [1.0, 2.0, 3.0]


@given(rows=st.lists(st.integers(0, 4), min_size=1, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=5))
def test_rows_do_not_depend_on_how_the_frame_is_cut(caches: CacheSet, rows: list[int], cuts: list[int]) -> None:
    whole = Population.all_rows(caches).frame()[rows]
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [whole[start:stop] for start, stop in pairwise(edges) if start < stop]
    chunked = pl.concat(parts, rechunk=False).with_columns(sample_id=whole["sample_id"])
    population = Population.from_frame(caches, chunked)
    assert ids_of(population) == [ids_of(Population.all_rows(caches))[row] for row in rows]


def test_weight_defaults_to_one(caches: CacheSet, table: pl.DataFrame) -> None:
    population = Population.from_frame(caches, table.drop("weight"))
    assert population.uniform
    assert population.weights.tolist() == [1.0] * 5


def test_equal_weights_of_any_size_are_uniform(caches: CacheSet, table: pl.DataFrame) -> None:
    population = Population.from_frame(caches, table.with_columns(weight=0.25))
    assert population.uniform
    assert population.weights.tolist() == [0.25] * 5
    assert population.weights.strides == (0,)


def test_rows_of_weight_zero_are_left_out(caches: CacheSet, table: pl.DataFrame) -> None:
    population = Population.from_frame(caches, table.with_columns(weight=pl.Series([0, 2, 0, 1, 0])))
    assert not population.uniform
    assert population.weights.tolist() == [2.0, 1.0]
    assert ids_of(population) == [("a", 1), ("b", 0)]
    assert [population.metadata(i)["label"] for i in range(2)] == [1, 2]


def test_lazy_frame_is_taken_too(caches: CacheSet, table: pl.DataFrame) -> None:
    population = Population.from_frame(caches, table.lazy().filter(pl.col("label") == 3))
    assert ids_of(population) == [("a", 0), ("b", 1)]


def test_arrays_are_read_only(caches: CacheSet, table: pl.DataFrame) -> None:
    weighted = table.with_columns(weight=pl.Series([1.0, 2, 3, 4, 5]))
    for population in (Population.all_rows(caches), Population.from_frame(caches, weighted)):
        for array in (population.rows, population.weights):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7


def test_population_does_not_share_memory_with_the_users_array(caches: CacheSet, table: pl.DataFrame) -> None:
    weights = np.array([1.0, 2, 3, 4, 5])
    population = Population.from_frame(caches, table.with_columns(pl.Series("weight", weights)))
    weights[:] = -1
    assert population.weights.tolist() == [1, 2, 3, 4, 5]


# --- metadata of its rows ---


def test_metadata_of_a_frame_has_its_columns_and_the_weight(caches: CacheSet, table: pl.DataFrame) -> None:
    frame = table.select("cache_id", "sample_id", "label", weight=pl.lit(2), score=pl.col("label") / 2)
    population = Population.from_frame(caches, frame)
    assert population.metadata(3) == {"label": 2, "score": 1.0, "weight": 2.0}


def test_metadata_of_all_rows_is_what_is_stored(caches: CacheSet) -> None:
    population = Population.all_rows(caches)
    assert population.metadata(0) == {"label": 3, "split": "train", "quality": None, "weight": 1.0}
    assert population.metadata(3) == {"label": 2, "split": None, "quality": 0.5, "weight": 1.0}


def test_frame_gives_back_what_it_was_made_from(caches: CacheSet, table: pl.DataFrame) -> None:
    changed = table[[3, 1, 1]].with_columns(weight=pl.Series([1.0, 2, 3]), more=pl.Series(["x", None, "z"]))
    assert (
        Population.from_frame(caches, changed)
        .frame()
        .equals(changed.select("cache_id", "sample_id", "label", "split", "quality", "more", "weight"))
    )


@pytest.mark.parametrize("position", [-1, 5])
def test_metadata_outside_the_population_is_an_index_error(caches: CacheSet, position: int) -> None:
    with pytest.raises(IndexError, match=rf"position {position} is not in \[0, 5\)"):
        Population.all_rows(caches).metadata(position)


@pytest.mark.parametrize("chosen", [[4, 2, 2], [2, 2, 4], [4, 4, 2, 2]])
def test_find_gives_the_first_position_of_a_record(caches: CacheSet, table: pl.DataFrame, chosen: list[int]) -> None:
    population = Population.from_frame(caches, table[chosen])
    for row in (2, 4):
        cache_id, sample_id = table.row(row)[:2]
        assert population.find(cache_id, sample_id) == chosen.index(row)
    cache_id, sample_id = table.row(0)[:2]
    for missing in ((cache_id, sample_id), (cache_id, 99), (cache_id + 1, 0)):
        with pytest.raises(KeyError, match=rf"no row of cache_id {missing[0]}, sample_id {missing[1]}"):
            population.find(*missing)


# --- group codes ---


def test_group_codes_index_the_sorted_values(caches: CacheSet) -> None:
    codes, values = Population.all_rows(caches).group_codes("label")
    assert values == [1, 2, 3]
    assert codes.dtype == np.int32
    assert [values[code] for code in codes] == [3, 1, 1, 2, 3]


def test_null_is_the_last_group(caches: CacheSet) -> None:
    codes, values = Population.all_rows(caches).group_codes("split")
    assert values == ["train", "val", None]
    assert codes.tolist() == [0, 1, 0, 2, 2]


@pytest.mark.parametrize(
    ("column", "message"),
    [("lable", r"'lable' is not in the metadata, did you mean 'label'\?"), ("quality", "'quality' is Float64; only")],
)
def test_column_that_makes_no_groups_is_refused(caches: CacheSet, column: str, message: str) -> None:
    with pytest.raises(MetadataError, match=message):
        Population.all_rows(caches).group_codes(column)


# --- digest ---


def test_digest_is_pinned(tmp_path: Path) -> None:
    """Checkpoints hold it: changing it is a break of their format."""
    population = Population.all_rows(make_caches(tmp_path, a=A))
    object.__setattr__(population.caches.caches[0].manifest, "identity", "0" * 64)
    assert population.digest == "6b6e494e3eebbfa427fc809a9f531291da48ff13d1593e93fc779d7fcca83fef"


def test_digest_tells_rows_order_and_weights_apart(caches: CacheSet, table: pl.DataFrame) -> None:
    frames = [table, table[::-1], table[:4], table.with_columns(weight=2.0), pl.concat([table, table[:1]])]
    digests = {Population.from_frame(caches, frame).digest for frame in frames}
    assert len(digests) == len(frames)


def test_digest_does_not_depend_on_other_columns_or_how_it_came_about(caches: CacheSet, table: pl.DataFrame) -> None:
    in_memory = Population.from_frame(caches, table)
    populations = [
        in_memory,
        Population.all_rows(caches),
        Population.from_frame(caches, table.drop("label")),
        pickle.loads(pickle.dumps(in_memory)),
    ]
    assert len({population.digest for population in populations}) == 1


# --- tables ---


def test_table_is_made_once(caches: CacheSet) -> None:
    population, made = Population.all_rows(caches), []
    for _ in range(2):
        table = population.table("alias", lambda: made.append(1) or np.arange(3))
        assert table.tolist() == [0, 1, 2]
        assert not table.flags.writeable
    assert made == [1]


# --- refusals: each leaves nothing behind, since nothing is returned ---


@pytest.mark.parametrize("name", ["cache_id", "sample_id"])
def test_missing_id_column_is_refused(caches: CacheSet, table: pl.DataFrame, name: str) -> None:
    with pytest.raises(MetadataError, match=rf"metadata: column '{name}' is missing \(columns: .*label"):
        Population.from_frame(caches, table.drop(name))


def test_id_column_of_another_type_is_refused(caches: CacheSet, table: pl.DataFrame) -> None:
    with pytest.raises(MetadataError, match=r"'sample_id' is Float64 with 0 nulls, not integers"):
        Population.from_frame(caches, table.cast({"sample_id": pl.Float64}))


def test_null_id_is_refused(caches: CacheSet, table: pl.DataFrame) -> None:
    with pytest.raises(MetadataError, match=r"'cache_id' is Int64 with 1 nulls"):
        Population.from_frame(caches, table.with_columns(cache_id=pl.when(pl.col("label") != 2).then("cache_id")))


def test_unknown_cache_id_is_refused_with_the_opened_ones(caches: CacheSet, table: pl.DataFrame) -> None:
    wrong = table.with_columns(cache_id=pl.when(pl.col("label") == 1).then(pl.lit(77)).otherwise("cache_id"))
    known = caches.listed[0].cache_id
    message = rf"2 of 5 rows name unknown records, the first is row 1: cache_id 77 is not among .*/a: {known}"
    with pytest.raises(MetadataError, match=message):
        Population.from_frame(caches, wrong)


@pytest.mark.parametrize("sample_id", [-1, 3, 2**62])
def test_unknown_sample_id_is_refused_with_the_range(caches: CacheSet, table: pl.DataFrame, sample_id: int) -> None:
    wrong = table.with_columns(sample_id=pl.Series([0, 1, sample_id, 0, 1]))
    message = rf"1 of 5 rows .* the first is row 2: sample_id {sample_id} is not in \[0, 3\), the records of .*/a"
    with pytest.raises(MetadataError, match=message):
        Population.from_frame(caches, wrong)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, None])
def test_wrong_weight_is_refused_with_its_row(caches: CacheSet, table: pl.DataFrame, value: float | None) -> None:
    wrong = table.with_columns(weight=pl.Series([1.0, 1.0, value, 1.0, value]))
    cache_id = table["cache_id"][2]
    message = (
        rf"metadata: 2 of 5 weights are not finite and >= 0, "
        rf"the first in row 2 \(cache_id {cache_id}, sample_id 2\): {re.escape(str(value))}"
    )
    with pytest.raises(WeightError, match=message):
        Population.from_frame(caches, wrong)


def test_weights_that_are_all_zero_are_refused(caches: CacheSet, table: pl.DataFrame) -> None:
    with pytest.raises(WeightError, match="metadata: all 5 weights are zero"):
        Population.from_frame(caches, table.with_columns(weight=0.0))


def test_weights_that_are_no_numbers_are_refused(caches: CacheSet, table: pl.DataFrame) -> None:
    with pytest.raises(WeightError, match="column 'weight' is String, not numbers"):
        Population.from_frame(caches, table.with_columns(weight=pl.lit("1")))


def test_frame_without_rows_is_refused(caches: CacheSet, table: pl.DataFrame) -> None:
    with pytest.raises(EmptyPopulationError, match="metadata: there are no rows"):
        Population.from_frame(caches, table.clear())


def test_many_shuffled_rows_of_many_caches_are_all_found(tmp_path: Path) -> None:
    sizes = [random.Random(i).randrange(1, 400) for i in range(50)]
    caches = make_caches(tmp_path, **{f"c{i}": {"x": range(size)} for i, size in enumerate(sizes)})
    table = Population.all_rows(caches).frame().sample(200_000, with_replacement=True, seed=1)
    population = Population.from_frame(caches, table)
    bases = dict(zip((cache.cache_id for cache in caches.caches), caches.bases, strict=True))
    assert population.rows.tolist() == [bases[c] + s for c, s in table.select("cache_id", "sample_id").iter_rows()]
