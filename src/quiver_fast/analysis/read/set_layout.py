"""Where the runs of a set are: `quiver --runs` writes them there, `quiver-analyze` finds them.

The tree::

    DIR/run-01/                 a run, as `quiver --output` writes it
    DIR/run-01.txt              the output of that run
    DIR/candidate/run-01/       with a baseline: the runs of the one and of the other
    DIR/baseline/run-01/
    DIR/set.json                the options, the order, and the results
    DIR/rate.json               the same of `quiver --find-rate`, in place of set.json
    DIR/sweep.json              the same of `quiver --sweep`

Without runs are the documents of `quiver --churn`, DIR/churn.json, and of `--hold`, DIR/hold.json.
"""

from __future__ import annotations

import json
from pathlib import Path

from quiver_fast.analysis.read.discovery import search

CANDIDATE, BASELINE = "candidate", "baseline"
SET_DOCUMENT = "set.json"
RATE_DOCUMENT = "rate.json"
SWEEP_DOCUMENT = "sweep.json"
CHURN_DOCUMENT = "churn.json"
HOLD_DOCUMENT = "hold.json"
RESUMED = (SET_DOCUMENT, RATE_DOCUMENT, SWEEP_DOCUMENT)
DOCUMENTS = (*RESUMED, CHURN_DOCUMENT, HOLD_DOCUMENT)

_LEAST_DIGITS = 2


def run_name(number: int, runs: int) -> str:
    """Return the name of run ``number``, from 1, of ``runs``: sorted names are in order."""
    return f"run-{number:0{max(_LEAST_DIGITS, len(str(runs)))}}"


def rules_of(directory: Path) -> dict[str, str]:
    """Return ``detect`` and ``relevant``, where a set was measured with these options."""
    try:
        workload = json.loads((directory / SET_DOCUMENT).read_bytes())["workload"]
        return {name: str(workload[name]) for name in ("detect", "relevant") if name in workload}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def both_sides(word: str) -> tuple[str, str] | None:
    """Return the directories of candidate and baseline in ``word``, where both hold records."""
    sides = [Path(word) / name for name in (CANDIDATE, BASELINE)]
    if all(side.is_dir() and search(side) for side in sides):
        return str(sides[0]), str(sides[1])
    return None
