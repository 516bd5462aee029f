"""Every problem of a rule list is reported at once, with its place, before any row is read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dsrt_lightning.errors import EmptyPopulationError, RuleError
from dsrt_lightning.population.apply import apply_rules, collect
from dsrt_lightning.population.rules import parse_rules

SCHEMA = pl.Schema(
    {
        "cache_id": pl.Int64,
        "sample_id": pl.Int64,
        "label": pl.String,
        "source": pl.Categorical(),
        "size": pl.Int8,
        "quality": pl.Float64,
        "good": pl.Boolean,
        "day": pl.Date,
        "kind": pl.Enum(["x", "y"]),
        "weight": pl.Float64,
    }
)


def problems_of(*rules: Any, schema: pl.Schema | None = SCHEMA) -> list[str]:
    try:
        parse_rules(list(rules), where="digits.yaml: train.rules", schema=schema)
    except RuleError as error:
        return [line.removeprefix("digits.yaml: train.rules") for line in str(error).splitlines()]
    return []


def test_all_problems_are_reported_at_once_in_order() -> None:
    found = problems_of(
        {"keep": "good"},
        {"kep": 1},
        {"weight": {"balance": "lable"}},
        {"head": 0},
        {"sample": {"fraction": 2, "bye": 1}},
    )
    places = [problem.split(":")[0] for problem in found]
    assert places == ["[1]", "[2].weight", "[3].head", "[4].sample.fraction", "[4].sample"]


def test_the_example_of_the_design_is_exact() -> None:
    schema = pl.Schema({"cache_id": pl.Int64, "label": pl.String, "source": pl.String, "split": pl.String})
    with pytest.raises(RuleError) as caught:
        parse_rules(
            [{"head": 1}, {"head": 1}, {"weight": {"balance": "quality"}}],
            where="digits.yaml: train.rules",
            schema=schema,
        )
    assert str(caught.value) == (
        "digits.yaml: train.rules[2].weight: column 'quality' is not in the metadata (columns: label, source, split)"
    )


ONE_RULE: dict[str, tuple[Any, str]] = {
    "no mapping": ("keep", "[0]: a rule is a mapping with one key, its name, not 'keep' (rules: keep, drop,"),
    "two keys": ({"head": 1, "keep": "good"}, "[0]: a rule is a mapping with one key, its name, not {'head': 1,"),
    "unknown rule": (
        {"blance": 1},
        "[0]: unknown rule 'blance' (rules: keep, drop, head, sample, cap, repeat, join, with,",
    ),
    "misspelt rule": ({"wieght": 1}, "[0]: unknown rule 'wieght', did you mean 'weight'? (rules: keep,"),
    "rule of another type": ({1: "good"}, "[0]: unknown rule 1 (rules: keep,"),
    "unknown key": (
        {"cap": {"by": "label", "cuont": 1}},
        "[0].cap: key 'count' is missing (keys: by, count)"
        "|[0].cap: unknown key 'cuont', did you mean 'count'? (keys: by, count)",
    ),
    "scalar for a mapping": ({"sort": "label"}, "[0].sort: a mapping is expected, not 'label' (keys: by, descending)"),
    "mapping for a scalar": ({"keep": {"if": "good"}}, "[0].keep: must be a valid string, not {'if': 'good'}"),
    "wrong type": ({"head": "ten"}, "[0].head: must be a valid integer, not 'ten'"),
    "bool for a number": ({"head": True}, "[0].head: must be a valid integer, not True"),
    "too small": ({"repeat": {"times": 0}}, "[0].repeat.times: must be greater than or equal to 1, not 0"),
    "fraction above 1": (
        {"sample": {"fraction": 1.5}},
        "[0].sample.fraction: must be less than or equal to 1, not 1.5",
    ),
    "neither size": ({"sample": {"seed": 1}}, "[0].sample: exactly one of count, fraction is needed, not none"),
    "both sizes": (
        {"sample": {"count": 1, "fraction": 0.5}},
        "[0].sample: exactly one of count, fraction is needed, not count, fraction",
    ),
    "no way to weigh": ({"weight": {}}, "[0].weight: exactly one of balance, by, expr is needed, not none"),
    "negative weight": (
        {"weight": {"by": {"label": {"a": -1}}}},
        "[0].weight.by.label.a: must be greater than or equal to 0, not -1",
    ),
    "infinite weight": (
        {"weight": {"by": {"label": {"a": float("inf")}}}},
        "[0].weight.by.label.a: must be a finite number, not inf",
    ),
    "unknown join": (
        {"join": {"file": "x.csv", "by": "label", "how": "outer"}},
        "[0].join.how: must be 'left', 'inner', 'semi' or 'anti', not 'outer'",
    ),
    "no columns": ({"sort": {"by": []}}, "[0].sort.by: needs at least 1, has 0"),
    "column named twice": ({"sort": {"by": ["a", "a"]}}, "[0].sort.by: a column is named twice in ['a', 'a']"),
    "reserved new name": ({"with": {"cache_id": "1"}}, "[0].with.cache_id: 'cache_id' is a reserved column"),
    "weight as new name": (
        {"with": {"weight": "1"}},
        "[0].with.weight: 'weight' is a reserved column; a `weight` rule sets it",
    ),
    "parts that are no whole": (
        {"split": {"by": "label", "parts": {"a": 0.5, "b": 0.4}}},
        "[0].split: the fractions of the parts add up to 0.9, not 1",
    ),
    "syntax error": ({"keep": "label ="}, "[0].keep: 'label =' is not an SQL expression:"),
    "unknown column": (
        {"keep": "qualty > 1"},
        "[0].keep: column 'qualty' is not in the metadata, did you mean 'quality'? (columns: label, source, size,",
    ),
    "no condition": ({"keep": "quality"}, "[0].keep: 'quality' is Float64, a condition is Boolean"),
    "no condition to repeat": ({"repeat": {"times": 2, "where": "size"}}, "[0].repeat: 'size' is Int8, a condition is"),
    "types that do not compare": (
        {"drop": "label > 1"},
        "[0].drop: 'label > 1': cannot compare string with numeric type",
    ),
    "text as weight": ({"weight": {"expr": "label"}}, "[0].weight: 'label' is String, a weight is a number"),
    "existing new column": (
        {"with": {"size": "1"}},
        "[0].with: column 'size' is in the metadata already, choose another",
    ),
    "existing part column": (
        {"split": {"by": "label", "parts": {"a": 0.5, "b": 0.5}, "into": "kind"}},
        "[0].split: column 'kind' is in the metadata already, choose another name",
    ),
    "float key": (
        {"split": {"by": "quality", "parts": {"a": 0.5, "b": 0.5}}},
        "[0].split: key 'quality' is Float64, whose text is not fixed; use text, integers, bools or dates",
    ),
    "no such file": ({"join": {"file": "no.csv", "by": "label"}}, "[0].join: there is no file 'no.csv' (relative to "),
    "unknown suffix": (
        {"join": {"file": "x.xls", "by": "label"}},
        "[0].join: 'x.xls' has suffix '.xls', not one of .parquet,",
    ),
}


@pytest.mark.parametrize(("rule", "expected"), ONE_RULE.values(), ids=ONE_RULE)
def test_problem_names_the_value_and_the_choices(rule: Any, expected: str) -> None:
    found = problems_of(rule)
    assert len(found) == expected.count("|") + 1
    for problem, text in zip(found, expected.split("|"), strict=True):
        assert problem.startswith(text)


@pytest.mark.parametrize(
    ("column", "value", "type_name"),
    [
        ("label", 1, "int"),
        ("size", "1", "str"),
        ("size", 1.0, "float"),
        ("size", True, "bool"),
        ("size", 128, "int"),
        ("good", 1, "int"),
        ("day", "2024-01-02", "str"),
        ("kind", "z", "str"),
    ],
)
def test_weight_of_a_value_that_the_column_cannot_have(column: str, value: object, type_name: str) -> None:
    (problem,) = problems_of({"weight": {"by": {column: {value: 2}}}})
    assert problem.startswith(
        f"[0].weight: value {value!r} is {type_name} but column {column!r} is {SCHEMA[column]}"[:60]
    )


def test_weight_of_every_value_that_a_column_can_have() -> None:
    values = {"label": "a", "source": "a", "size": -128, "good": True, "day": dt.date(2024, 1, 2), "kind": "x"}
    assert problems_of({"weight": {"by": {column: {value: 2} for column, value in values.items()}}}) == []


def test_columns_that_a_wrong_rule_was_meant_to_add_are_not_reported_too() -> None:
    wrong = (
        {"with": {"better": "qualty * 2"}},
        {"split": {"by": "label", "part": {}, "into": "fold"}},
        {"wth": {"z": "1"}},
    )
    found = problems_of(*wrong, {"keep": "better > 1 and fold = 'a' and z = 1"}, {"keep": "other > 1"})
    assert [problem.split(":")[0] for problem in found] == ["[0].with", "[1].split", "[1].split", "[2]", "[4].keep"]


def test_after_a_wrong_join_no_column_is_reported_as_unknown() -> None:
    assert len(problems_of({"join": {"file": "no.csv", "by": "label"}}, {"keep": "age > 3"})) == 1


def test_rules_see_the_columns_that_rules_before_them_added() -> None:
    shared = parse_rules([{"with": {"better": "quality * 2"}}], where="rules", schema=SCHEMA)
    parse_rules([{"keep": "better > 1"}], where="train.rules", schema=SCHEMA, after=shared)
    with pytest.raises(RuleError, match=r"train\.rules\[0\]\.keep: column 'better' is not in the metadata"):
        parse_rules([{"keep": "better > 1"}], where="train.rules", schema=SCHEMA)


def test_without_a_schema_only_the_form_is_checked() -> None:
    assert problems_of({"keep": "anything > 1"}, schema=None) == []
    assert len(problems_of({"keep": "anything >"}, schema=None)) == 1


@pytest.mark.parametrize("raw", [None, "keep", {"keep": "good"}, 3])
def test_something_else_than_a_list_is_refused(raw: object) -> None:
    with pytest.raises(RuleError, match="rules: a list of rules is expected, not"):
        parse_rules(raw, where="rules")


# --- joined files ---


def joined(tmp_path: Path, table: pl.DataFrame, **options: Any) -> list[str]:
    file = tmp_path / "scores.parquet"
    table.write_parquet(file)
    return [problem.replace(str(file), "FILE") for problem in problems_of({"join": {"file": str(file), **options}})]


def test_key_with_several_rows_is_refused_with_an_example(tmp_path: Path) -> None:
    table = pl.DataFrame({"label": ["a", "b", "b", "c", "c", None, None], "age": range(7)})
    assert joined(tmp_path, table, by="label") == [
        "[0].join: 'FILE': key 'b' has 2 rows (keys with more than one row: 2); a key may have one row"
    ]


def test_missing_columns_of_the_file_are_named(tmp_path: Path) -> None:
    table = pl.DataFrame({"lable": ["a"], "age": [1]})
    assert joined(tmp_path, table, by="label", columns=["age", "agee"]) == [
        "[0].join: 'FILE': column 'label' is not in the file, did you mean 'lable'? (columns: lable, age)",
        "[0].join: 'FILE': column 'agee' is not in the file, did you mean 'age'? (columns: lable, age)",
    ]


def test_key_of_another_type_names_both(tmp_path: Path) -> None:
    assert joined(tmp_path, pl.DataFrame({"size": ["a"], "age": [1]}), by="size") == [
        "[0].join: key 'size' is String in 'FILE' but Int8 in the metadata"
    ]


def test_column_that_the_metadata_has_already_is_refused(tmp_path: Path) -> None:
    table = pl.DataFrame({"label": ["a"], "quality": [1], "weight": [1.0]})
    assert [problem.partition(" is in")[0] for problem in joined(tmp_path, table, by="label")] == [
        "[0].join: column 'quality'",
        "[0].join: column 'weight'",
    ]


def test_file_that_is_damaged_is_a_problem_of_its_rule(tmp_path: Path) -> None:
    (tmp_path / "scores.parquet").write_bytes(b"PAR1 no")
    (problem,) = problems_of({"join": {"file": str(tmp_path / "scores.parquet"), "by": "label"}})
    assert problem.startswith(f"[0].join: '{tmp_path}/scores.parquet' cannot be read: ")


# --- on the data ---

TABLE = pl.LazyFrame({"cache_id": 1, "sample_id": range(4), "label": ["1", "2", "x", "3"], "weight": 1.0})


def run(*rules: dict[str, Any]) -> pl.DataFrame:
    steps = parse_rules(rules, where="rules", schema=TABLE.collect_schema())
    return collect(apply_rules(TABLE, steps), TABLE, steps)


def test_cast_that_fails_names_its_rule() -> None:
    with pytest.raises(RuleError, match=r"^rules\[1\]\.with: conversion from `str` to `i64` failed .* \[\"x\"\]$"):
        run({"drop": "label = '3'"}, {"with": {"number": "cast(label as bigint)"}}, {"keep": "number > 0"})


def test_rule_that_leaves_no_row_is_named_with_the_rows_before() -> None:
    message = r"^rules\[1\]\.keep: none of 3 rows is left after `keep: label > 'y'`; relax the rule$"
    with pytest.raises(EmptyPopulationError, match=message):
        run({"drop": "label = 'x'"}, {"keep": "label > 'y'"}, {"head": 3})
