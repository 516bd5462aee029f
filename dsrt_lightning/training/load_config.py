"""From a YAML file or a mapping to a checked config, with every mistake in it at once."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.errors import ConfigError, RuleError
from dsrt_lightning.population.rules import parse_rules
from dsrt_lightning.training.config import (
    SPLITS,
    DatasetRTConfig,
    LoaderConfig,
    MixConfig,
    MixPartConfig,
    NamedSetConfig,
    SplitConfig,
)
from dsrt_lightning.training.yaml_file import read_yaml


def load_config(source: DatasetRTConfig | str | os.PathLike[str] | Mapping[str, Any]) -> DatasetRTConfig:
    """Return a checked config from a YAML path, a mapping (OmegaConf's too), or a config.

    Raises:
        ConfigError: One line for every problem, each with its place and the choices that exist.
        OSError: The file cannot be read.
    """
    if isinstance(source, (str, os.PathLike)):
        return _checked(_read_yaml(Path(source)), where=str(source))
    if isinstance(source, DatasetRTConfig):
        return _checked(source.model_dump(exclude_unset=True), where="cfg")
    if type(source).__module__.partition(".")[0] == "omegaconf":
        from omegaconf import OmegaConf

        return _checked(OmegaConf.to_container(source, resolve=True), where="cfg")
    return _checked(source, where="cfg")


def _read_yaml(path: Path) -> Mapping[str, Any]:
    content = read_yaml(path)
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}: holds a {type(content).__name__} but must hold a mapping with the key 'caches'")
    return content


def _checked(raw: object, *, where: str) -> DatasetRTConfig:
    """Validate everything, the rules too, before reporting anything."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where}: is a {type(raw).__name__} but must be a path, a mapping or a DatasetRTConfig")
    problems: list[str] = []
    config: DatasetRTConfig | None = None
    try:
        config = DatasetRTConfig.model_validate(dict(raw))
    except ValidationError as error:
        problems += [_describe(problem, where) for problem in error.errors()]
    for place, rules in _rule_lists(raw):
        try:
            parse_rules(rules, where=f"{where}: {place}")
        except RuleError as error:
            problems += str(error).splitlines()
    if problems or config is None:
        raise ConfigError("\n".join(problems))
    config._where = where
    return config


def _rule_lists(raw: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = [("rules", raw.get("rules"))]
    for name in SPLITS:
        found += _nested_rules(name, raw.get(name))
    return [(place, rules) for place, rules in found if isinstance(rules, list)]


def _nested_rules(place: str, value: Any) -> list[tuple[str, Any]]:
    """Return the rules at ``place`` and in everything below it that may have some."""
    if not isinstance(value, Mapping):
        return []
    found = [(f"{place}.rules", value.get("rules"))]
    mix = value.get("mix")
    nested = {"sets": value.get("sets"), "mix.parts": mix.get("parts") if isinstance(mix, Mapping) else None}
    for key, children in nested.items():
        for name, child in children.items() if isinstance(children, Mapping) else ():
            found += _nested_rules(f"{place}.{key}.{name}", child)
    return found


def _describe(problem: Any, where: str) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
    if problem["type"] == "extra_forbidden":
        return f"{where}: {place}: unknown key{_choices(problem['loc'])}"
    message = problem["msg"][:1].lower() + problem["msg"][1:]
    given = "" if problem["type"] == "missing" else f", but it is {problem['input']!r}"
    return f"{where}: {place}: {message}{given}"


def _choices(loc: tuple[int | str, ...]) -> str:
    """Return the keys that exist beside the unknown one at ``loc``, the nearest first."""
    keys = _keys_at(DatasetRTConfig, loc[:-1])
    if not keys:
        return ""
    close = difflib.get_close_matches(str(loc[-1]), keys, n=1)
    suggestion = f", did you mean {close[0]!r}?" if close else ""
    return f"{suggestion} (keys: {', '.join(keys)})"


_MODEL_AT: dict[str, type[BaseModel]] = {
    **dict.fromkeys(SPLITS, SplitConfig),
    "loader": LoaderConfig,
    "sets": NamedSetConfig,
    "mix": MixConfig,
    "parts": MixPartConfig,
}


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    for part in loc:
        if part == "sampling":
            return [field.name for field in dataclasses.fields(Sampling)]
        model = _MODEL_AT.get(str(part), model)
    return list(model.model_fields)
