"""Rules that add columns, repeat rows or order them: `with`, `join`, `split`, `repeat`, `sort`."""
# ruff: noqa: D102 (`Rule` documents the methods)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from dsrt_lightning.population.expressions import column_names, compile_sql
from dsrt_lightning.population.hashing import hash_texts, unit_interval
from dsrt_lightning.population.join_file import duplicate_key, scan_join_file
from dsrt_lightning.population.rules.base import (
    SCRATCH,
    Count,
    Name,
    Names,
    NewName,
    Rule,
    Seed,
    Sql,
    already_there,
    dtype_of,
    not_a_condition,
)
from dsrt_lightning.population.wording import missing_column

if TYPE_CHECKING:
    import polars as pl


class With(Rule):
    """Add columns; each expression sees the table as it was before the rule."""

    keyword = "with"
    argument = "columns"
    columns: Annotated[dict[NewName, Sql], Field(min_length=1)]

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.with_columns(compile_sql(text).alias(name) for name, text in self.columns.items())

    def reads(self) -> list[str]:
        return [name for text in self.columns.values() for name in column_names(text)]

    def problems(self, schema: pl.Schema) -> Iterator[str]:
        yield from already_there(self.columns, schema)
        for text in self.columns.values():
            dtype_of(text, schema)

    @classmethod
    def may_add(cls, value: object) -> frozenset[str] | None:
        return frozenset(map(str, value)) if isinstance(value, Mapping) else None


class Join(Rule):
    """Bring in the columns of a Parquet, CSV or Arrow file, found by ids or any other key.

    Rows without a match have nulls (`left`) or are left out (`inner`); `semi` and `anti` only select rows.
    """

    keyword = "join"
    file: Name
    by: Names
    how: Literal["left", "inner", "semi", "anti"] = "left"
    columns: Names | None = None

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        import polars as pl

        schema, table = frame.collect_schema(), scan_join_file(self.file)
        keys = [pl.col(name).cast(schema[name]) for name in self.by]  # integers of another width
        brought = table.select(*keys, *self._brings(table.collect_schema()))
        return frame.join(brought, on=self.by, how=self.how, maintain_order="left")

    def reads(self) -> list[str]:
        return list(self.by)

    def files(self) -> list[str]:
        return [self.file]

    def problems(self, schema: pl.Schema) -> Iterator[str]:
        table = scan_join_file(self.file)
        found = table.collect_schema()
        lacking = [name for name in (*self.by, *(self.columns or ())) if name not in found]
        yield from (f"{self.file!r}: {missing_column(name, found, 'the file')}" for name in lacking)
        if lacking:
            return
        for name in self.by:
            if found[name] != schema[name] and not (found[name].is_integer() and schema[name].is_integer()):
                yield f"key {name!r} is {found[name]} in {self.file!r} but {schema[name]} in the metadata"
        yield from already_there(self._brings(found), schema)
        if duplicate := duplicate_key(table, self.by):
            yield f"{self.file!r}: {duplicate}; a key may have one row"

    @classmethod
    def may_add(cls, value: object) -> frozenset[str] | None:
        return None

    def _brings(self, found: pl.Schema) -> list[str]:
        if self.how in ("semi", "anti"):
            return []
        return list(self.columns or (name for name in found if name not in self.by))


class Split(Rule):
    """Add a column that names each row's part, the same one for all rows with an equal key.

    The part is a function of the key's text and the seed alone, so records that are added later move no other.
    """

    keyword = "split"
    by: Names
    parts: Annotated[dict[Name, Annotated[float, Field(gt=0, lt=1)]], Field(min_length=2)]
    into: NewName = "split"
    seed: Seed = 0

    @model_validator(mode="after")
    def _whole(self) -> Split:
        total = sum(self.parts.values())
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the fractions of the parts add up to {total:.10g}, not 1")
        return self

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        import polars as pl

        texts = pl.concat_str([pl.col(name).cast(pl.String).fill_null("") for name in self.by], separator="\x1f")
        parts = texts.map_batches(self._parts_of, return_dtype=pl.String, is_elementwise=True)
        return frame.with_columns(parts.alias(self.into))

    def reads(self) -> list[str]:
        return list(self.by)

    def problems(self, schema: pl.Schema) -> Iterator[str]:
        import polars as pl

        yield from already_there([self.into], schema)
        for name in self.by:
            dtype = schema[name]
            if not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date)):
                yield f"key {name!r} is {dtype}, whose text is not fixed; use text, integers, bools or dates"

    @classmethod
    def may_add(cls, value: object) -> frozenset[str] | None:
        return frozenset([str(value.get("into", "split"))]) if isinstance(value, Mapping) else None

    def _parts_of(self, texts: pl.Series) -> pl.Series:
        import polars as pl

        edges = np.cumsum(list(self.parts.values()))[:-1]
        codes = np.searchsorted(edges, unit_interval(hash_texts(texts, self.seed)), side="right")
        return pl.Series(list(self.parts), dtype=pl.String).gather(codes)


class Repeat(Rule):
    """Let each row, or each for which a condition is true, appear several times, copies next to each other."""

    keyword = "repeat"
    times: Count
    where: Sql | None = None

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        import polars as pl

        repeated = pl.lit(True) if self.where is None else compile_sql(self.where)
        times = pl.when(repeated).then(self.times).otherwise(1)
        return frame.with_columns(pl.int_ranges(times).alias(SCRATCH)).explode(SCRATCH).drop(SCRATCH)

    def reads(self) -> list[str]:
        return [] if self.where is None else column_names(self.where)

    def problems(self, schema: pl.Schema) -> Iterator[str]:
        if self.where is not None:
            yield from not_a_condition(self.where, schema)


class Sort(Rule):
    """Order the rows by columns, nulls last; rows that are equal keep their order."""

    keyword = "sort"
    by: Names
    descending: bool = False

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.sort(self.by, descending=self.descending, nulls_last=True, maintain_order=True)

    def reads(self) -> list[str]:
        return list(self.by)
