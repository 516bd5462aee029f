"""Whether rules fit a table, told from its schema alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrt_lightning.population.expressions import first_line
from dsrt_lightning.population.rules.step import Step
from dsrt_lightning.population.wording import missing_column

if TYPE_CHECKING:
    import polars as pl


class SchemaCheck:
    """Follows a table's schema through a list of rules.

    A column that an earlier, wrong rule was meant to add is not reported as unknown.
    """

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        self._meant: set[str] | None = set()

    def skip(self, columns: frozenset[str] | None) -> None:
        """Pass over a wrong rule that was meant to add columns, None if nobody can tell which."""
        self._meant = None if self._meant is None or columns is None else self._meant | columns

    def problems(self, step: Step) -> list[str]:
        """Return what is wrong with a rule at this point of the list; if nothing, apply it to the schema."""
        import polars as pl

        rule = step.rule
        missing = [name for name in dict.fromkeys(rule.reads()) if name not in self.schema]
        reported = [name for name in missing if self._meant is not None and name not in self._meant]
        found = [missing_column(name, self.schema) for name in reported]
        if not missing:
            try:
                found = list(rule.problems(self.schema))
                if not found:
                    self.schema = rule.apply(pl.LazyFrame(schema=self.schema)).collect_schema()
                    return []
            except pl.exceptions.PolarsError as error:
                found = [first_line(error)]
            except ValueError as error:
                found = [str(error)]
        self.skip(rule.may_add(rule.yaml_value()))
        return [f"{step.where}: {problem}" for problem in found]
