"""docs/configuration.md lists every key of the YAML file with its default."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.training.config import (
    DatasetRTConfig,
    LoaderConfig,
    LoaderOverrides,
    MixConfig,
    MixPartConfig,
    NamedSetConfig,
    SplitConfig,
)

PAGE = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text()
SECTIONS = {
    "The file": DatasetRTConfig,
    "A split": SplitConfig,
    "loader": LoaderConfig,
    "sampling": Sampling,
    "mix": MixConfig,
    "A part of a mix": MixPartConfig,
}


def defaults_of(kind: Any) -> dict[str, str]:
    if dataclasses.is_dataclass(kind):
        return {field.name: json.dumps(field.default) for field in dataclasses.fields(kind)}
    shown = {}
    for name, field in kind.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        plain = default.model_dump(exclude_defaults=True) if hasattr(default, "model_dump") else default
        shown[name] = "needed" if field.is_required() else json.dumps(plain)
    return shown


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_has_one_row_for_every_key_with_its_default(title: str) -> None:
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [[cell.strip().strip("`") for cell in line.split("|")[1:3]] for line in section.splitlines()]
    found = {row[0]: row[1] for row in rows[0:] if len(row) == 2 and row[0] not in ("key", "---")}
    assert found == defaults_of(SECTIONS[title])


def test_what_a_set_may_have_is_what_the_page_says_of_it() -> None:
    assert set(LoaderOverrides.model_fields) == set(LoaderConfig.model_fields)
    assert set(NamedSetConfig.model_fields) == set(SplitConfig.model_fields) - {"sets", "combine"}
