"""`quiver --hold`: idle connections that are kept."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.documents import parsed
from support.processes import Finished, Running, free_port, wait_until
from support.server import Server, running_server

from quiver_fast.cli.pair.command import main

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
SECONDS = 60
COUNT = 20


def words_for(port: int, *words: str) -> list[str]:
    return [f"amqp://localhost:{port}/queue0", "--hold", str(COUNT), "--json", *words]


def holding(server: Server) -> bool:
    """Say whether the server has all connections."""
    open_ones = server.process.net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED for one in open_ones) == COUNT


def end_of_hold(server: Server, end_it: Any) -> tuple[Finished, dict[str, Any]]:
    """Hold until ``end_it`` is called with the running process, and return how it ended."""
    with Running([*QUIVER, *words_for(server.port, "--duration", "60s")]) as running:
        wait_until(lambda: holding(server), "all are open")
        end_it(running)
        end = running.wait(SECONDS)
    return end, parsed(end.stdout)


def test_all_are_kept_by_heartbeats_and_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server gives up who is silent for a second, and ends only if all have closed."""
    out = tmp_path / "out"
    with running_server(tmp_path, idle_timeout=1) as server:
        assert main(words_for(server.port, "--duration", "3s", "--output", str(out))) == 0
        document = parsed(capsys.readouterr().out)
        assert document["server"]["pid"] == server.running.process.pid
        assert not holding(server)
    assert document == parsed((out / "hold.json").read_text())
    assert document["opening"]["opened"] == document["opening"]["latency"]["count"] == COUNT
    assert document["holding"]["lost"] == document["opening"]["failed"] == 0
    assert (document["failures"], document["losses"]) == ([], [])
    assert document["own"]["pid"] == os.getpid()


def test_each_part_has_its_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The costs of all parts together are the growth of the server, within 5 %."""
    words = ("--sessions", "2", "--links", "3", "--duration", "1s")
    with running_server(tmp_path) as server:
        count = 300
        assert main(words_for(server.port, "--hold", str(count), *words)) == 0
        document = parsed(capsys.readouterr().out)
    parts, costs = document["parts"], document["server"]
    assert [(one["of"], one["opened"]) for one in parts] == [
        ("connection", count),
        ("session", 2 * count),
        ("link", 6 * count),
    ]
    assert all(one["memory_each"] > 0 for one in parts)
    together = sum(one["memory_each"] * one["opened"] for one in parts)
    assert together == pytest.approx(costs["memory_end"] - costs["memory_begin"], rel=0.05)
    assert document["holding"]["lost"] == document["opening"]["failed"] == 0


def test_a_part_that_is_refused_loses_its_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--sessions", "10000", "--duration", "60s")
    with running_server(tmp_path) as server:
        assert main(words_for(server.port, *words)) == 1
        document = parsed(capsys.readouterr().out)
    assert document["holding"]["lost"] == COUNT
    assert document["parts"][1]["opened"] == 0
    (loss,) = document["losses"]
    assert loss["reason"].startswith("the peer allows ")


def test_a_port_that_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words_for(free_port(), "--duration", "60s")) == 1
    said = capsys.readouterr()
    document = parsed(said.out)
    reason = "cannot connect: Connection refused"
    assert document["failures"] == [{"reason": reason, "count": COUNT}]
    assert (document["opening"]["opened"], document["server"]) == (0, None)
    assert document["own"]["memory_each"] is None
    assert said.err.splitlines()[-1] == (
        f"quiver: error: {COUNT} of {COUNT} connections were not opened, {COUNT} of them so: "
        f"{reason}"
    )


def test_a_server_that_ends_loses_them_all(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        end, document = end_of_hold(server, lambda _: server.end())
    assert end.code == 1
    assert document["holding"]["lost"] == COUNT
    assert sum(one["count"] for one in document["losses"]) == COUNT
    assert f"{COUNT} of {COUNT} connections were lost" in end.stderr.splitlines()[-1]


def test_a_signal_ends_it_with_the_counts_so_far(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        end, document = end_of_hold(server, lambda quiver: quiver.send_signal(signal.SIGINT))
    assert end.code == 130
    assert document["reason"] == "interrupted by SIGINT"
    # The server has all connections; their open frames may be on their way.
    assert 0 <= document["opening"]["opened"] <= COUNT
    assert document["holding"]["lost"] == 0
