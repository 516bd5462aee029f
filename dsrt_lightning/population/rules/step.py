"""A rule at its place in a file."""

from __future__ import annotations

from dataclasses import dataclass

from dsrt_lightning.population.rules.base import Rule


@dataclass(frozen=True, slots=True)
class Step:
    """A rule and where it stands, e.g. ``digits.yaml: train.rules[2].weight``."""

    where: str
    rule: Rule

    def __str__(self) -> str:
        """Return the rule as one line of YAML, without defaults."""
        import yaml

        flow = yaml.safe_dump(
            {self.rule.keyword: self.rule.yaml_value()},
            default_flow_style=True,
            sort_keys=False,
            allow_unicode=True,
            width=float("inf"),
        )
        return str(flow).strip().removeprefix("{").removesuffix("}")
