"""The rule that says how often rows are drawn: `weight`."""
# ruff: noqa: D102 (`Rule` documents the methods)

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, model_validator

from dsrt_lightning.population.expressions import column_names, compile_sql
from dsrt_lightning.population.rules.base import SCRATCH, Name, Names, Rule, Sql, dtype_of, exactly_one

if TYPE_CHECKING:
    import polars as pl

Value = bool | int | float | str | datetime.date
Factors = Annotated[dict[Value, Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1)]


class Weight(Rule):
    """Set how often rows are drawn, relative to each other, in one of three ways.

    `balance` scales the weights so that every group has the same total, `by` multiplies the weight of the rows where a
    column has a value, `expr` sets it.
    """

    keyword = "weight"
    balance: Names | None = None
    by: Annotated[dict[Name, Factors], Field(min_length=1)] | None = None
    expr: Sql | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Weight:
        return exactly_one(self, "balance", "by", "expr")

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        import polars as pl

        weight = pl.col("weight")
        if self.balance is not None:
            # Each group is known by its first row.
            frame = frame.with_columns(pl.int_range(pl.len()).alias(SCRATCH))
            frame = frame.with_columns(pl.col(SCRATCH).first().over(self.balance))
            weight = pl.struct(SCRATCH, "weight").map_batches(_balanced, return_dtype=pl.Float64)
            return frame.with_columns(weight.alias("weight")).drop(SCRATCH)
        if self.expr is not None:
            weight = compile_sql(self.expr).cast(pl.Float64)
        for name, factors in (self.by or {}).items():
            values, weights = list(factors), list(factors.values())
            weight = weight * pl.col(name).replace_strict(values, weights, default=1.0, return_dtype=pl.Float64)
        return frame.with_columns(weight.alias("weight"))

    def reads(self) -> list[str]:
        return [*(self.balance or ()), *(self.by or ()), *(column_names(self.expr) if self.expr is not None else ())]

    def problems(self, schema: pl.Schema) -> Iterator[str]:
        import polars as pl

        if self.expr is not None:
            dtype = dtype_of(self.expr, schema)
            if not (dtype.is_numeric() or dtype == pl.Boolean):
                yield f"{self.expr!r} is {dtype}, a weight is a number"
        for name, factors in (self.by or {}).items():
            yield from (
                f"value {value!r} is {type(value).__name__} but column {name!r} is {schema[name]}"
                for value in factors
                if not _fits(value, schema[name])
            )


def _balanced(columns: pl.Series) -> pl.Series:
    """Divide weights by their group's total, added in row order: Polars' order depends on its threads."""
    import polars as pl

    groups, weights = (columns.struct.field(name).to_numpy() for name in (SCRATCH, "weight"))
    totals = np.bincount(groups, weights)[groups]
    return pl.Series(np.divide(weights, totals, out=weights.copy(), where=totals != 0), dtype=pl.Float64)


def _fits(value: Value, dtype: pl.DataType) -> bool:
    """Return whether a YAML value can be equal to one of a column; a bool is not a number here."""
    import polars as pl

    if isinstance(value, bool):
        return dtype == pl.Boolean
    if isinstance(value, int):
        return dtype.is_float() or (
            dtype.is_integer() and pl.Series([value]).cast(dtype, strict=False).null_count() == 0
        )
    if isinstance(value, float):
        return dtype.is_float()
    if isinstance(value, str):
        return dtype in (pl.String, pl.Categorical) or (isinstance(dtype, pl.Enum) and value in dtype.categories)
    return dtype == pl.Date
