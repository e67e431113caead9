"""Many ends in one process each way, against a single pair of the same run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.comparison import Figures
from bench.conftest import Bench
from bench.runner import Case, Command, figures, run_pair

pytestmark = pytest.mark.full

ONE = Case(3_000_000)
ENDS = {"ends-8": 8, "ends-1000": 1_000}


@pytest.mark.parametrize(("name", "ends"), ENDS.items(), ids=list(ENDS))
def test_ends(bench: Bench, arrow: Command, name: str, ends: int) -> None:
    many = replace(ONE, connections=ends)

    def of(case: Case) -> Figures:
        return figures(run_pair(arrow, arrow, case))

    bench.interleave(name, "rate", lambda: of(many), lambda: of(ONE))
