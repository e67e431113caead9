"""Our arrow, judged by each case of clients and arrows; each case fails by its own fault."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from support.client_controls import arrow_subject, mutated
from support.verdicts import answers, expected, refusals

from quiver_fast.conform.case import BROKEN, DISPUTED_, Case
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.client import ClientSubject
from quiver_fast.conform.runner import judge, run

ARROW = [case for case in CASES if case.who in ("client", "arrow")]
ANSWERS = answers("clients")


@pytest.fixture(scope="module")
def ours() -> ClientSubject:
    return arrow_subject(patience=4.0)


@pytest.fixture(scope="module")
def impatient() -> ClientSubject:
    # Silence is the fault here, so that a short patience suffices.
    return arrow_subject(patience=1.5)


def name_of(case: Case) -> str:
    return f"{case.who}-{case.id}"


@pytest.mark.parametrize("case", ARROW, ids=name_of)
def test_a_case(case: Case, ours: ClientSubject) -> None:
    result = judge(case, ours)
    assert result.verdict == expected(case), result
    assert refusals(result) == ANSWERS.get(case.id, ""), result


def test_our_arrow_names_the_host_that_it_connects_to(ours: ClientSubject) -> None:
    """2.7.1/12 takes an open without a name."""
    with closing(ours.view()) as view:
        assert view.course("send").one("open").fields["hostname"] == "127.0.0.1"


def test_each_answer_is_a_cases() -> None:
    assert ANSWERS.keys() - {case.id for case in ARROW} == set()


def test_cases_are_independent(ours: ClientSubject) -> None:
    report = run(ARROW, ours, jobs=4, seconds=300)
    assert report.reason is None
    assert [one for one in report.results if one.verdict != expected(one.case)] == []


@pytest.mark.parametrize("case", ARROW, ids=name_of)
def test_each_case_fails_by_its_own_mutation(
    case: Case, impatient: ClientSubject, tmp_path: Path
) -> None:
    with mutated(impatient, case, tmp_path) as (subject, mutant):
        result = judge(case, subject)
    assert mutant.happened, f"the fault was not made: {result}"
    due = DISPUTED_ if case.doubt else BROKEN
    assert (result.case.id, result.verdict) == (case.id, due), result
    # No step that prepares has failed.
    assert result.reason == (case.doubt or None)
