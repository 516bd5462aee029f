"""Rules: data that says which rows of the metadata are a population, how often and in which order."""

from dsrt_lightning.population.rules.base import Rule
from dsrt_lightning.population.rules.checking import SchemaCheck
from dsrt_lightning.population.rules.parsing import RULES, parse_rules
from dsrt_lightning.population.rules.step import Step

__all__ = ["RULES", "Rule", "SchemaCheck", "Step", "parse_rules"]
