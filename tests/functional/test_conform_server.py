"""Our server, judged by each case of quiver-conform."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.controls import OPEN, Controls, kind_of
from support.metrics import scrape
from support.mutant import MutatingRelay
from support.processes import free_port, wait_until
from support.server import running_server
from support.verdicts import answers, expected, in_order, refusals

from buildtools.not_kept import NOT_KEPT
from quiver_fast.conform.case import KEPT, Case
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.runner import judge, run
from quiver_fast.conform.server import ServerSubject, Target

SERVER = [case for case in CASES if case.who == "server"]
PLAIN = [case for case in SERVER if kind_of(case) == "plain"]
ANSWERS = answers("transport", "others")


@pytest.fixture(scope="module")
def controls(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Controls]:
    found = Controls(tmp_path_factory.mktemp("controls"), certificates, patience=3.0)
    yield found
    found.close()


@pytest.mark.parametrize("case", SERVER, ids=lambda case: case.id)
def test_a_case(case: Case, controls: Controls) -> None:
    result = judge(case, controls.subject(case))
    assert result.verdict == expected(case), result
    assert refusals(result) == ANSWERS.get(case.id, "")
    assert in_order(result), result.trace
    controls.check(case)


@pytest.mark.parametrize("case", [case for case in SERVER if case.id in NOT_KEPT],
                         ids=lambda case: case.id)  # fmt: skip
def test_a_right_peer_keeps_what_ours_does_not(case: Case, controls: Controls) -> None:
    with controls.right(case) as subject:
        result = judge(case, subject)
    assert result.verdict == KEPT, result


def test_each_answer_is_a_cases() -> None:
    assert ANSWERS.keys() - {case.id for case in SERVER} == set()


def test_cases_are_independent_and_leave_nothing(tmp_path: Path) -> None:
    """Of others at the same time, of their order; no queue, link or connection stays."""
    shuffled = random.Random(54).sample(PLAIN, len(PLAIN))
    port = free_port()

    def there() -> list[float]:
        found = scrape(port)
        return [found.sum(f"quiver_server_{name}") for name in ("connections", "links", "queues")]

    with running_server(tmp_path, **OPEN, metrics_port=port) as server:
        target = Target("localhost", server.port, patience=3.0)
        with contextlib.closing(ServerSubject(target)) as subject:
            before = there()
            report = run(shuffled, subject, jobs=8, seconds=120)
            assert subject.stayed == []
            wait_until(lambda: there() == before, f"what was there before: {before}")
    verdicts = {one.case.id: one.verdict for one in report.results}
    assert report.reason is None
    assert verdicts == {case.id: expected(case) for case in PLAIN}


def test_the_relay_changes_nothing_else(controls: Controls) -> None:
    subject = controls.subject(PLAIN[0])
    with MutatingRelay(subject.target.port, None) as relay:
        report = run(PLAIN, subject.through(relay.port), jobs=2, seconds=120)
    assert [one for one in report.results if one.verdict != expected(one.case)] == []


def test_a_server_that_does_not_answer_after_the_cases_is_told_of(controls: Controls) -> None:
    subject = controls.subject(PLAIN[0])
    well = subject.through(subject.target.port)
    well.look_for_harm()
    assert well.stayed == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        harmed = subject.through(silent.getsockname()[1], patience=0.1)
        harmed.stayed = []
        harmed.look_for_harm()
    assert harmed.stayed == [
        "a new connection, after the cases: cannot authenticate: timed out; start it again"
    ]
