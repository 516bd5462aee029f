"""SQL expressions over the columns of one row's table, and nothing else.

Polars reads files named in a subquery while it *compiles* an expression, so subqueries are refused before it sees them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

_TOKEN = re.compile(
    r"""(?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` )
      | (?P<decimal> (?<![\w.]) (?: \d+\.\d* | \.\d+ ) (?![\w.]) )
      | (?P<word> \w+ )
      | (?P<space> \s+ )
      | (?P<symbol> -- | /\* | . )""",
    re.VERBOSE | re.DOTALL,
)
_QUERY_WORDS = {
    "select",
    "union",
    "intersect",
    "except",
    "values",
    "table",
    "with",
    "insert",
    "update",
    "delete",
    "merge",
}
_REFUSED_SYMBOLS = {
    "--": "a comment is not allowed in an expression",
    "/*": "a comment is not allowed in an expression",
    ";": "one expression is expected, not several statements",
    "$": "'$' is not allowed outside quotes",
    "'": "a quote is not closed",
    '"': "a quote is not closed",
    "`": "a quote is not closed",
}


def compile_sql(text: str) -> pl.Expr:
    r"""Return the Polars expression of an SQL text; nothing is read and nothing runs.

    A literal with a decimal point is a float64: newer Polars would make it a decimal of few digits, and
    ``1.0 / count(*)`` would be zero for a class of 20 million rows.

    Raises:
        ValueError: The text is not one plain expression: it has a syntax error, a subquery, a comment,
            ``\'``, or selects several columns.
    """
    import polars as pl

    plain = "".join(_checked_tokens(text))
    try:
        expression = pl.sql_expr(plain)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{text!r} is not an SQL expression: {first_line(error)}") from None
    if expression.meta.has_multiple_outputs():
        raise ValueError(f"{text!r} selects several columns, an expression gives one")
    return expression


def column_names(text: str) -> list[str]:
    """Return the columns that the expression reads, each once, in order of appearance."""
    return list(dict.fromkeys(compile_sql(text).meta.root_names()))


def first_line(error: BaseException) -> str:
    """Return the first line of a Polars error; the rest prints a query plan."""
    return str(error).strip().partition("\n")[0]


def _checked_tokens(text: str) -> Iterator[str]:
    if not text.strip():
        raise ValueError("the expression is empty")
    if r"\'" in text:  # would be read as the end of the text or as a quote inside it, by SQL dialect
        raise ValueError(r"\' is not allowed in an expression; write a quote inside a text as ''")
    before, before_word, depth = "", "", 0
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        word = token.lower() if kind == "word" else ""
        if word in _QUERY_WORDS or (word == "from" and before == "("):
            raise ValueError(
                f'{token!r} begins a query, only expressions are allowed; write "{token}" in double quotes for a column'
            )
        if kind == "symbol" and token in _REFUSED_SYMBOLS:
            raise ValueError(_REFUSED_SYMBOLS[token])
        if kind == "quoted" and before_word:
            raise ValueError(f"{before_word + token!r}: a text has no prefix")
        depth += (token in ("(", "[")) - (token in (")", "]"))
        if token == "," and depth == 0:
            raise ValueError("one expression is expected, not a list")
        yield token + "e0" if kind == "decimal" else token
        before_word = token if kind == "word" else ""
        before = before if kind == "space" else token
