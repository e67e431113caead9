"""`purge=1`: whatever is in a queue goes, without a record, and the arrow ends when it is empty."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.clients import Clients
from support.documents import parsed
from support.judgement import assert_clean, assert_error
from support.processes import Running, wait_until
from support.scripted_peer import ScriptedPeer, detach
from support.server import running_server


def purge(port: int, report: Path, **keys: object) -> dict[str, object]:
    """Purge a queue, and return the arrow's report; there are no records."""
    words = arguments("receive", port, count=0, purge=1, report_file=report, **keys)
    end = run_pyfast(*words)
    assert_clean(end)
    assert end.stdout == ""
    read: dict[str, object] = parsed(report.read_text())
    assert read["complete"] is True
    return read


@pytest.mark.parametrize("left", [0, 1, 49, 50, 51, 1000])
def test_all_of_a_backlog(tmp_path: Path, left: int) -> None:
    """Also where the window is used up by the last message, so that a drain has no answer yet."""
    with running_server(tmp_path) as server:
        if left:
            assert_clean(run_pyfast(*arguments("send", server.port, count=left)))
        for expected in (left, 0):
            report = purge(server.port, tmp_path / "report", credit_window=50)
            assert (report["purged"], report["queue_empty"]) == (expected, True)


def test_messages_of_any_kind(tmp_path: Path) -> None:
    """Messages that no arrow sends: no SendTime, no body, large bodies."""
    with running_server(tmp_path) as server, Clients(server.port) as clients:
        producer = clients.producer(clients.connect(), "queue0")
        producer.publish("text", None, {"a": [1, 2]}, b"x" * 3_000_000)
        assert purge(server.port, tmp_path / "report")["purged"] == 4


def test_without_purge_nothing_goes(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        assert_clean(run_pyfast(*arguments("send", server.port, count=20)))
        assert_clean(run_pyfast(*arguments("receive", server.port, count=5)))
        assert purge(server.port, tmp_path / "report")["purged"] == 15


def test_a_peer_that_knows_no_drain_is_given_up(tmp_path: Path) -> None:
    """proton's link does not answer a drain by itself: then silence tells the end."""
    with ScriptedPeer(to_send=70) as peer:
        report = purge(peer.port, tmp_path / "report")
    assert (report["purged"], report["queue_empty"]) == (70, False)
    assert peer.transferred == 70


def test_a_peer_that_leaves(tmp_path: Path) -> None:
    with ScriptedPeer(after=20, act=detach, to_send=60) as peer:
        words = arguments("receive", peer.port, count=0, purge=1)
        assert_error(run_pyfast(*words), "amqp:resource-limit-exceeded", "the queue is full")


def test_a_signal_ends_it(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with ScriptedPeer(to_send=2**40) as peer:
        words = arguments("receive", peer.port, count=0, purge=1, report_file=report)
        with Running(pyfast(*words)) as running:
            wait_until(lambda: peer.transferred > 100, "messages are purged")
            running.send_signal(signal.SIGINT)
            end = running.wait()
    assert end.code == 130
    assert parsed(report.read_text())["purged"] >= 100


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (arguments("send", 1, purge=1), "purge needs operation=receive"),
        (arguments("receive", 1, scheme="csp", purge=1), "does not go with purge"),
        (arguments("receive", 1, purge="yes"), "purge"),
    ],
)
def test_misuse(words: list[str], says: str) -> None:
    assert_error(run_pyfast(*words), says, code=2)
