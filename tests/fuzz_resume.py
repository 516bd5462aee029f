"""``make fuzz``: random Lightning runs with random interruptions; prints how many did not train what they should.

    python tests/fuzz_resume.py --scenarios 1000 --first 0

A scenario is given by its number, so a wrong one is repeated by ``--first NUMBER --scenarios 1``.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resume_scenarios import Scenario


def scenario_of(number: int) -> Scenario:
    """Return the scenario of a number; one in 200 has worker processes, which are slow to start."""
    from resume_scenarios import random_scenario

    scenario = random_scenario(random.Random(number))
    return dataclasses.replace(scenario, workers=2) if number % 200 == 199 else scenario


def main() -> int:
    """Run the scenarios and return 1 if one was wrong."""
    # Not at the top: worker processes import this module, and should not import Lightning.
    from resume_scenarios import build_numbers, run

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    wrong = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DSRT_CACHE_DIR"] = os.path.join(folder, "snapshots")
        cache = build_numbers(Path(folder))
        for number in range(args.first, args.first + args.scenarios):
            try:
                problem = run(scenario_of(number), cache)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem is not None:
                wrong += 1
                print(f"scenario {number} is wrong: {scenario_of(number)}\n    {problem}", flush=True)
            if (number + 1) % 100 == 0:
                print(f"{number + 1 - args.first} of {args.scenarios}, {wrong} wrong", flush=True)
    print(f"{args.scenarios} scenarios in {time.monotonic() - began:.0f} s, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
