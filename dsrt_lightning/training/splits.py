"""From a config's nested keys to the loaders that they describe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsrt_lightning.draws.mix import Mixing
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.errors import ConfigError
from dsrt_lightning.loading.dataset import RTDataset
from dsrt_lightning.population.mixed import MixedPopulation
from dsrt_lightning.population.rules import parse_rules
from dsrt_lightning.population.snapshot import prepare

if TYPE_CHECKING:
    from dsrt_lightning.population.rules import Step
    from dsrt_lightning.store.cache_set import CacheSet
    from dsrt_lightning.training.config import DatasetRTConfig, LoaderConfig, MixConfig, NamedSetConfig, SetConfig


@dataclass(frozen=True)
class PopulationPlan:
    """One population: its rules, and how it is drawn.

    Attributes:
        name: ``train``, ``train.labelled`` for a set, ``train.mix.parts.rare`` for a part of a mix.
        steps: All rules, each with its place in the config.
        sampling: How it is drawn.
        own: Those of the rules that are meant for this sampling, not shared with others.
    """

    name: str
    steps: tuple[Step, ...]
    sampling: Sampling
    own: tuple[Step, ...]

    def warnings(self) -> list[str]:
        """Return what is allowed but has no effect."""
        if self.sampling.uses_weights:
            return []
        return [
            f"{step.where}: {self.name} is drawn by {self.sampling.mode!r}, which does not look at weights: this only "
            "leaves out rows of weight 0; choose weighted, weighted_once or quota, or drop the rule"
            for step in self.own
            if step.rule.keyword == "weight"
        ]


@dataclass(frozen=True)
class LoaderPlan:
    """One loader of a run, with everything that it takes from the keys above its own.

    Attributes:
        name: ``train``, or ``train.labelled`` for a set.
        populations: One, or the parts of a mix.
        sampling: How an epoch is drawn.
        loader: How batches arrive; ``drop_last`` is never None.
    """

    name: str
    populations: tuple[PopulationPlan, ...]
    sampling: Sampling | Mixing
    loader: LoaderConfig

    def prepare(self, caches: CacheSet, *, seed: int) -> RTDataset:
        """Return the dataset: its populations are evaluated and written, or mapped if they were before.

        Raises:
            RuleError: A rule does not fit the metadata.
            EmptyPopulationError: The rules leave no row.
        """
        parts = [
            prepare(caches, plan.steps, where=plan.name, group_columns=plan.sampling.group_columns)
            for plan in self.populations
        ]
        population = MixedPopulation(parts) if isinstance(self.sampling, Mixing) else parts[0]
        return RTDataset(caches, population, seed=seed, sampling=self.sampling)


class Planner:
    """Makes the loader plans of a config whose caches are open.

    Args:
        config: The checked config.
        caches: Its caches, in its order.
    """

    def __init__(self, config: DatasetRTConfig, caches: CacheSet) -> None:
        self._config = config
        self._ids = dict(zip(config.caches, (cache.cache_id for cache in caches.listed), strict=True))

    def loaders(self, split: str) -> list[LoaderPlan]:
        """Return the loaders of a split in order: one, or one a set.

        Raises:
            RuleError: A rule is wrong.
            ConfigError: ``sampling`` stands beside ``mix``, or a mix is wrong.
        """
        part = self._config.splits[split]
        shared = (*self._steps("rules", self._config.rules), *self._steps(f"{split}.rules", part.rules))
        if not part.sets:
            own = shared if split == "train" else shared[len(self._config.rules) :]
            return [self._loader(split, shared, own, part, part.loader)]
        plans = []
        for key, config in part.sets.items():
            own = self._steps(f"{split}.sets.{key}.rules", config.rules)
            loader = part.loader.model_copy(update=config.loader.model_dump(exclude_none=True))
            drawn: SetConfig | NamedSetConfig = config if config.sampling or config.mix else part
            plans.append(self._loader(f"{split}.{key}", (*shared, *own), own, drawn, loader))
        return plans

    def _loader(
        self,
        name: str,
        steps: tuple[Step, ...],
        own: tuple[Step, ...],
        drawn: SetConfig | NamedSetConfig,
        loader: LoaderConfig,
    ) -> LoaderPlan:
        training = name.partition(".")[0] == "train"
        if loader.drop_last is None:
            loader = loader.model_copy(update={"drop_last": training})
        if drawn.mix is None:
            sampling = drawn.sampling or Sampling.of("weighted" if training else "sequential")
            return LoaderPlan(name, (PopulationPlan(name, steps, sampling, own),), sampling, loader)
        if drawn.sampling is not None:
            raise ConfigError(f"{self._config.where}: {name}: has sampling and mix; give each part of the mix its own")
        parts = tuple(self._parts(name, steps, drawn.mix))
        return LoaderPlan(name, parts, self._mixing(name, drawn.mix, parts), loader)

    def _parts(self, name: str, steps: tuple[Step, ...], mix: MixConfig) -> Iterator[PopulationPlan]:
        for key, part in mix.parts.items():
            place = f"{name}.mix.parts.{key}"
            own = self._steps(f"{place}.rules", part.rules)
            every = (*self._from_caches(place, part.caches), *steps, *own)
            yield PopulationPlan(place, every, part.sampling or Sampling.of("shuffle"), own)

    def _from_caches(self, place: str, paths: Sequence[str] | None) -> tuple[Step, ...]:
        if paths is None:
            return ()
        unknown = [path for path in paths if path not in self._ids]
        if unknown:
            listed = ", ".join(self._ids)
            raise ConfigError(f"{self._config.where}: {place}.caches: {unknown[0]!r} is not among caches ({listed})")
        ids = ", ".join(str(self._ids[path]) for path in paths)
        return self._steps(f"{place}.caches", [{"keep": f"cache_id IN ({ids})"}])

    def _mixing(self, name: str, mix: MixConfig, parts: tuple[PopulationPlan, ...]) -> Mixing:
        ratios = tuple(part.ratio for part in mix.parts.values())
        try:
            return Mixing(ratios, tuple(part.sampling for part in parts), mix.stop, mix.epoch_length)
        except ValueError as error:
            raise ConfigError(f"{self._config.where}: {name}.{error}") from error

    def _steps(self, place: str, rules: list[dict[str, Any]]) -> tuple[Step, ...]:
        return parse_rules(rules, where=f"{self._config.where}: {place}")
