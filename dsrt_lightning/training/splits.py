"""From a config's nested keys to the loaders that they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.population.rules import parse_rules

if TYPE_CHECKING:
    from dsrt_lightning.population.rules import Step
    from dsrt_lightning.training.config import DatasetRTConfig, LoaderConfig, SetConfig, SplitConfig


@dataclass(frozen=True)
class LoaderPlan:
    """One loader of a run, with everything that it takes from the keys above its own.

    Attributes:
        name: ``train``, or ``train.labelled`` for a set.
        steps: All rules, each with its place in the file.
        sampling: How an epoch is drawn.
        loader: How batches arrive; ``drop_last`` is never None.
    """

    name: str
    steps: tuple[Step, ...]
    sampling: Sampling
    loader: LoaderConfig


def loader_plans(config: DatasetRTConfig, split: str) -> list[LoaderPlan]:
    """Return the loaders of a split in order: one, or one a set.

    Raises:
        RuleError: A rule is wrong.
    """
    part = config.splits[split]
    shared = [*_steps(config, "rules", config.rules), *_steps(config, f"{split}.rules", part.rules)]
    if not part.sets:
        return [_plan(split, split, shared, part, part)]
    return [
        _plan(f"{split}.{key}", split, [*shared, *_steps(config, f"{split}.sets.{key}.rules", own.rules)], part, own)
        for key, own in part.sets.items()
    ]


def _steps(config: DatasetRTConfig, place: str, rules: list[dict[str, object]]) -> tuple[Step, ...]:
    return parse_rules(rules, where=f"{config.where}: {place}")


def _plan(name: str, split: str, steps: list[Step], part: SplitConfig, own: SetConfig) -> LoaderPlan:
    training = split == "train"
    given = {key: getattr(own.loader, key) for key in own.loader.model_fields_set}
    loader = part.loader.model_copy(update=given)
    if loader.drop_last is None:
        loader = loader.model_copy(update={"drop_last": training})
    default = Sampling.of("weighted" if training else "sequential")
    return LoaderPlan(name, tuple(steps), own.sampling or part.sampling or default, loader)
