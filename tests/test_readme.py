"""The README's example runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def code(language: str) -> str:
    """Return the README's one block in a language."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return block


def test_the_example_has_at_most_twelve_lines_and_trains(tmp_path: Path) -> None:
    lines = [line for line in code("python").splitlines() if line.strip()]
    assert len(lines) <= 12
    (tmp_path / "experiment.yaml").write_text(code("yaml"))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code("python")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "DSRT_CACHE_DIR": str(tmp_path / "populations"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "`Trainer.fit` stopped: `max_epochs=5` reached." in run.stderr


def test_every_link_leads_to_a_file_or_folder() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
