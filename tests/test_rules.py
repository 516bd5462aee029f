"""What rules do beyond the examples of docs/rules.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsrt_lightning.population.apply import apply_rules, collect_in_order, tables_after_each
from dsrt_lightning.population.rules import Step, parse_rules

SIZE = 60
TABLE = pl.DataFrame(
    {
        "cache_id": [7] * 40 + [3] * 20,
        "sample_id": [*range(40), *range(20)],
        "label": ["a", "b", "b", None, "c", "c"] * 10,
        "writer": [i * i % 13 for i in range(SIZE)],
        "quality": [None if i % 11 == 0 else i / 64 for i in range(SIZE)],  # sums of 64ths are exact
        "weight": [1.0] * SIZE,
    }
)


def steps_of(*rules: dict[str, Any]) -> tuple[Step, ...]:
    return parse_rules(rules, where="rules", schema=TABLE.schema)


def after(*rules: dict[str, Any], table: pl.DataFrame = TABLE) -> pl.DataFrame:
    return collect_in_order(apply_rules(table.lazy(), steps_of(*rules)))


RULES: Sequence[dict[str, Any]] = [
    {"keep": "quality > 0.2"},
    {"drop": "label = 'c' or writer = 4"},
    {"keep": "quality >= avg(quality) over (partition by label)"},
    {"head": 25},
    {"sample": {"fraction": 0.7, "seed": 5}},
    {"sample": {"count": 4, "by": ["label", "writer"]}},
    {"cap": {"by": "label", "count": 7}},
    {"repeat": {"times": 2, "where": "label = 'b'"}},
    {"sort": {"by": ["label", "quality"], "descending": True}},
    {"weight": {"balance": "label"}},
    {"weight": {"by": {"label": {"a": 2, "b": 0}, "writer": {4: 0.5}}}},
    {"weight": {"expr": "weight * coalesce(quality, 0.5)"}},
]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(RULES), max_size=6))
def test_rules_together_do_what_they_do_one_after_the_other(rules: list[dict[str, Any]]) -> None:
    steps = steps_of(*rules)
    *_, one_by_one = TABLE, *(table for _, table in tables_after_each(TABLE.lazy(), steps))
    assert collect_in_order(apply_rules(TABLE.lazy(), steps)).equals(one_by_one)


@pytest.mark.parametrize("rule", [rule for rule in RULES if not {"sort", "repeat"} & set(rule)], ids=str)
def test_rows_keep_their_order(rule: dict[str, Any]) -> None:
    numbered = TABLE.with_columns(number=pl.int_range(pl.len()))
    assert after(rule, table=numbered)["number"].is_sorted()


# --- keep and drop ---


@pytest.mark.parametrize("condition", ["quality > 0.5", "label = 'a'", "label is null", "writer in (1, 4)", "true"])
def test_keep_and_drop_part_the_table(condition: str) -> None:
    kept, dropped = after({"keep": condition}), after({"drop": condition})
    assert kept.height + dropped.height == SIZE
    assert pl.concat([kept, dropped]).sort("cache_id", "sample_id").equals(TABLE.sort("cache_id", "sample_id"))


# --- sample ---


def ids(table: pl.DataFrame) -> set[tuple[int, int]]:
    return set(table.select("cache_id", "sample_id").iter_rows())


def test_sample_is_pinned() -> None:
    """The same rows for ever: changing this changes what people train on."""
    assert sorted(ids(after({"sample": {"count": 6, "seed": 7}}))) == PINNED_SAMPLE


PINNED_SAMPLE = [(3, 1), (3, 2), (3, 17), (7, 5), (7, 8), (7, 19)]


def test_sample_does_not_depend_on_order_or_other_columns() -> None:
    rule = {"sample": {"count": 11, "seed": 1}}
    shuffled = TABLE.sample(fraction=1.0, shuffle=True, seed=2).with_columns(writer=0)
    assert ids(after(rule)) == ids(after(rule, table=shuffled))


def test_smaller_sample_is_part_of_a_larger_one() -> None:
    samples = [ids(after({"sample": {"count": count}})) for count in range(1, SIZE, 7)]
    assert all(small < large for small, large in pairwise(samples))


def test_seeds_take_different_rows() -> None:
    assert len({frozenset(ids(after({"sample": {"count": 10, "seed": seed}}))) for seed in range(20)}) == 20


@pytest.mark.parametrize(("fraction", "expected"), [(1.0, 60), (0.5, 30), (0.675, 41), (0.674, 40), (0.001, 0)])
def test_fraction_is_rounded_half_up(fraction: float, expected: int) -> None:
    assert after({"sample": {"fraction": fraction}}).height == expected


def test_sample_by_group_takes_from_each_group() -> None:
    counts = after({"sample": {"count": 15, "by": "label"}})["label"].value_counts()
    assert dict(counts.iter_rows()) == {"a": 10, "b": 15, "c": 15, None: 10}
    counts = after({"sample": {"fraction": 0.25, "by": "label"}})["label"].value_counts()
    assert dict(counts.iter_rows()) == {"a": 3, "b": 5, "c": 5, None: 3}


def test_sample_takes_every_row_equally_often() -> None:
    """Chi-square over 240 seeds: each of 60 rows is taken 40 times on average."""
    taken = pl.concat([after({"sample": {"count": 10, "seed": seed}}) for seed in range(240)])
    counts = taken.group_by("cache_id", "sample_id").len()["len"]
    assert counts.sum() == 2400
    # The draws are without replacement, which makes the statistic smaller by (60 - 10) / 59; 0.1 % is at 98.3.
    assert ((counts - 40) ** 2 / 40).sum() < 98.3


def test_copies_of_a_row_stay_together() -> None:
    table = after({"repeat": {"times": 3}}, {"sample": {"count": 30}})
    assert table.group_by("cache_id", "sample_id").len()["len"].to_list() == [3] * 10


# --- split ---


def split(table: pl.DataFrame, by: str | list[str] = "writer", **options: Any) -> pl.DataFrame:
    rule = {"split": {"by": by, "parts": {"train": 0.7, "val": 0.2, "test": 0.1}, **options}}
    return apply_rules(table.lazy(), parse_rules([rule], where="rules", schema=table.schema)).collect()


def test_equal_keys_never_straddle_parts() -> None:
    for by in ("writer", ["label", "writer"]):
        assert split(TABLE, by).group_by(by).agg(pl.col("split").n_unique())["split"].to_list().count(1) > 1
        assert split(TABLE, by).group_by(by).agg(pl.col("split").n_unique())["split"].max() == 1


def test_parts_have_their_shares_over_many_keys() -> None:
    keys = pl.DataFrame({"key": range(20_000), "weight": 1.0})
    counts = dict(split(keys, "key")["split"].value_counts().iter_rows())
    for part, share in (("train", 0.7), ("val", 0.2), ("test", 0.1)):
        assert abs(counts[part] - 20_000 * share) < 4 * math.sqrt(20_000 * share * (1 - share))


def test_added_records_move_no_other() -> None:
    first, second = split(TABLE[:30]), split(TABLE)
    assert second[:30].equals(first)


def test_key_type_does_not_matter() -> None:
    texts = pl.DataFrame({"key": ["0", "17", "x y", "ä", ""]})
    categories = texts.cast(pl.Categorical)
    assert split(texts, "key")["split"].to_list() == split(categories, "key")["split"].to_list()
    numbers = pl.DataFrame({"key": pl.Series([0, 17], dtype=pl.UInt8)})
    assert split(numbers, "key")["split"].to_list() == split(texts, "key")["split"].to_list()[:2]


def test_split_is_pinned() -> None:
    """The same parts for ever: changing this leaks validation records into training."""
    keys = pl.DataFrame({"key": [f"writer {i}" for i in range(30)]})
    assert "".join(part[0] for part in split(keys, "key", seed=9)["split"].replace("test", "x")) == PINNED_SPLIT


PINNED_SPLIT = "ttttttxvvttxttttxttttttttvtttt"


# --- join ---


@pytest.fixture
def scores() -> pl.DataFrame:
    return pl.DataFrame({"writer": [4, 1, 99], "age": [31, 25, 70], "name": ["x", "y", "z"]})


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow", "ipc", "feather"])
def test_join_reads_every_format(tmp_path: Path, scores: pl.DataFrame, suffix: str) -> None:
    file = tmp_path / f"scores.{suffix}"
    {"parquet": scores.write_parquet, "csv": scores.write_csv}.get(suffix, scores.write_ipc)(file)
    joined = after({"join": {"file": str(file), "by": "writer", "columns": "age"}})
    ages = {4: 31, 1: 25}
    assert joined.drop("age").equals(TABLE)
    assert joined["age"].to_list() == [ages.get(writer) for writer in TABLE["writer"]]


@pytest.mark.parametrize("how", ["inner", "semi", "anti"])
def test_join_selects_rows(tmp_path: Path, scores: pl.DataFrame, how: str) -> None:
    file = tmp_path / "scores.parquet"
    scores.write_parquet(file)
    joined = after({"join": {"file": str(file), "by": "writer", "how": how}})
    matches = pl.col("writer").is_in([4, 1])
    assert joined.select(TABLE.columns).equals(TABLE.filter(~matches if how == "anti" else matches))
    assert (joined.width > TABLE.width) == (how == "inner")


def test_join_on_ids_finds_single_records(tmp_path: Path) -> None:
    file = tmp_path / "scores.parquet"
    TABLE.select("cache_id", pl.col("sample_id").cast(pl.Int16), score=pl.col("sample_id") / 2).write_parquet(file)
    joined = after({"join": {"file": str(file), "by": ["cache_id", "sample_id"]}})
    assert joined["score"].to_list() == [sample_id / 2 for sample_id in TABLE["sample_id"]]


def test_large_join_keeps_the_order(tmp_path: Path) -> None:
    file = tmp_path / "scores.parquet"
    pl.DataFrame({"key": range(50_000), "score": range(50_000)}).sample(fraction=1, shuffle=True).write_parquet(file)
    table = pl.DataFrame({"key": [i * 7919 % 60_000 for i in range(100_000)], "number": range(100_000)})
    for how in ("left", "inner", "semi", "anti"):
        steps = parse_rules([{"join": {"file": str(file), "by": "key", "how": how}}], where="rules")
        assert apply_rules(table.lazy(), steps).collect()["number"].is_sorted()


# --- weight ---


def test_balanced_groups_have_the_total_one() -> None:
    for by in ("label", ["label", "writer"]):
        totals = after({"weight": {"balance": by}}).group_by(by).agg(pl.col("weight").sum())["weight"]
        assert totals.to_list() == pytest.approx([1.0] * len(totals))


def test_balance_keeps_the_weights_inside_a_group_in_proportion() -> None:
    table = after({"weight": {"expr": "1 + writer"}}, {"weight": {"balance": "label"}})
    for (_,), group in table.group_by("label"):
        ratio = group["weight"] / (1 + group["writer"])
        assert ratio.to_list() == pytest.approx([ratio[0]] * len(ratio))


def test_balance_leaves_a_group_of_weight_zero_at_zero() -> None:
    table = after({"weight": {"by": {"label": {"a": 0}}}}, {"weight": {"balance": "label"}})
    assert table.filter(pl.col("label") == "a")["weight"].to_list() == [0.0] * 10


def test_balance_is_the_articles_expression() -> None:
    expected = TABLE.with_columns((1.0 / pl.len().over("label")).alias("weight"))
    assert after({"weight": {"balance": "label"}}).equals(expected)
    assert after({"weight": {"expr": "1.0 / count(*) over (partition by label)"}}).equals(expected)


def test_weight_of_a_very_large_class_is_not_rounded_to_zero() -> None:
    """Polars 2 reads 1.0 as a decimal of few digits; the rules make it a float."""
    table = TABLE.with_columns(writer=pl.lit(300_000_000))
    assert after({"weight": {"expr": "1.0 / writer"}}, table=table)["weight"][0] == 1 / 300_000_000


def test_weights_by_several_columns_multiply() -> None:
    table = after({"weight": {"by": {"label": {"a": 2.0}, "writer": {0: 10}}}})
    expected = [(2.0 if row["label"] == "a" else 1) * (10 if row["writer"] == 0 else 1) for row in TABLE.to_dicts()]
    assert table["weight"].to_list() == expected
