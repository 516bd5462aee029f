"""An expression is computed from the columns of the table and cannot do anything else."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from dsrt_lightning.population.expressions import column_names, compile_sql


def value_of(text: str, **columns: object) -> object:
    return (
        pl.DataFrame({name: [value] for name, value in columns.items()} or {"": [0]}).select(compile_sql(text)).item()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 1", 4),
        ("x > 2 and y like 'ca%'", True),
        ("y = 'cat' or nothing", True),
        ("x in (1, 3)", True),
        ("x between 3.0 and 4.5", True),
        ("case when x > 2 then 'big' else 'small' end", "big"),
        ("upper(trim(' a '))", "A"),
        ("'it''s (select) -- $1'", "it's (select) -- $1"),
        ('"odd name" + 1', 8),
        ('"select" + 1', 10),
        ("extract(year from day)", 2024),
        ("coalesce(nothing, false)", False),
        ("cast('12' as int) % 5", 2),
        ("count(*) over (partition by y)", 1),
    ],
)
def test_plain_expressions_are_understood(text: str, expected: object) -> None:
    day = pl.Series([0]).cast(pl.Date).dt.offset_by("54y").item()
    row = {"x": 3, "y": "cat", "nothing": None, "odd name": 7, "select": 9, "day": day}
    assert value_of(text, **row) == expected


@pytest.mark.parametrize("literal", ["0.5", ".5", "0.50", "5.0e-1", "0.5E0", "1. / 2"])
def test_number_with_a_point_is_a_float(literal: str) -> None:
    value = value_of(literal)
    assert isinstance(value, float)
    assert value == 0.5


def test_quotient_keeps_its_precision() -> None:
    assert value_of("1.0 / n", n=3_000_000_000) == 1 / 3_000_000_000


def test_text_that_looks_like_a_number_stays_as_it_is() -> None:
    assert value_of("'version 0.5'") == "version 0.5"
    assert column_names('"q0.5" + q_0 + v2.x') == ["q0.5", "q_0", "v2"]


def test_columns_are_named_once_in_order() -> None:
    assert column_names("b > a and b < sum(c) over (partition by a)") == ["b", "a", "c"]


QUERY = "begins a query, only expressions are allowed"
REFUSED = {
    "subquery": ("x in (select * from read_csv('FILE'))", QUERY),
    "subquery in parentheses": ("x in ((select * from read_csv('FILE')))", QUERY),
    "subquery over lines": ("x in (\n\tSeLeCt\n* from read_csv('FILE'))", QUERY),
    "exists": ("exists (select 1 from read_csv('FILE'))", QUERY),
    "from first": ("exists (from read_csv('FILE'))", QUERY),
    "from first after a space": ("exists ( \n FROM read_csv('FILE'))", QUERY),
    "common table": ("x in (with t as (from read_csv('FILE')) select * from t)", QUERY),
    "values and union": ("x in (values (1) union from read_csv('FILE'))", QUERY),
    "value and union": ("x in (value (1) union from read_csv('FILE'))", QUERY),
    "value and except": ("x in (value (1) except from read_csv('FILE'))", QUERY),
    "any": ("x = any(select a from read_csv('FILE'))", QUERY),
    "case": ("case (select 1) when 1 then true end", QUERY),
    "top": ("select 1", QUERY),
    "comment before a query": ("x in (/**/select * from read_csv('FILE'))", "a comment is not allowed"),
    "nested comment": ("x in (/* /* */ */ select 1)", "a comment is not allowed"),
    "line comment": ("x > 1 -- y", "a comment is not allowed"),
    "escaped quote": (r"y = '\' or x in (select 1) or y = '", r"\\' is not allowed"),
    "escape string": ("y = E'a'", r"\"E'a'\": a text has no prefix"),
    "dollar quotes": ("y = $$ ' $$ or x in (select 1)", "'\\$' is not allowed outside quotes"),
    "open quote": ("y = 'cat", "a quote is not closed"),
    "open double quote": ('"y = 1', "a quote is not closed"),
    "statements": ("x > 1; drop table t", "one expression is expected, not several statements"),
    "empty": ("  ", "the expression is empty"),
    "star": ("*", "is not an SQL expression"),
    "list": ("x, y", "one expression is expected, not a list"),
    "column pattern": ("columns('^x')", "selects several columns"),
    "pattern as a name": ('"^x.*$" > 1', "selects several columns"),
    "unknown function": ("read_csv('FILE')", "is not an SQL expression: unsupported function 'read_csv'"),
    "quoted function": ("\"read_csv\"('FILE')", "is not an SQL expression"),
    "syntax": ("x > ", "is not an SQL expression"),
    "python": ("__import__('os').system('true')", "is not an SQL expression"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_anything_else_is_refused_before_a_file_is_touched(tmp_path: Path, text: str, reason: str) -> None:
    # Polars would tell that the file does not exist, or read it; we say what is wrong with the expression.
    with pytest.raises(ValueError, match=reason) as refused:
        compile_sql(text.replace("FILE", str(tmp_path / "secret.csv")))
    assert not isinstance(refused.value, OSError)
    assert "No such file" not in str(refused.value)
