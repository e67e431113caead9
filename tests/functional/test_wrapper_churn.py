"""`quiver --churn`: connections, sessions and links that come and go."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from proton import Condition
from support.certificates import Certificates
from support.documents import parsed
from support.processes import Running, free_port, wait_until
from support.scripted_peer import (
    NeverAttaches,
    RefusesConnection,
    RefusesLink,
    ScriptedPeer,
    close_connection,
)
from support.server import Server, running_server

from quiver_fast.cli.pair.command import main

Churn = Callable[..., tuple["Ended", dict[str, Any]]]
QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
SECONDS = 60
OPENING = ["tcp", "sasl", "open"]


@pytest.fixture(name="server", scope="module")
def server_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("churn")) as server:
        yield server


@dataclass(frozen=True)
class Ended:
    """How a command ended that ran in this process."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture(name="churn")
def churn_here(capsys: pytest.CaptureFixture[str]) -> Churn:
    def churn(port: int, *words: str, scheme: str = "amqp") -> tuple[Ended, dict[str, Any]]:
        url = f"{scheme}://localhost:{port}/queue0"
        code = main([url, "--churn", "50", "--duration", "1s", "--json", *words])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err), parsed(said.out)

    return churn


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("connection", [*OPENING, "begin", "attach", "message", "close"]),
        ("session", ["begin", "attach", "message", "close"]),
        ("link", ["attach", "message", "close"]),
    ],
)
def test_each_kind_comes_and_goes(
    server: Server, churn: Churn, tmp_path: Path, kind: str, steps: list[str]
) -> None:
    end, document = churn(server.port, "--churn-of", kind, "--output", str(tmp_path / "out"))
    assert end.code == 0, end
    assert document == parsed((tmp_path / "out" / "churn.json").read_text())
    assert document["attempts"] == {"due": 50, "begun": 50, "succeeded": 50, "failed": 0}
    assert (document["of"], document["rate"], document["failures"]) == (kind, 50, [])
    assert [one["step"] for one in document["steps"]] == steps
    assert {one["latency"]["count"] for one in document["steps"]} == {50}
    assert document["achieved_rate"] == pytest.approx(50 / document["elapsed_seconds"])
    assert document["server"]["pid"] == server.running.process.pid
    assert document["server"]["memory_end"] > 0
    lines = end.stderr.splitlines()
    assert [line.split()[0] for line in lines[lines.index("STEPS") + 3 :][: len(steps) + 1]] == [
        *steps,
        "all",
    ]


def test_tls_and_credentials(churn: Churn, certificates: Certificates, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    words = ("--trust-store", str(certificates.authority), "--username", "ada", "--password-file",
             str(tmp_path / "password"), "--body-size", "10..5000")  # fmt: skip
    keys = {**certificates.server.keys(), "user": "ada", "password": "secret"}
    with running_server(tmp_path, scheme="amqps", **keys) as server:
        end, document = churn(server.port, *words, scheme="amqps")
        assert end.code == 0, end
        assert [one["step"] for one in document["steps"]][:4] == ["tcp", "tls", "sasl", "open"]
        (tmp_path / "password").write_text("wrong\n")
        end, document = churn(server.port, *words, scheme="amqps")
    assert end.code == 1
    # Those beyond the attempts that may wait at once are told to come again.
    assert sum(failure["count"] for failure in document["failures"]) == 50
    reasons = [failure["reason"] for failure in document["failures"]]
    assert any("credentials were refused" in reason for reason in reasons)
    assert "secret" not in end.stdout


@pytest.mark.parametrize("kind", ["connection", "link"])
def test_a_port_that_refuses(churn: Churn, kind: str) -> None:
    end, document = churn(free_port(), "--churn-of", kind)
    assert end.code == 1
    assert document["attempts"] == {"due": 50, "begun": 50, "succeeded": 0, "failed": 50}
    reason = "cannot connect: Connection refused"
    assert document["failures"] == [{"reason": reason, "count": 50}]
    assert (document["latency"], document["steps"], document["server"]) == (None, [], None)
    assert end.stderr.splitlines()[-1] == (
        f"quiver: error: 50 of 50 attempts failed, 50 of them so: {reason}"
    )


def never_attaches() -> NeverAttaches:
    """Return a peer that has the attempts wait, and wants to hear of them meanwhile."""
    peer = NeverAttaches()
    # We speak twice in that time; a loaded machine may keep us from it for a second.
    peer.idle_timeout = 2
    return peer


@pytest.mark.parametrize(
    ("peer", "words", "failed", "reason"),
    [
        (
            ScriptedPeer(outcome=lambda number: "accepted" if number % 5 else "rejected"),
            ("--churn-of", "session"),
            10,
            "the message was rejected: amqp:precondition-failed: not today",
        ),
        (
            RefusesLink(),
            ("--churn-of", "link"),
            50,
            "the peer detached the link: amqp:not-found: no such queue here",
        ),
        (never_attaches(), ("--timeout", "3"), 50, "the peer did not attach the link in time"),
        (
            RefusesConnection(Condition("amqp:not-allowed", "go away")),
            ("--churn-of", "connection"),
            50,
            "the peer closed the connection: amqp:not-allowed: go away",
        ),
    ],
    ids=["outcome", "link", "silence", "connection"],
)
def test_a_failure_is_counted_and_the_schedule_goes_on(
    churn: Churn, peer: ScriptedPeer, words: tuple[str, ...], failed: int, reason: str
) -> None:
    with peer:
        end, document = churn(peer.port, *words)
    assert end.code == 1
    attempts = {"due": 50, "begun": 50, "succeeded": 50 - failed, "failed": failed}
    assert document["attempts"] == attempts
    assert document["failures"] == [{"reason": reason, "count": failed}]


def test_a_connection_that_is_lost_is_opened_again(churn: Churn) -> None:
    with ScriptedPeer(after=10, act=close_connection) as peer:
        end, document = churn(peer.port, "--churn-of", "link")
    assert end.code == 1
    # Links under way failed with it: the tenth, and on a slow machine some more.
    attempts = document["attempts"]
    assert attempts["succeeded"] + attempts["failed"] == attempts["begun"] == 50
    assert attempts["succeeded"] > 9
    [failure] = document["failures"]
    assert failure["reason"] == (
        "the peer closed the connection: amqp:connection:forced: going down for repair"
    )


def test_a_signal_ends_it_with_the_counts_so_far(server: Server, tmp_path: Path) -> None:
    url = f"amqp://localhost:{server.port}/queue0"
    words = ("--churn", "100", "--duration", "60s", "--output", str(tmp_path / "out"), "--json")
    before = server.process.cpu_times().user
    with Running([*QUIVER, url, *words]) as running:
        wait_until(lambda: server.process.cpu_times().user > before, "connections come")
        running.send_signal(signal.SIGINT)
        end = running.wait(SECONDS)
    assert end.code == 130
    document = parsed(end.stdout)
    assert document["reason"] == "interrupted by SIGINT"
    assert document["attempts"]["due"] < 6000
    assert document == parsed((tmp_path / "out" / "churn.json").read_text())
    assert end.stderr.splitlines()[-1].endswith("the churn was not over")
