"""What all rules share: their interface and the types of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from dsrt_lightning.population.expressions import compile_sql, first_line
from dsrt_lightning.population.wording import BUILT_IN

if TYPE_CHECKING:
    import polars as pl

SCRATCH = "__dsrt"  # a column that exists only inside one rule


class Rule(BaseModel):
    """One step of a rule list, a function from a metadata table to another one.

    The table has columns ``cache_id, sample_id, ..., weight``. Rows keep their order except under `sort`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    keyword: ClassVar[str]
    argument: ClassVar[str | None] = None  # the field that takes the whole YAML value; None: the value maps fields

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the table after this rule; nothing is computed."""
        raise NotImplementedError

    def reads(self) -> list[str]:
        """Return the columns of the table that this rule needs."""
        return []

    def problems(self, schema: pl.Schema) -> Iterator[str]:
        """Yield what is wrong with this rule for a table whose schema has every column of `reads`."""
        yield from ()

    def yaml_value(self) -> object:
        """Return what stands after the keyword in YAML, without defaults."""
        fields = self.model_dump(exclude_defaults=True)
        if self.argument:
            return fields[self.argument]
        return {key: _one_or_list(value) for key, value in fields.items()}

    def files(self) -> list[str]:
        """Return the files that the result depends on besides the table."""
        return []

    @classmethod
    def may_add(cls, value: object) -> frozenset[str] | None:
        """Return the columns that a rule of this kind with this YAML value, right or wrong, is meant to add.

        None means that they cannot be known. Errors that only follow from an earlier one are left out by this.
        """
        return frozenset()


AnyRule = TypeVar("AnyRule", bound=Rule)


def exactly_one(rule: AnyRule, *fields: str) -> AnyRule:
    """Return the rule if one of its fields is set.

    Raises:
        ValueError: None or several are.
    """
    given = [field for field in fields if getattr(rule, field) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(fields)} is needed, not {', '.join(given) or 'none'}")
    return rule


def dtype_of(text: str, schema: pl.Schema) -> pl.DataType:
    """Return the type of an expression over a table, found on a table of no rows.

    Raises:
        ValueError: The types of its parts do not go together.
    """
    import polars as pl

    try:
        return pl.LazyFrame(schema=schema).select(compile_sql(text)).collect().dtypes[0]
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{text!r}: {first_line(error)}") from None


def not_a_condition(text: str, schema: pl.Schema) -> Iterator[str]:
    """Yield a problem if the expression is not true or false."""
    import polars as pl

    dtype = dtype_of(text, schema)
    if dtype != pl.Boolean:
        yield f"{text!r} is {dtype}, a condition is Boolean"


def already_there(names: Iterable[str], schema: pl.Schema) -> Iterator[str]:
    """Yield a problem for each new column that the table has already."""
    yield from (f"column {name!r} is in the metadata already, choose another name" for name in names if name in schema)


def _checked_sql(text: str) -> str:
    compile_sql(text)
    return text


def _as_names(value: object) -> object:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _one_or_list(value: object) -> object:
    return value if not isinstance(value, tuple) else value[0] if len(value) == 1 else list(value)


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice in {list(names)}")
    return names


def _new_name(name: str) -> str:
    if name in BUILT_IN:
        raise ValueError(f"{name!r} is a reserved column" + ("; a `weight` rule sets it" if name == "weight" else ""))
    return name


Sql = Annotated[str, AfterValidator(_checked_sql)]
Name = Annotated[str, Field(min_length=1)]
NewName = Annotated[str, Field(min_length=1), AfterValidator(_new_name)]
Names = Annotated[tuple[Name, ...], Field(min_length=1), BeforeValidator(_as_names), AfterValidator(_distinct)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=1 << 64)]
