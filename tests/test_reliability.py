from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_test_that_the_documentation_names_exists() -> None:
    documented = (ROOT / "docs/reliability.md").read_text() + (ROOT / "docs/security.md").read_text()
    names = set(re.findall(r"`(test_\w+)`", documented))
    files = set(re.findall(r"`([\w/]+\.(?:py|cpp))`", documented))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 30
    assert [name for name in sorted(names) if f"def {name}(" not in tests] == []
    folders = (ROOT, ROOT / "tests", ROOT / "tests/faults")
    assert [name for name in sorted(files) if not any((folder / name).exists() for folder in folders)] == []


def test_each_row_of_the_tables_names_its_test() -> None:
    text = (ROOT / "docs/reliability.md").read_text().split("## What is not promised")[0]
    tables = [table for table in re.split(r"\n\n", text) if table.startswith("|") and "| test |" in table]
    rows = [row for table in tables for row in table.splitlines()[2:]]
    named = r"`(?:[\w/]*test_\w+(?:\.py|\.cpp)?|csrc/\S+)`|\| (?:the same|as for [^|]+) \|$"
    assert len(rows) > 45
    assert [row for row in rows if not re.search(named, row)] == []


@pytest.mark.parametrize(
    ("script", "promised"),
    {
        "kills.py": [500],
        "start_methods.py": [100],
        "abandoned_iterators.py": [10_000],
        "many_files.py": [10_000, 400],
    }.items(),
)
def test_full_faults_try_each_fault_as_often_as_was_promised(script: str, promised: list[int]) -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "tests/faults").glob("test_*.py"))
    (call,) = re.findall(rf'run_script\("{script}".*', source)
    tried = [int(number) for number in re.findall(r"full=([\d_]+)", call)]
    assert all(done >= least for done, least in zip(tried, promised, strict=True))
