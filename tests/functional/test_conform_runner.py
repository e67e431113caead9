"""Verdicts on cases that behave as they like: second judgements, limits, interruptions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from quiver_fast.conform.case import MUST, Case, Unobservable
from quiver_fast.conform.mutation import again
from quiver_fast.conform.runner import judge, run
from quiver_fast.conform.server import Facts
from quiver_fast.conform.views import Views
from quiver_fast.conform.wire.frames import Unexpected
from quiver_fast.conform.wire.trace import Trace


class View:
    def __init__(self, subject: Subject) -> None:
        self.trace, self.ended, self._subject = Trace(), threading.Event(), subject
        subject.views.add(self)

    def abort(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self._subject.views.remove(self)


class Subject:
    def __init__(self, patience: float = 1.0) -> None:
        self.facts, self.patience, self.views = Facts(), patience, Views()
        self.failed, self.parallel = 0, True

    def view(self) -> View:
        return View(self)

    def anew(self) -> Subject:
        return self


def case(name: str, act: Callable[[View], None]) -> Case:
    return Case(name, "server", MUST, "It acts.", again(), act)


def broken(_view: Any) -> None:
    raise Unexpected("an answer", "silence")


def verdicts(*cases: Case, jobs: int = 2, seconds: float = 30) -> list[tuple[str, str | None]]:
    report = run(cases, Subject(), jobs=jobs, seconds=seconds)
    return [(one.verdict, one.reason) for one in report.results]


def test_a_break_counts_if_it_comes_twice() -> None:
    assert verdicts(case("1", broken)) == [("broken", None)]


@pytest.mark.parametrize(
    ("second", "end"),
    [(None, "kept when it was alone"), ("down", "unobservable when it was alone: down")],
)
def test_a_break_that_does_not_come_again(second: str | None, end: str) -> None:
    count = []

    def act(view: View) -> None:
        count.append(0)
        if len(count) == 1:
            broken(view)
        if second is not None:
            raise Unobservable(second)

    told = "broken at first (expected an answer, found silence), and "
    assert verdicts(case("1", act)) == [("unobservable", told + end)]


def test_the_second_judgement_is_alone() -> None:
    """A server with a limit of connections, or a busy machine, breaks what cases do together."""
    running, together, begun = [0], [0], threading.Event()

    def others(_view: View) -> None:
        running[0] += 1
        begun.set()
        time.sleep(0.05)
        running[0] -= 1

    def act(view: View) -> None:
        begun.wait()
        together[0] = running[0]
        broken(view)

    many = [case(f"2/{number}", others) for number in range(6)]
    found = verdicts(case("1", act), *many, jobs=3)
    assert found == [("broken", None)] + [("kept", None)] * 6
    assert together == [0]


def test_a_patient_case_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quiver_fast.conform.runner.CASE_SECONDS", 0.1)
    slow = case("1", lambda view: broken(view) if not view.ended.wait(0.3) else None)
    assert judge(slow, Subject(0.01), 60).verdict == "unobservable"
    assert judge(slow, Subject(1.0), 60).verdict == "broken"


def test_an_interruption_ends_cases_and_keeps_verdicts() -> None:
    def tell(_result: Any) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    waits = case("2", lambda view: view.ended.wait(60))
    report = run([case("1", lambda _view: None), waits, waits], Subject(), jobs=2, seconds=60,
                 tell=tell)  # fmt: skip
    assert time.monotonic() - began < 30
    assert (report.reason, report.interrupted) == ("it was interrupted", True)
    assert [one.verdict for one in report.results] == ["kept"]
