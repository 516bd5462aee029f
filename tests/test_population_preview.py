"""A preview says what each rule leaves and how the classes' shares change."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from dsrt_lightning.errors import RuleError
from dsrt_lightning.population.preview import ClassShare, Preview, StepPreview, preview_rules
from dsrt_lightning.population.rules import parse_rules

TABLE = pl.LazyFrame(
    {"cache_id": 1, "sample_id": range(5), "label": ["a", "a", "a", "b", None], "size": range(5), "weight": 1.0}
)


def preview(*rules: dict[str, Any], column: str | None = None) -> Preview:
    return preview_rules(TABLE, parse_rules(rules, where="x.yaml: rules"), column=column)


def test_every_step_has_its_place_its_text_and_the_rows_it_leaves() -> None:
    shown = preview({"keep": "size < 4"}, {"sample": {"count": 2, "by": ["label"], "seed": 0}}, {"head": 2})
    assert shown.num_rows == 5
    assert shown.shares == ()
    assert shown.steps == (
        StepPreview("x.yaml: rules[0].keep", "keep: size < 4", 4),
        StepPreview("x.yaml: rules[1].sample", "sample: {count: 2, by: label}", 3),
        StepPreview("x.yaml: rules[2].head", "head: 2", 2),
    )


def test_shares_are_of_the_weight_before_and_after() -> None:
    assert preview({"keep": "label is not null"}, {"weight": {"balance": "label"}}, column="label").shares == (
        ClassShare("a", rows_before=3, rows_after=3, share_before=0.6, share_after=0.5),
        ClassShare("b", rows_before=1, rows_after=1, share_before=0.2, share_after=0.5),
        ClassShare(None, rows_before=1, rows_after=0, share_before=0.2, share_after=0.0),
    )


def test_column_that_a_rule_adds_has_nothing_before() -> None:
    assert preview({"with": {"big": "size > 2"}}, column="big").shares == (
        ClassShare(False, rows_before=0, rows_after=3, share_before=0.0, share_after=0.6),
        ClassShare(True, rows_before=0, rows_after=2, share_before=0.0, share_after=0.4),
    )


def test_rules_that_leave_nothing_are_shown_too() -> None:
    shown = preview({"keep": "size > 9"}, {"head": 1}, column="label")
    assert [step.num_rows for step in shown.steps] == [0, 0]
    assert {share.share_after for share in shown.shares} == {0.0}


def test_no_rules_change_nothing() -> None:
    shown = preview(column="label")
    assert shown.steps == ()
    assert all(share.share_before == share.share_after for share in shown.shares)


def test_unknown_column_is_refused_with_the_columns_that_exist() -> None:
    with pytest.raises(
        RuleError, match=r"preview: column 'lable' is not in the metadata, did you mean 'label'\? \(col"
    ):
        preview(column="lable")
