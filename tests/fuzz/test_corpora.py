"""Replays of the corpora of coverage-guided fuzzing: each input once, in its own process.

`make fuzz TARGET=… TIME=…` finds more; `tests/fuzz/targets.py` says what the targets are.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.processes import run

from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent


@pytest.mark.parametrize("target", TARGETS)
def test_corpus(target: str) -> None:
    corpus = HERE / "corpora" / target
    ended = run([sys.executable, str(HERE / "targets.py"), target, str(corpus)], timeout=100.0)
    assert (ended.code, ended.stderr) == (0, "")
    assert int(ended.stdout) == len(list(corpus.iterdir())) > 0
