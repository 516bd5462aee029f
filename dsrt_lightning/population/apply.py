"""Rules applied to the metadata table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dsrt_lightning.errors import EmptyPopulationError, RuleError
from dsrt_lightning.population.expressions import first_line
from dsrt_lightning.population.rules import SchemaCheck, Step
from dsrt_lightning.population.rules.weighing import Weight
from dsrt_lightning.population.wording import listing

if TYPE_CHECKING:
    import polars as pl


def apply_rules(frame: pl.LazyFrame, steps: Sequence[Step]) -> pl.LazyFrame:
    """Return the table after all rules, lazily: none of its rows was read.

    Raises:
        RuleError: Rules name columns that are not there or do not fit their types; one line for each problem.
    """
    check = SchemaCheck(frame.collect_schema())
    problems = [problem for step in steps for problem in check.problems(step)]
    if problems:
        raise RuleError("\n".join(problems))
    for step in steps:
        frame = step.rule.apply(frame)
    return frame


def collect(result: pl.LazyFrame, frame: pl.LazyFrame, steps: Sequence[Step]) -> pl.DataFrame:
    """Return the rows of a result of rules.

    Args:
        result: What `apply_rules` made of ``frame``, or some columns of it.
        frame: The metadata table.
        steps: The rules.

    Raises:
        RuleError: An expression fails on the data, for example a cast; it names the rule.
        EmptyPopulationError: No row is left; it names the rule that left none.
    """
    import polars as pl

    try:
        table = collect_in_order(result)
    except pl.exceptions.PolarsError:
        _blame(frame, steps)
        raise
    if table.is_empty():
        _blame(frame, steps)
    return table


def unmatched_weights(frame: pl.LazyFrame, steps: Sequence[Step]) -> Iterator[str]:
    """Yield a line for each column of `weight: by` that has not all the values named for it where the rule stands."""
    import polars as pl

    for step in steps:
        if isinstance(step.rule, Weight):
            for name, factors in (step.rule.by or {}).items():
                values = collect_in_order(frame.select(pl.col(name).unique().sort())).get_column(name).to_list()
                missing = [repr(value) for value in factors if value not in values]
                if missing:
                    verb = "does" if len(missing) == 1 else "do"
                    yield (
                        f"{step.where}.by.{name}: {listing(missing)} {verb} not occur "
                        f"(values: {listing([repr(value) for value in values])})"
                    )
        frame = step.rule.apply(frame)


def collect_in_order(frame: pl.LazyFrame) -> pl.DataFrame:
    """Return a frame's rows, by the engine whose float sums are the same in every run."""
    return frame.collect(engine="in-memory")


def tables_after_each(frame: pl.LazyFrame, steps: Sequence[Step]) -> Iterator[tuple[Step, pl.DataFrame]]:
    """Yield each rule with the whole table after it, in memory.

    Raises:
        RuleError: A rule fails on the data.
    """
    import polars as pl

    for step in steps:
        try:
            table = collect_in_order(step.rule.apply(frame))
        except pl.exceptions.PolarsError as error:
            raise RuleError(f"{step.where}: {first_line(error)}") from None
        yield step, table
        frame = table.lazy()


def _blame(frame: pl.LazyFrame, steps: Sequence[Step]) -> None:
    """Apply rules that failed or left nothing once more, one at a time, and raise for the first that does."""
    before = collect_in_order(frame.select("weight")).height
    for step, table in tables_after_each(frame, steps):
        if table.is_empty():
            raise EmptyPopulationError(f"{step.where}: none of {before} rows is left after `{step}`; relax the rule")
        before = table.height
