"""What a list of rules does, rule by rule and class by class; no payload is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsrt_lightning.errors import RuleError
from dsrt_lightning.population.apply import apply_rules, collect_in_order, tables_after_each
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
    before = after = collect_in_order(frame)
    previews = []
    for step, after in tables_after_each(frame, steps):
        previews.append(StepPreview(step.where, str(step), after.height))
    shares = () if column is None else _class_shares(before, after, column)
    return Preview(before.height, tuple(previews), shares)


def _class_shares(before: pl.DataFrame, after: pl.DataFrame, column: str) -> tuple[ClassShare, ...]:
    old = _classes(before if column in before.columns else after.clear(), column, "before")
    new = _classes(after, column, "after")
    both = old.join(new, on=column, how="full", coalesce=True, nulls_equal=True).sort(column, nulls_last=True)
    whole_before, whole_after = (float(table["weight"].sum()) or 1.0 for table in (before, after))
    return tuple(
        ClassShare(value, rows_before or 0, rows_after or 0, (old or 0) / whole_before, (new or 0) / whole_after)
        for value, rows_before, old, rows_after, new in both.iter_rows()
    )


def _classes(table: pl.DataFrame, column: str, moment: str) -> pl.DataFrame:
    """Return each value with its rows and its weight."""
    import polars as pl

    rows, weight = pl.len().alias(f"rows_{moment}"), pl.col("weight").sum().alias(f"weight_{moment}")
    return table.group_by(column).agg(rows, weight)
