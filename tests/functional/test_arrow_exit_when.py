"""`--exit-when empty`: a receiver takes what is in its queue, and ends when that is empty."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.arrows import arguments, run_pyfast
from support.documents import parsed
from support.judgement import assert_clean
from support.pages_peer import Pages
from support.processes import run
from support.scripted_peer import ScriptedPeer
from support.server import Server, running_server

ARROW = (sys.executable, "-m", "quiver_fast.cli.arrow.command")
PAIR = (sys.executable, "-m", "quiver_fast.cli.pair.command")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def received(port: int, report: Path, **keys: object) -> dict[str, Any]:
    """Receive until the queue is empty, and return the arrow's report."""
    words = arguments(
        "receive", port, **({"count": 0, "exit_when": "empty", "report_file": report} | keys)
    )
    end = run_pyfast(*words)
    assert_clean(end)
    found: dict[str, Any] = parsed(report.read_text())
    assert len(end.stdout.splitlines()) == found["received"]
    return found


@pytest.mark.parametrize("left", [0, 1, 49, 50, 51, 1000])
def test_all_that_is_there(server: Server, tmp_path: Path, left: int) -> None:
    """Also where the credit is used up by the last message, so that a drain has no answer yet."""
    if left:
        assert_clean(run_pyfast(*arguments("send", server.port, count=left)))
    for expected in (left, 0):
        report = received(server.port, tmp_path / "report", credit_window=50)
        assert (report["received"], report["queue_empty"]) == (expected, True)


def test_a_count_and_transactions_hold_as_well(server: Server, tmp_path: Path) -> None:
    assert_clean(run_pyfast(*arguments("send", server.port, count=100)))
    first = received(server.port, tmp_path / "report", credit_window=30, count=75)
    assert first["received"] == 75
    rest = received(server.port, tmp_path / "report", credit_window=30, transaction_size=7)
    assert (rest["received"], rest["queue_empty"]) == (25, True)


def test_a_peer_that_gives_credit_back_after_each_page(tmp_path: Path) -> None:
    """Only a drain without a message proves that the queue is empty."""
    with Pages(to_send=53) as peer:
        report = received(peer.port, tmp_path / "report")
    assert (report["received"], report["queue_empty"]) == (53, True)


def test_a_peer_that_knows_no_drain_is_given_up(tmp_path: Path) -> None:
    """proton's link does not answer a drain by itself: then silence tells the end."""
    with ScriptedPeer(to_send=70) as peer:
        report = received(peer.port, tmp_path / "report")
    assert (report["received"], report["queue_empty"]) == (70, False)


@pytest.mark.parametrize("left", [0, 20])
def test_the_command_succeeds(server: Server, left: int) -> None:
    """Also where there was nothing, unlike other receivers."""
    url = f"//127.0.0.1:{server.port}/command"
    if left:
        assert run([*ARROW, "send", url, "--count", str(left)]).code == 0
    end = run([*ARROW, "receive", url, "--exit-when", "empty", "--json"])
    assert end.code == 0, end
    summary = parsed(end.stdout)
    assert (summary["complete"], summary["results"]["message_count"]) == (True, left)
    assert (summary["config"]["exit_when"], summary["arrow"]["queue_empty"]) == ("empty", True)


def test_a_pair_ends_so_anyhow(server: Server) -> None:
    url = f"//127.0.0.1:{server.port}/pair"
    end = run([*PAIR, url, "--exit-when", "empty", "--rate", "500", "--duration", "1s", "--json"])
    assert end.code == 0, end
    document = parsed(end.stdout)
    assert document["workload"]["exit-when"] == "empty"
    assert document["receiver"]["arrow"]["queue_empty"] is True
