"""From YAML data to rules, every problem of a list at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from dsrt_lightning.errors import RuleError
from dsrt_lightning.population.rules.base import Rule
from dsrt_lightning.population.rules.checking import SchemaCheck
from dsrt_lightning.population.rules.selecting import Cap, Drop, Head, Keep, Sample
from dsrt_lightning.population.rules.shaping import Join, Repeat, Sort, Split, With
from dsrt_lightning.population.rules.step import Step
from dsrt_lightning.population.rules.weighing import Weight
from dsrt_lightning.population.wording import closest, listing, unknown

if TYPE_CHECKING:
    import polars as pl
    from pydantic_core import ErrorDetails

RULES: dict[str, type[Rule]] = {
    rule.keyword: rule for rule in (Keep, Drop, Head, Sample, Cap, Repeat, Join, With, Sort, Split, Weight)
}


def parse_rules(
    raw: object, *, where: str, schema: pl.Schema | None = None, after: Sequence[Step] = ()
) -> tuple[Step, ...]:
    """Return the rules of a YAML list.

    Args:
        raw: A list of mappings with one key each, the rule's name. Rules that are parsed already stay as they are.
        where: What stands before ``[i]`` in messages, e.g. ``digits.yaml: train.rules``.
        schema: Of the metadata table. With it columns and types are checked too, without reading metadata.
        after: Rules that are applied before these; they may add columns.

    Raises:
        RuleError: One line for each problem of the whole list, in its order.
    """
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        raise RuleError(f"{where}: a list of rules is expected, not {raw!r}")
    check = None if schema is None else SchemaCheck(schema)
    problems = [problem for step in after if check for problem in check.problems(step)]
    steps = []
    for index, item in enumerate(raw):
        try:
            step = _parse_step(item, f"{where}[{index}]")
        except RuleError as error:
            problems.append(str(error))
            if check:
                check.skip(_may_add(item))
        else:
            steps.append(step)
            problems += check.problems(step) if check else []
    if problems:
        raise RuleError("\n".join(problems))
    return tuple(steps)


def _parse_step(item: object, place: str) -> Step:
    if isinstance(item, Step):
        return item
    if not isinstance(item, Mapping) or len(item) != 1:
        raise RuleError(f"{place}: a rule is a mapping with one key, its name, not {item!r} (rules: {listing(RULES)})")
    ((keyword, value),) = item.items()
    if keyword not in RULES:
        raise RuleError(f"{place}: {unknown('rule', keyword, RULES, 'rules')}")
    kind, place = RULES[keyword], f"{place}.{keyword}"
    try:
        return Step(place, kind.model_validate({kind.argument: value} if kind.argument else value))
    except ValidationError as error:
        raise RuleError("\n".join(_worded(details, place, kind) for details in error.errors())) from None


def _may_add(item: object) -> frozenset[str] | None:
    """Return the columns that a wrong item was meant to add; a misspelt name means the closest one."""
    if not isinstance(item, Mapping) or len(item) != 1:
        return None
    ((keyword, value),) = item.items()
    meant = closest(keyword, RULES)
    return RULES[meant].may_add(value) if meant else None


def _worded(error: ErrorDetails, place: str, kind: type[Rule]) -> str:
    """Return one of Pydantic's errors in our words, with its path."""
    keys = [key for key in kind.model_fields if key != kind.argument]
    if error["type"] == "extra_forbidden":
        return f"{place}: {unknown('key', error['loc'][-1], keys, 'keys')}"
    if error["type"] == "missing":
        return f"{place}: key {error['loc'][-1]!r} is missing (keys: {listing(keys)})"
    if error["type"] in ("model_type", "model_attributes_type"):
        return f"{place}: a mapping is expected, not {error['input']!r} (keys: {listing(keys)})"
    path = "".join(f".{part}" for part in error["loc"] if part not in (kind.argument, "[key]"))
    if error["type"] == "too_short":
        return f"{place}{path}: needs at least {error['ctx']['min_length']}, has {error['ctx']['actual_length']}"
    if error["type"] == "value_error":
        return f"{place}{path}: {error['ctx']['error']}"
    return f"{place}{path}: {error['msg'].replace('Input should', 'must', 1)}, not {error['input']!r}"
