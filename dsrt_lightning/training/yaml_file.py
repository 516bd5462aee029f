"""YAML files in which no key is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dsrt_lightning.errors import ConfigError


class _Strict(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping; YAML's own readers keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[Any, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and first.setdefault(name := self.construct_object(key), line) != line:
                raise ConfigError(f"line {line}: key {name!r} stands in line {first[name]} already; keep one of them")
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises:
        ConfigError: It is not valid YAML, or has a key twice in one mapping; names the lines.
        OSError: It cannot be read.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Strict)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
