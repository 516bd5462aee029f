"""Rules to a population in files, evaluated once and mapped by every process that needs it."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsrt_lightning.errors import RuleError
from dsrt_lightning.population.population import Population
from dsrt_lightning.population.snapshot_files import open_or_make, snapshot_place

if TYPE_CHECKING:
    from dsrt_lightning.population.rules import Step
    from dsrt_lightning.store.cache_set import CacheSet

_RULES_VERSION = 1  # raise it when a rule gives other rows than before


def prepare(
    caches: CacheSet,
    rules: Sequence[Mapping[str, Any] | Step],
    *,
    where: str,
    group_columns: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
) -> Population:
    """Return the population that rules leave of the caches, mapped from files.

    The files are found again by the caches' identities, the rules, the bytes of the files that they join, and the
    version of Polars; then nothing is evaluated. Processes may call this at the same time.

    Args:
        caches: The opened caches; their order is the order of the rows.
        rules: As they stand in YAML, or parsed.
        where: What stands before ``[i]`` in messages, e.g. ``digits.yaml: train.rules``.
        group_columns: Columns whose codes the population will be asked for.
        directory: Where the files are kept; default ``populations`` under ``DSRT_CACHE_DIR``, which is
            ``~/.cache/dsrt_lightning`` if it is not set.

    Raises:
        RuleError: One line for each problem of the rules.
        EmptyPopulationError: No row is left; it names the rule that left none.
        WeightError: Weights are null, not finite or negative, or all are zero.
        MetadataError: A group column is missing or of a type that does not make groups.
        CorruptCacheError: A cache's metadata are damaged.
        OSError: The files cannot be written.
    """
    steps = _parse(caches, rules, where)
    place = Path(directory) if directory is not None else snapshot_place()

    def write(folder: Path) -> Mapping[str, Any]:
        population = evaluate(caches, steps, where=where, group_columns=group_columns)
        assert population.digest
        return population.write(folder)

    return Population.from_files(caches, open_or_make(place / _recipe(caches, steps, group_columns), place, write))


def evaluate(caches: CacheSet, steps: Sequence[Step], *, where: str, group_columns: Sequence[str] = ()) -> Population:
    """Return the same population in memory."""
    from dsrt_lightning.population.apply import apply_rules, collect, unmatched_weights
    from dsrt_lightning.population.further_columns import ColumnsInMemory
    from dsrt_lightning.population.groups import group_codes, require_column
    from dsrt_lightning.population.metadata import scan_metadata
    from dsrt_lightning.population.selection import select
    from dsrt_lightning.population.wording import BUILT_IN

    table = scan_metadata(caches)
    result = apply_rules(table, steps)
    for text in unmatched_weights(table, steps):
        warnings.warn(text, stacklevel=2)
    stored, names = table.collect_schema(), result.collect_schema()
    added = [name for name in names if name not in stored]
    for name in group_columns:
        require_column(names, name)
    needed = dict.fromkeys([*BUILT_IN, *added, *group_columns])
    rows, weights, columns = select(caches, collect(result.select(*needed), table, steps), where)
    groups = {name: group_codes(columns, name) for name in group_columns}
    return Population(caches, rows, weights, ColumnsInMemory(columns.select(added)), groups=groups)


def _parse(caches: CacheSet, rules: Sequence[Mapping[str, Any] | Step], where: str) -> tuple[Step, ...]:
    from dsrt_lightning.population.metadata import scan_metadata
    from dsrt_lightning.population.rules import parse_rules

    try:
        return parse_rules(rules, where=where)
    except RuleError:
        # Once more with the columns, to report what is wrong with them too.
        parse_rules(rules, where=where, schema=scan_metadata(caches).collect_schema())
        raise


def _recipe(caches: CacheSet, steps: Sequence[Step], group_columns: Sequence[str]) -> str:
    import polars

    recipe = {
        "caches": [cache.manifest.identity for cache in caches.listed],
        "rules": [str(step) for step in steps],
        "files": [_sha256(file) for step in steps for file in step.rule.files()],
        "group_columns": list(group_columns),
        "versions": [_RULES_VERSION, polars.__version__],
    }
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()


def _sha256(file: str) -> str | None:
    """Return the digest of a file's bytes, None if there is no such file, which the rule will report."""
    try:
        with open(file, "rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
            return digest.hexdigest()
    except FileNotFoundError:
        return None
