"""Our server under go-amqp, rhea and python-qpid-proton: what each can ask for beyond arrows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.client_suites import CASES, NAMES, WORDS, documented
from support.server import Server, running_server
from support.suites import Answer, commands, run_cases


def marked(name: str, *values: str) -> Any:
    """Return the parameters of a test that wants a client."""
    return pytest.param(name, *values, marks=pytest.mark.peer(name))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all clients; each case has addresses of its own."""
    directory = tmp_path_factory.mktemp("clients")
    with running_server(directory, store=directory / "store") as server:
        yield server


@pytest.fixture(scope="module")
def suites() -> dict[str, dict[str, Answer]]:
    """The answers of each client's suite, which runs once."""
    return {}


def answers(suites: dict[str, dict[str, Answer]], server: Server, client: str) -> dict[str, Answer]:
    """Return the output of a client's suite; it runs once for all its cases."""
    if client not in suites:
        suites[client] = run_cases([*commands()[client], str(server.port)])
    return suites[client]


@pytest.mark.parametrize(
    ("client", "case"), [marked(client, case) for client, names in CASES.items() for case in names]
)
def test_case(suites: dict[str, dict[str, Answer]], server: Server, client: str, case: str) -> None:
    answer = answers(suites, server, client)[case]
    assert answer.gives == "yes", answer.says


@pytest.mark.parametrize("client", [marked(client) for client in CASES])
def test_each_case_has_a_name_here(
    suites: dict[str, dict[str, Answer]], server: Server, client: str
) -> None:
    assert tuple(answers(suites, server, client)) == CASES[client]


def test_the_table_is_of_these_suites() -> None:
    """Its rows are the cases; those of our server are all given, as the tests here say."""
    assert [row[:3] for row in documented()] == [
        (NAMES[client], case, WORDS[case]) for client, cases in CASES.items() for case in cases
    ]
    assert {row.ours for row in documented()} == {"yes"}
    assert {row.artemis for row in documented()} <= {"yes", "no"}
