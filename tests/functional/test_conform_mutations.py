"""Each case of quiver-conform fails by its own fault: a check that cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.certificates import Certificates
from support.controls import Controls

from quiver_fast.conform.case import BROKEN, DISPUTED_, Case
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.runner import judge

SERVER = [case for case in CASES if case.who == "server"]


@pytest.fixture(scope="module")
def controls(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Controls]:
    # Silence is the fault here, so that a short patience suffices.
    found = Controls(tmp_path_factory.mktemp("controls"), certificates, patience=1.0)
    yield found
    found.close()


@pytest.mark.parametrize("case", SERVER, ids=lambda case: f"{case.who}-{case.id}")
def test_each_case_fails_by_its_own_mutation(case: Case, controls: Controls) -> None:
    with controls.mutated(case) as (subject, mutant):
        result = judge(case, subject)
    assert mutant.happened, f"the fault was not made: {result}"
    assert (result.case.id, result.verdict) == (case.id, DISPUTED_ if case.doubt else BROKEN)
    # No step that prepares has failed.
    assert result.reason == (case.doubt or None)
