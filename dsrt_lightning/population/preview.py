"""What a list of rules does, rule by rule and class by class; no payload is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsrt_lightning.errors import RuleError
from dsrt_lightning.population.apply import apply_rules, tables_after_each
from dsrt_lightning.population.rules import Step
from dsrt_lightning.population.wording import missing_column

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class StepPreview:
    """How many rows are left after a rule.

    Attributes:
        where: The rule's place, e.g. ``digits.yaml: rules[0].keep``.
        text: The rule as one line of YAML.
        num_rows: Rows after it, those of weight zero included.
    """

    where: str
    text: str
    num_rows: int


@dataclass(frozen=True, slots=True)
class ClassShare:
    """One value of a column: its rows, and its part of the total weight, which is its part of weighted draws."""

    value: object
    rows_before: int
    rows_after: int
    share_before: float
    share_after: float


@dataclass(frozen=True, slots=True)
class Preview:
    """What rules do to a table of ``num_rows`` rows, ordered by rule and by class."""

    num_rows: int
    steps: tuple[StepPreview, ...]
    shares: tuple[ClassShare, ...]


def preview_rules(frame: pl.LazyFrame, steps: Sequence[Step], *, column: str | None = None) -> Preview:
    """Return the row count after each rule and a column's class shares before and after all of them.

    Args:
        frame: The metadata table.
        steps: Rules; they may leave nothing.
        column: Of the table after the rules; where a rule added it, everything before is 0.

    Raises:
        RuleError: The rules do not fit the table, or the column does not exist.
    """
    columns = apply_rules(frame, steps).collect_schema()
    if column is not None and column not in columns:
        raise RuleError(f"preview: {missing_column(column, columns)}")
    before = after = frame.collect()
    previews = []
    for step, after in tables_after_each(frame, steps):
        previews.append(StepPreview(step.where, str(step), after.height))
    shares = () if column is None else _class_shares(before, after, column)
    return Preview(before.height, tuple(previews), shares)


def _class_shares(before: pl.DataFrame, after: pl.DataFrame, column: str) -> tuple[ClassShare, ...]:
    import polars as pl

    def shares(table: pl.DataFrame, moment: str) -> pl.DataFrame:
        value = pl.col(column) if column in table.columns else pl.lit(None, after.schema[column])
        total = pl.col("weight").sum()
        return table.group_by(value.alias("value")).agg(
            pl.len().alias(f"rows_{moment}"), (total / table["weight"].sum()).alias(f"share_{moment}")
        )

    known = before if column in before.columns else before.clear()
    both = shares(known, "before").join(shares(after, "after"), on="value", how="full", coalesce=True, nulls_equal=True)
    rows = both.with_columns(pl.exclude("value").fill_null(0).fill_nan(0)).sort("value", nulls_last=True)
    return tuple(ClassShare(**row) for row in rows.iter_rows(named=True))
