from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_the_documentation_names_exists() -> None:
    documented = (ROOT / "docs/reliability.md").read_text() + (ROOT / "docs/security.md").read_text()
    names = set(re.findall(r"`(test_\w+)`", documented))
    files = set(re.findall(r"`([\w/]+\.(?:py|cpp))`", documented))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 30
    assert [name for name in sorted(names) if f"def {name}(" not in tests] == []
    assert [name for name in sorted(files) if not (ROOT / name).exists() and not (ROOT / "tests" / name).exists()] == []
