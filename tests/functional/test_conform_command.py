"""`quiver-conform`: text, exit codes and limits."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest
from support.documents import parsed
from support.mutant import MutatingRelay
from support.processes import free_port
from support.server import Server, running_server

from buildtools.not_kept import NOT_KEPT
from quiver_fast.cli.conform.command import main
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.mutation import Mutation, changed, dropped, late


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server"), user="zelda", password="hunter2") as one:
        yield one


def url(port: int) -> str:
    return f"//zelda:hunter2@127.0.0.1:{port}"


def test_all_clauses_of_our_server(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    """It breaks those that it does not keep on purpose."""
    broken = {case.id for case in CASES if case.who == "server" and not_kept(case.id)}
    assert main([url(server.port), "--strict"]) == (len(broken) > 0)
    output, errors = capfd.readouterr()
    assert errors == ""
    lines = output.splitlines()
    place = f"127.0.0.1:{server.port}, SASL SCRAM-SHA-256, PLAIN; queues by dynamic nodes"
    assert re.fullmatch(rf"quiver-conform: quiver-fast \S+ at {place}", lines[0])
    assert {"Transport", "Transactions", "Security"} <= {*lines}
    assert {*re.findall(r"^(\S+) +\w+ +broken ", output, re.MULTILINE)} == broken
    assert re.fullmatch(
        rf"\d+ clauses: \d+ kept, {len(broken)} broken.*, 0 disputed, .*", lines[-1]
    )


def not_kept(name: str) -> bool:
    row = NOT_KEPT.get(name)
    return row is not None and row.who in ("server", "both")


@pytest.mark.parametrize("words", [[], ["--verbose"]])
def test_a_broken_clause_shows_its_frames(
    server: Server, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with MutatingRelay(server.port, changed("detach", closed=None)) as relay:
        assert main([url(relay.port), "--only", "2.6.6/1,2.6.4/1", *words]) == 1
    output, _ = capfd.readouterr()
    assert re.search(r"^2\.6\.6/1 +MUST +broken +A detach that says closed ", output, re.MULTILINE)
    assert "    expected   detach closed=true error=null\n" in output
    assert "    found      detach handle=0\n" in output
    assert re.search(r"^    1? ?<- detach handle=0$", output, re.MULTILINE)
    assert output.endswith(
        "2 clauses: 1 kept, 1 broken (1 MUST), 0 disputed, 0 not observable here\n"
    )
    assert "hunter2" not in output


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(dropped("attach"), "no such frame in 0.2 s"), (dropped("begin"), "cannot begin a session: ")],
)
def test_a_step_that_prepares_does_not_judge(
    server: Server, capfd: pytest.CaptureFixture[str], fault: Mutation, reason: str
) -> None:
    with MutatingRelay(server.port, fault) as relay:
        words = ["--only", "2.6.6", "--address", "q0", "--patience", "200ms"]
        assert main([url(relay.port), *words]) == 0
    output, _ = capfd.readouterr()
    assert re.search(rf"^2\.6\.6/1 +MUST +unobservable .*{reason}", output, re.MULTILINE), output


def test_the_list(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "2.6.4/1,2.6.6"]) == 0
    output, _ = capfd.readouterr()
    assert re.findall(r"^(\S+)", output, re.MULTILINE) == ["2.6.6/1", "2.6.4/1"]
    assert main(["--list", "--only", "2.6.4/1,2.6.6", "--verbose"]) == 0
    assert "fails if its detach lacks closed\n" in capfd.readouterr()[0]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "URL is missing"),
        (["--only", "2.99", "//h"], "there is no clause 2.99; the nearest is "),
        (["csp://h"], "csp is not AMQP"),
        (["//u@h"], "a user and a password go together"),
        (["--client"], "--client: the command is missing, as in --client -- COMMAND"),
        (["//h", "--arrow", "pyfast"], "only one of URL, --arrow and --client may be given"),
        (["//h", "--client", "true"], "only one of URL, --arrow and --client may be given"),
        (["--arrow", "nobody"], "no implementation 'quiver-arrow-nobody' found"),
    ],
)
def test_usage(words: list[str], line: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors.startswith(f"quiver-conform: error: {line}")


def test_the_list_of_arrows(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--arrow", "pyfast", "--only", "2.7.1/1,contract.links/1"]) == 0
    output, _ = capfd.readouterr()
    assert re.findall(r"^(\S+) +(\S+) ", output, re.MULTILINE) == [
        ("2.7.1/1", "MUST"), ("contract.links/1", "contract"),
    ]  # fmt: skip


def test_an_arrow(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--arrow", "pyfast", "--only", "2.7.1/1,contract.links", "--json"]) == 0
    output, errors = capfd.readouterr()
    assert errors.startswith("quiver-conform: pyfast, contract v1, v2, v3\n\nTransport\n")
    document = parsed(output)
    assert document["subject"] == {
        "kind": "arrow", "name": "pyfast", "product": "pyfast", "version": None, "place": None,
        "queues": None, "mechanisms": None,
    }  # fmt: skip
    assert {one["who"] for one in document["clauses"]} == {"client", "arrow"}


@pytest.mark.parametrize("mark", [[], ["--"]])
def test_a_client(mark: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Its options are its own, also those that ours has."""
    command = [sys.executable, "-m", "quiver_fast.cli.arrow.command", "send", "{url}"]
    words = [*mark, *command, "--count", "1", "--verbose"]
    assert main(["--only", "2.7.1/1,2.7.4/5", "--client", *words]) == 0
    output, _ = capfd.readouterr()
    assert re.search(r"^2\.7\.1/1 +MUST +kept ", output, re.MULTILINE)
    assert re.search(r"^2\.7\.4/5 +MUST +unobservable .*\(it does not receive\)$", output,
                     re.MULTILINE)  # fmt: skip


def test_a_client_that_does_not_connect(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--client", "true"]) == 1
    output, errors = capfd.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert errors.startswith("quiver-conform: error: true: ")


def test_a_server_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert main([f"//127.0.0.1:{port}"]) == 1
    line = f"quiver-conform: error: //127.0.0.1:{port}: cannot connect: Connection refused\n"
    assert capfd.readouterr() == ("", line)


def test_the_limit_of_time(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    with MutatingRelay(server.port, late("begin", 1.2)) as relay:
        words = ["--only", "2.5.1/1,2.7.4/2", "--timeout", "1s", "--jobs", "1"]
        assert main([url(relay.port), *words]) == 1
    output, errors = capfd.readouterr()
    assert output.count("(the time was over)") == 2
    assert errors == "quiver-conform: warning: the time was over\n"
