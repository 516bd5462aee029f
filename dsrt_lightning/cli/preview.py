"""``dsrt preview``: show what a config selects, rule by rule, before anything is trained."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dsrt_lightning.cli.output import Percent, print_table
from dsrt_lightning.errors import RuleError

if TYPE_CHECKING:
    import polars as pl

    from dsrt_lightning.population.preview import ClassShare
    from dsrt_lightning.population.rules import Step

NAME = "preview"
HELP = "show what a config selects, rule by rule"
DESCRIPTION = """Applies the rules of a config to the metadata of its caches. Shows for each split how many
rows every rule leaves, and the shares of classes before all rules and after them: of the rows,
and of the draws where rows are drawn by weight. Reads no payload and writes nothing."""
EXAMPLE = "dsrt preview configs/digits_balanced.yaml"

# Shown where neither the rules nor the command line name a column.
_USUAL_COLUMN = "label"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", help="YAML file of an experiment")
    parser.add_argument(
        "--by", metavar="COLUMN", help=f"class column (default: those that `weight` names, else {_USUAL_COLUMN!r})"
    )


def run(args: argparse.Namespace) -> int:
    """Print the tables of every split; 1 if a split has no row."""
    from dsrt_lightning.population.apply import unmatched_weights
    from dsrt_lightning.population.metadata import scan_metadata
    from dsrt_lightning.store.cache_set import open_caches
    from dsrt_lightning.training.load_config import load_config
    from dsrt_lightning.training.splits import Planner

    config = load_config(args.config)
    # Payloads stay unread, so those of pickle caches are as harmless as others.
    caches = open_caches(config.caches, allow_pickle=True)
    frame = scan_metadata(caches)
    planner = Planner(config, caches)
    plans = [plan for split in config.splits for loader in planner.loaders(split) for plan in loader.populations]
    _refuse_problems(frame, [plan.steps for plan in plans])
    for plan in plans:
        for text in (*plan.warnings(), *unmatched_weights(frame, plan.steps)):
            print(text, file=sys.stderr)
    empty = [plan.name for plan in plans if not _print_split(plan.name, frame, plan.steps, args.by)]
    for name in empty:
        print(f"{args.config}: {name}: no row is left; relax its rules", file=sys.stderr)
    return 1 if empty else 0


def _refuse_problems(frame: pl.LazyFrame, rule_lists: Sequence[Sequence[Step]]) -> None:
    """Raise one error for what is wrong in any list, so that a file is repaired in one go."""
    from dsrt_lightning.population.apply import apply_rules

    problems: dict[str, None] = {}
    for steps in rule_lists:
        try:
            apply_rules(frame, steps)
        except RuleError as error:
            problems.update(dict.fromkeys(str(error).splitlines()))
    if problems:
        raise RuleError("\n".join(problems))


def _print_split(name: str, frame: pl.LazyFrame, steps: Sequence[Step], column: str | None) -> int:
    """Print the tables of one split and return how many rows are left."""
    from dsrt_lightning.population.apply import apply_rules
    from dsrt_lightning.population.preview import preview_rules

    if column is None:
        usual = [_USUAL_COLUMN] if _USUAL_COLUMN in apply_rules(frame, steps).collect_schema() else [None]
        columns: Sequence[str | None] = list(dict.fromkeys(_weighed_columns(steps))) or usual
    else:
        columns = [column]
    previews = [preview_rules(frame, steps, column=column) for column in columns]
    counts = [("all records", previews[0].num_rows), *((step.text, step.num_rows) for step in previews[0].steps)]
    print_table(name, ("rule", "rows left"), counts)
    for column, preview in zip(columns, previews, strict=True):
        if column is not None:
            header = (column, "rows before", "after", "share of weight before", "after")
            print_table(f"{name}: classes of {column}", header, map(_cells, preview.shares))
    return counts[-1][1]


def _cells(share: ClassShare) -> tuple[object, ...]:
    return share.value, share.rows_before, share.rows_after, Percent(share.share_before), Percent(share.share_after)


def _weighed_columns(steps: Sequence[Step]) -> Iterator[str]:
    from dsrt_lightning.population.rules.weighing import Weight

    for step in steps:
        if isinstance(step.rule, Weight):
            yield from step.rule.balance or ()
            yield from step.rule.by or ()
