"""Rules that leave rows out: `keep`, `drop`, `head`, `sample`, `cap`."""
# ruff: noqa: D102 (`Rule` documents the methods)

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, model_validator

from dsrt_lightning.population.expressions import column_names, compile_sql
from dsrt_lightning.population.hashing import hash_words
from dsrt_lightning.population.rules.base import SCRATCH, Count, Names, Rule, Seed, Sql, exactly_one, not_a_condition
from dsrt_lightning.population.wording import IDS

if TYPE_CHECKING:
    import polars as pl


class Keep(Rule):
    """Keep the rows for which a condition is true; where it is null it is not true."""

    keyword = "keep"
    argument = "condition"
    condition: Sql

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.filter(compile_sql(self.condition))

    def reads(self) -> list[str]:
        return column_names(self.condition)

    def problems(self, schema: pl.Schema) -> Iterator[str]:
        yield from not_a_condition(self.condition, schema)


class Drop(Keep):
    """Drop the rows for which a condition is true, so `keep` and `drop` of one condition part the table."""

    keyword = "drop"

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.filter(~compile_sql(self.condition).fill_null(False))


class Head(Rule):
    """Keep the first rows."""

    keyword = "head"
    argument = "rows"
    rows: Count

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.head(self.rows)


class Sample(Rule):
    """Keep a random part of the table or of each group: the same rows for ever for the same ids and seed.

    `fraction` keeps that share, rounded half up; `count` keeps at most so many. Copies of a row stay together.
    """

    keyword = "sample"
    count: Count | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    by: Names = ()
    seed: Seed = 0

    @model_validator(mode="after")
    def _one_size(self) -> Sample:
        return exactly_one(self, "count", "fraction")

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        import polars as pl

        hashes = pl.struct(IDS).map_batches(partial(_hash_ids, self.seed), return_dtype=pl.UInt64, is_elementwise=True)
        rank, size = pl.col(SCRATCH).rank("ordinal"), pl.len()
        if self.by:
            rank, size = rank.over(self.by), size.over(self.by)
        wanted = pl.lit(self.count) if self.fraction is None else (size * self.fraction + 0.5).floor()
        return frame.with_columns(hashes.alias(SCRATCH)).filter(rank <= wanted).drop(SCRATCH)

    def reads(self) -> list[str]:
        return list(self.by)


class Cap(Rule):
    """Keep the first rows of each group, at most `count`."""

    keyword = "cap"
    by: Names
    count: Count

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        import polars as pl

        return frame.filter(pl.int_range(pl.len()).over(self.by) < self.count)

    def reads(self) -> list[str]:
        return list(self.by)


def _hash_ids(seed: int, ids: pl.Series) -> pl.Series:
    import polars as pl

    words = np.stack([ids.struct.field(name).to_numpy().astype(np.uint64) for name in IDS], axis=1)
    return pl.Series(hash_words(words, 8 * len(IDS), seed), dtype=pl.UInt64)
