"""Our server under Qpid JMS: each case of tests/interop/jms, and the table that says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import jms
from support.server import running_server
from support.suites import Answer


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Answer]]:
    """The suite's answer for each case."""
    directory = tmp_path_factory.mktemp("jms")
    with running_server(directory, **jms.options(directory)) as server:
        yield jms.run_suite(server.port)


@pytest.mark.peer("jms")
@pytest.mark.parametrize("case", jms.CASES)
def test_case(answers: dict[str, Answer], case: str) -> None:
    """The suite's answers are those of docs/server.md, and refusals have a reason."""
    answer = answers[case]
    assert answer.gives == jms.documented()[case].ours, answer.says


def test_the_table_is_of_this_suite() -> None:
    rows = jms.documented()
    assert {case: row.expects for case, row in rows.items()} == jms.CASES
    assert len(jms.CASES) >= 40


def test_nothing_is_claimed_and_not_kept() -> None:
    """Our server gives a case or refuses it in words; nothing goes wrong in silence."""
    assert {row.ours for row in jms.documented().values()} <= {"yes", "refused"}
