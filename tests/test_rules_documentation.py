"""Every example of docs/rules.md gives the result that stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from dsrt_lightning.errors import RuleError
from dsrt_lightning.population.apply import apply_rules
from dsrt_lightning.population.rules import RULES, parse_rules

PAGE = (Path(__file__).parents[1] / "docs" / "rules.md").read_text()
TABLE, *EXAMPLES = re.findall(r"(?:```yaml\n(.*?)```\n)?```text\n(.*?)```", PAGE, re.DOTALL)
TYPES = {"sample_id": pl.Int64, "label": pl.String, "writer": pl.String, "quality": pl.Float64, "weight": pl.Float64}


def parsed_table(text: str) -> pl.LazyFrame:
    names, *rows = [line.split() for line in text.splitlines()]
    table = pl.DataFrame([[None if cell == "null" else cell for cell in row] for row in rows], names, orient="row")
    return table.cast(TYPES).with_columns(pl.lit(1, pl.Int64).alias("cache_id")).lazy()


def shown_value(value: object) -> str:
    return "null" if value is None else str(round(value, 3) if isinstance(value, float) else value)


def shown(frame: pl.DataFrame) -> str:
    columns = [[name, *map(shown_value, frame[name])] for name in frame.columns]
    widths = [max(map(len, column)) + 2 for column in columns]
    lines = ["".join(map(str.ljust, row, widths)).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"


def result(rules: str) -> str:
    table = parsed_table(TABLE[1])
    try:
        steps = parse_rules(yaml.safe_load(rules), where="rules", schema=table.collect_schema())
    except RuleError as error:
        return f"{error}\n"
    return shown(apply_rules(table, steps).drop("cache_id").collect())


@pytest.mark.parametrize(("rules", "expected"), EXAMPLES, ids=[rules.splitlines()[0] for rules, _ in EXAMPLES])
def test_example_gives_the_result_below_it(
    rules: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text(re.search(r"```csv\n(.*?)```", PAGE, re.DOTALL)[1])
    assert result(rules) == expected


def test_every_rule_has_an_example() -> None:
    shown_rules = {next(iter(rule)) for rules, _ in EXAMPLES for rule in yaml.safe_load(rules)}
    assert shown_rules >= set(RULES)
