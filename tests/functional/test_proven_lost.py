"""`lost` is proven: the queue was found empty after all messages were in it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.arrows import arguments, run_pyfast
from support.control import controlled
from support.documents import parsed
from support.frame_peer import FramePeer
from support.judgement import assert_clean
from support.keeping_broker import KeepingBroker
from support.processes import Finished, Running, run, wait_until
from support.remote import serving
from support.scripted_peer import ScriptedPeer
from support.server import Server, running_server

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.frames import composite

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
ARROW = (sys.executable, "-m", "quiver_fast.cli.arrow.command")
SECONDS = 60.0
OTHERS = "lost, if neither the server nor another consumer has them"
COUNTS = ("sent", "received", "unreceived", "lost")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def counts(end: Finished) -> tuple[Any, ...]:
    return tuple(parsed(end.stdout)["delivery"][name] for name in COUNTS)


def test_a_commit_that_comes_after_the_drain(tmp_path: Path) -> None:
    """The receiver's drain has its answer before the last transaction has: it proves nothing."""
    words = ["--transaction-size", "1000", "--record-format", "v2", "--rate", "500", "-d", "30s"]
    with KeepingBroker(commits_late=True) as broker:
        url = f"//127.0.0.1:{broker.port}/q0"
        with Running([*QUIVER, url, *words, "--output", str(tmp_path / "out"), "--json"]) as one:
            wait_until(lambda: len(broker.messages) > 300, "messages are sent", SECONDS)
            one.send_signal(signal.SIGINT)
            end = one.wait(SECONDS)
        assert broker.drained
        kept = len(broker.queue)
    sent, received, unreceived, lost = counts(end)
    assert (received, unreceived, lost) == (0, sent, None)
    assert kept == sent
    assert f"{sent} of {sent} messages were not received; it is not known whether" in end.stderr
    again = run([*ANALYZE, str(tmp_path / "out"), "--json"])
    assert parsed(again.stdout)["delivery"]["lost"] is None


@pytest.mark.parametrize("ends", [[], ["--senders", "2", "--receivers", "2"]])
def test_an_interrupted_run_takes_all_that_was_committed(
    server: Server, tmp_path: Path, ends: list[str]
) -> None:
    """The senders end first. Their last commit is before the receivers' drains."""
    url = f"//127.0.0.1:{server.port}/interrupted-{len(ends)}"
    words = [*ends, "--transaction-size", "1000", "--record-format", "v2", "--rate", "500"]
    out = tmp_path / "out"
    with Running([*QUIVER, url, *words, "-d", "30s", "--output", str(out), "--json"]) as one:
        rows = out / ("sender.0-transfers.csv" if ends else "sender-transfers.csv")
        wait_until(lambda: rows.exists() and rows.stat().st_size > 4000, "messages", SECONDS)
        one.send_signal(signal.SIGINT)
        end = one.wait(SECONDS)
    sent, received, *missing = counts(end)
    assert sent == received > 0
    assert missing == [0, 0]
    rest = run([*ARROW, "receive", url, "--exit-when", "empty", "--json"])
    assert parsed(rest.stdout)["results"]["message_count"] == 0
    document = parsed(end.stdout)
    assert document["reason"] == "interrupted by SIGINT"


def test_another_consumer_may_have_them(server: Server, tmp_path: Path) -> None:
    url = f"//127.0.0.1:{server.port}/shared"
    other = arguments("receive", server.port, path="shared", count=100, credit_window=10,
                      time_unit="us")  # fmt: skip
    with controlled(tmp_path, *other) as arrow:
        arrow.wait_ready()
        words = ["-c", "1000", "--rate", "1k", "--record-format", "v2", "--drain-timeout", "1s"]
        end = run([*QUIVER, url, *words, "--output", str(tmp_path / "out"), "--json"])
        taken, _ = arrow.end()
    assert_clean(taken)
    assert counts(end) == (1000, 900, 100, 100)
    assert f"100 of 1,000 messages were not received; 100 of them are {OTHERS}\n" in end.stderr
    text = run([*ANALYZE, str(tmp_path / "out"), "--html", str(tmp_path / "page.html")])
    assert text.code == 0
    assert f"100 {OTHERS}" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("drains", [True, False])
def test_a_broker_that_keeps_messages(tmp_path: Path, drains: bool) -> None:
    """Its word alone says that the queue is empty; without it a gap in the ids proves nothing."""
    with KeepingBroker(keeps=range(40, 55), drains=drains) as broker:
        end = run([*QUIVER, f"//127.0.0.1:{broker.port}/q0", "-c", "100", "--record-format", "v2",
                   "--drain-timeout", "1s", "--fail-if", "lost>0", "--fail-if", "inconclusive",
                   "--json"])  # fmt: skip
    assert counts(end) == (100, 85, 15, 15 if drains else None)
    if drains:
        assert f"15 of 100 messages were not received; 15 of them are {OTHERS}\n" in end.stderr
        assert end.code == 99
    else:
        assert "15 of 100 messages were not received; it is not known whether they" in end.stderr
        assert "--fail-if lost>0 is inconclusive: 15 unreceived messages may be" in end.stderr
        assert end.code == 98


@pytest.mark.parametrize("behind", [True, False])
def test_two_arrows_by_hand(server: Server, tmp_path: Path, behind: bool) -> None:
    """The clock that both have tells whether the queue was drained after the sender ended."""
    url = f"//127.0.0.1:{server.port}/by-hand-{behind}"
    ways = {"send": ["-c", "100"], "receive": ["--exit-when", "empty"]}
    for operation in ("send", "receive") if behind else ("receive", "send"):
        end = run([*ARROW, operation, url, *ways[operation], "--record-format", "v2", "--output",
                   str(tmp_path), "--force"])  # fmt: skip
        assert end.code == 0, end.stderr
        if behind and operation == "send":
            # Somebody takes ten of them.
            run([*ARROW, "receive", url, "-c", "10", "--output", str(tmp_path / "other")])
    end = run([*ANALYZE, str(tmp_path / "sender-transfers.csv.zst"),
               str(tmp_path / "receiver-transfers.csv.zst"), "--json"])  # fmt: skip
    one = parsed(end.stdout)
    found = tuple(one["delivery"][name] for name in COUNTS)
    assert found == ((100, 90, 10, 10) if behind else (100, 0, 100, None))


def test_messages_that_expire_are_not_lost(server: Server, tmp_path: Path) -> None:
    url = f"//127.0.0.1:{server.port}/expired"
    end = run([*QUIVER, url, "-c", "200", "--ttl", "1", "--receive-delay", "20ms", "--credit", "1",
               "--drain-timeout", "1s", "--record-format", "v2", "--json"])  # fmt: skip
    sent, received, unreceived, lost = counts(end)
    assert (sent, received + unreceived) == (200, 200)
    assert unreceived > 0
    assert lost is None


@pytest.mark.parametrize("answered", [True, False])
def test_a_settled_message_has_arrived_when_the_peer_answers_the_close(
    tmp_path: Path, answered: bool
) -> None:
    """Before that it may still be in the socket."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=composite("target", address="queue0"))
        talk.give_credit(10)
        talk.read_until("end")
        talk.send("end")
        talk.read_until("close")
        if answered:
            talk.send("close")
        talk.read_to_end()

    with FramePeer(script) as peer:
        words = arguments("send", peer.port, presettled=1, count=10)
        with controlled(tmp_path, *words) as arrow:
            _, report = arrow.end()
    assert (report["sent"], report["settled_at"] is not None) == (10, answered)


def test_an_outcome_that_is_missing_leaves_it_open(tmp_path: Path) -> None:
    """A message without an outcome, and one in a transaction that was refused, may yet come."""
    outcome = {"outcome": lambda number: "held" if number == 3 else "accepted"}
    with (
        ScriptedPeer(**outcome) as peer,
        controlled(tmp_path, *arguments("send", peer.port, count=0, rate=100)) as arrow,
    ):
        wait_until(lambda: peer.transferred > 5, "messages are sent", SECONDS)
        arrow.running.send_signal(signal.SIGINT)
        _, report = arrow.end()
    assert report["unsettled"] > 0
    assert report["settled_at"] is None


def test_a_released_message_is_back_in_the_queue(tmp_path: Path) -> None:
    """It is worked on when the drain is answered, and released afterwards."""
    words = {"count": 0, "release": "50%", "receive_delay": 300_000, "credit_window": 10}
    with (
        KeepingBroker() as broker,
        controlled(tmp_path, *arguments("receive", broker.port, **words)) as arrow,
    ):
        arrow.wait_ready()
        for sent in range(1, 3):
            assert_clean(run_pyfast(*arguments("send", broker.port, count=1)))
            if sent == 1:
                wait_until(lambda: len(broker.outcomes) == 1, "the first is accepted", SECONDS)
        arrow.say("stop")
        _, report = arrow.end()
    assert (report["received"], report["released"]) == (1, 1)
    assert (report["queue_empty"], report["drained_at"]) == (False, None)


def test_a_queue_of_csp(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as port:
        end = run([*QUIVER, f"csp://127.0.0.1:{port}/q", "-c", "100", "--json"])
    assert counts(end) == (100, 100, 0, 0)
    document = parsed(end.stdout)
    assert document["sender"]["arrow"]["settled_at"]["ns"] > 0
