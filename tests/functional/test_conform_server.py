"""Our server, judged by each case of quiver-conform."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.controls import Controls, kind_of
from support.mutant import MutatingRelay

from buildtools.not_kept import NOT_KEPT
from quiver_fast.conform.case import BROKEN, KEPT, Case
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.runner import judge, run

SERVER = [case for case in CASES if case.who == "server"]
PLAIN = [case for case in SERVER if kind_of(case) == "plain"]
FOLDER = Path(__file__).parents[1] / "support" / "conform_answers"
# Of each refusal of ours its frame and condition: cases demand less.
ANSWERS: dict[str, str] = {
    key: answer
    for name in ("transport", "others")
    for key, answer in json.loads((FOLDER / f"{name}.json").read_text()).items()
}


@pytest.fixture(scope="module")
def controls(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Controls]:
    found = Controls(tmp_path_factory.mktemp("controls"), certificates, patience=3.0)
    yield found
    found.close()


def expected(case: Case) -> str:
    row = NOT_KEPT.get(case.id)
    return BROKEN if row and row.who in ("server", "both") else KEPT


def refusal(answer: str) -> str | None:
    """Return the name and the condition of a frame with an error; None for another."""
    found = re.match(r"([\w-]+) .*\bcondition=([\w:.-]+)", answer)
    return f"{found[1]} {found[2]}" if found else None


@pytest.mark.parametrize("case", SERVER, ids=lambda case: case.id)
def test_a_case(case: Case, controls: Controls) -> None:
    result = judge(case, controls.subject(case))
    assert result.verdict == expected(case), result
    assert refusal(result.answer) == ANSWERS.get(case.id)
    controls.check(case)


def test_each_answer_is_a_cases() -> None:
    assert ANSWERS.keys() - {case.id for case in SERVER} == set()


def test_cases_are_independent(controls: Controls) -> None:
    """Of others at the same time, of their order, and of faults in every third one."""
    shuffled = random.Random(54).sample(PLAIN, len(PLAIN))
    report = run(shuffled, controls.subject(shuffled[0]), jobs=8, seconds=120)
    verdicts = {one.case.id: one.verdict for one in report.results}
    assert report.reason is None
    assert verdicts == {case.id: expected(case) for case in PLAIN}


def test_the_relay_changes_nothing_else(controls: Controls) -> None:
    subject = controls.subject(PLAIN[0])
    with MutatingRelay(subject.target.port, None) as relay:
        report = run(PLAIN, subject.through(relay.port), jobs=2, seconds=120)
    assert [one for one in report.results if one.verdict != expected(one.case)] == []
