"""`quiver-conform`: text, exit codes and limits."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import Certificates
from support.documents import parsed
from support.mutant import MutatingRelay
from support.processes import free_port, wait_until
from support.server import Server, running_server

from buildtools.not_kept import NOT_KEPT
from quiver_fast.cli.conform.command import main
from quiver_fast.conform.cases import CASES
from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.mutation import Mutation, changed, dropped, late
from quiver_fast.conform.program import Program
from quiver_fast.conform.server import introduced
from quiver_fast.conform.wire.frames import Fields, Unexpected, composite

MOVED = "amqp:connection:redirect"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = {"user": "zelda", "password": "hunter2", "max_message_size": 1 << 20}
    with running_server(tmp_path_factory.mktemp("server"), **keys) as one:
        yield one


def url(port: int) -> str:
    return f"//zelda:hunter2@127.0.0.1:{port}"


def test_all_clauses_of_our_server(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    """It breaks those that it does not keep on purpose."""
    others = {case.id: case for case in CASES if case.who == "server" and not_kept(case.id)}
    broken = {name for name, case in others.items() if not case.doubt}
    assert main([url(server.port), "--strict"]) == (len(broken) > 0)
    output, errors = capfd.readouterr()
    assert errors == ""
    lines = output.splitlines()
    place = f"127.0.0.1:{server.port}, SASL SCRAM-SHA-256, PLAIN; queues by dynamic nodes"
    assert re.fullmatch(rf"quiver-conform: quiver-fast \S+ at {place}", lines[0])
    assert {"Transport", "Transactions", "Security"} <= {*lines}
    for verdict, names in (("broken", broken), ("disputed", others.keys() - broken)):
        assert {*re.findall(rf"^(\S+) +\w+ +{verdict} ", output, re.MULTILINE)} == names
        assert f", {len(names)} {verdict}" in lines[-1]


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


def test_the_name_of_a_peer_is_a_short_line() -> None:
    """It stands in lines, tables and pages."""
    told = {"product": "a\n\x1b[31mb" + "z" * 100_000, "version": 3}
    said = introduced(Fields("open", {"properties": told}), "c")
    assert (said["product"], said["version"]) == (r"a \x1b[31mb" + "z" * 49, "3")


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
        (["//h", "--only", ", "], "--only names no clause: ', '"),
        (["csp://h"], "csp is not AMQP"),
        (["http://h"], "http is not AMQP"),
        (["localhost"], "URL 'localhost' has no host: write //localhost"),
        (["//h/q0"], "URL '//h/q0' has a path: a queue is given by --address q0"),
        (["//h", "--patience", "0"], "argument --patience: must be at least 0.01, not 0"),
        (["//u@h"], "a user and a password go together"),
        (["--client"], "--client: the command is missing, as in --client -- COMMAND"),
        (["//h", "--arrow", "pyfast"], "only one of URL, --arrow and --client may be given"),
        (["//h", "--client", "true"], "only one of URL, --arrow and --client may be given"),
        (["--arrow", "pyfast", "--address", "q"], "--address does not go with --arrow"),
        (["--username", "u", "--client", "true"], "--username does not go with --client"),
        (["--list", "--json"], "--json does not go with --list"),
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


def test_a_program_does_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quiver_fast.conform.program._OUTPUT_MAX", 1 << 20)
    program = Program(["yes"], os.environ)
    try:
        assert program.end(60).code == -signal.SIGXFSZ
    finally:
        program.close()


def test_a_certificate_is_a_login(
    tmp_path: Path, certificates: Certificates, capfd: pytest.CaptureFixture[str]
) -> None:
    """By SASL EXTERNAL, which is the only mechanism of this server."""
    server, client, trust = certificates.server, certificates.client, certificates.authority
    with running_server(
        tmp_path, scheme="amqps", **server.keys(), trust_store=trust, sasl_mechanisms="EXTERNAL"
    ) as running:
        words = [f"amqps://localhost:{running.port}", "--trust-store", trust, "--only", "2.6.4/1"]
        assert main([*words, "--cert", client.cert, "--key", client.key]) == 0
        assert ", SASL EXTERNAL; queues by dynamic nodes\n" in capfd.readouterr()[0]


def test_mechanisms_that_do_not_fit(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([f"//127.0.0.1:{server.port}"]) == 1
    errors = capfd.readouterr()[1]
    assert errors.count("\n") == 1
    assert "; no SASL mechanism fits: it offers SCRAM-SHA-256, PLAIN\n" in errors
    assert main([f"//zelda:wrong@127.0.0.1:{server.port}"]) == 1
    line = "cannot authenticate: SCRAM-SHA-256 gets sasl-outcome code=1\n"
    assert capfd.readouterr()[1].endswith(line)


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
    """Of all cases; their frame is not one of the first questions."""
    with MutatingRelay(server.port, late("end", 60)) as relay:
        words = ["--only", "2.5.2/1,2.5.5/1", "--timeout", "5s", "--patience", "20s"]
        assert main([url(relay.port), *words, "--jobs", "1"]) == 1
    output, errors = capfd.readouterr()
    assert output.count("(the time was over)") == 2
    assert errors == "quiver-conform: warning: the time was over\n"


def test_the_limit_of_the_first_questions(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with MutatingRelay(server.port, late("open", 60)) as relay:
        words = ["--timeout", "1s", "--patience", "30s"]
        assert main([url(relay.port), *words]) == 1
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors.endswith(": the first questions took more than 1 s\n")


def test_a_server_that_sends_all_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    """It lets nobody in, so that no clause is broken."""

    def serve() -> None:
        for _ in range(2):
            peer = Talk(listener.accept()[0])
            with peer, contextlib.suppress(EOFError, Unexpected):
                peer.answer_header()
                peer.expect("open")
                peer.send("open", container_id="a")
                peer.send("close", error=composite("error", condition=MOVED))
                peer.until("close")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        assert main([f"//127.0.0.1:{port}"]) == 1
        thread.join()
    output, errors = capfd.readouterr()
    assert output == ""
    assert f": it ends the connection: close error=error(condition={MOVED})\n" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_in_order(number: signal.Signals, tmp_path: Path) -> None:
    """Its program ends, and the files have the verdicts until then."""
    script, pids, junit = tmp_path / "program", tmp_path / "pids", tmp_path / "junit.xml"
    arrow = f"{sys.executable} -m quiver_fast.cli.arrow.command send"
    # The first run serves the first questions.
    script.write_text(
        f"#!/bin/sh\ntrap '' TERM HUP INT\necho $$ >> {pids}\n"
        f"[ $(wc -l < {pids}) = 1 ] && exec {arrow} $1 --count 3\nwhile :; do sleep 1; done\n"
    )
    script.chmod(0o755)
    command = [sys.executable, "-m", "quiver_fast.cli.conform.command", "--junit", str(junit)]
    words = ["--jobs", "2", "--client", "--", str(script), "{url}"]
    run = subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: pids.exists() and len(pids.read_text().splitlines()) > 1, "a case")
    run.send_signal(number)
    assert run.communicate()[1] == "quiver-conform: warning: it was interrupted\n"
    assert run.returncode == 130
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}").exists()
    assert "it was interrupted" in junit.read_text()
