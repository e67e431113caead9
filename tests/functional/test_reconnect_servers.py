"""Arrows that go on while servers are killed, started again or replaced."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from support.certificates import Certificates
from support.control import controlled
from support.frame_peer import SECONDS
from support.lasting import finished, lasting, lives, numbers
from support.network import Proxy, reset
from support.processes import Running, free_port, wait_until
from support.server import running_server

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.frames import composite
from quiver_fast.records.formats import IDS_OF_AN_END

PIDFD_GETFD = 438


def test_a_pair_through_a_killed_server(tmp_path: Path) -> None:
    """Its document agrees with the records: what is acknowledged was received, or is missing."""
    port = free_port()
    words = [f"//127.0.0.1:{port}/queue0", "--reconnect", "--resend", "--rate", "2k", "--json"]
    words += ["--duration", "3s", "--output", str(tmp_path / "out"), "--senders", "2"]
    command = [sys.executable, "-m", "quiver_fast.cli.pair.command", *words]
    sizes = lambda: sum(one.stat().st_size for one in (tmp_path / "out").glob("sender*csv"))  # noqa: E731
    with running_server(tmp_path, port=port) as server, Running(command) as running:
        wait_until(lambda: (tmp_path / "out").exists() and sizes() > 20_000, "messages were sent")
        server.kill()
        with running_server(tmp_path, port=port):
            end = running.wait(SECONDS)
    assert end.code == 0, end
    document = json.loads(end.stdout)
    ledger = document["ledger"]
    assert ledger["due"] == 6000
    # On a busy machine the last ones are late, and the duration is over.
    acknowledged = ledger["acknowledged_received"] + ledger["acknowledged_unreceived"]
    assert acknowledged + ledger["never_sent"] == 6000
    assert ledger["lost"] == ledger["acknowledged_unreceived"]
    assert (ledger["duplicate"], ledger["in_doubt_unreceived"]) == (0, 0)
    assert len(ledger["failures"]) == 1


def test_each_connection_has_tls_of_its_own(certificates: Certificates, tmp_path: Path) -> None:
    """A peer without TLS is an attempt that failed."""
    report, port = tmp_path / "report", free_port()
    ours = {"scheme": "amqps", "host": "localhost", "trust_store": certificates.authority}
    theirs = {"scheme": "amqps", "port": port, **certificates.server.keys()}
    with (
        running_server(tmp_path, **theirs) as server,
        Running(lasting("send", port, report, rate=1000, count=2000, **ours)) as running,
    ):
        wait_until(lambda: len(running.stdout_so_far()) > 1000, "messages were sent")
        server.kill()
        with socket.create_server(("127.0.0.1", port)) as impostor:
            peer, _ = impostor.accept()
            with peer:
                peer.sendall(b"AMQP\x00\x01\x00\x00")
        with running_server(tmp_path, **theirs):
            found = finished(running, report, sends=True)
    assert found.failures[0]["attempts"] >= 2
    assert set(found.told("in_doubt")) == found.ledger.in_doubt


def test_the_next_place_in_turns(tmp_path: Path) -> None:
    """The first place is gone: the second one takes the rest, and the report names it."""
    report = tmp_path / "report"
    with running_server(tmp_path) as one, running_server(tmp_path) as other:
        words = lasting(
            "send", one.port, report, rate=1000, count=2000, failover=f"127.0.0.1:{other.port}"
        )
        with Running(words) as running:
            wait_until(lambda: len(running.stdout_so_far()) > 1000, "messages were sent")
            one.kill()
            found = finished(running, report, sends=True)
    (failure,) = found.failures
    assert failure["place"] == f"127.0.0.1:{other.port}"
    assert found.report["peer"]["port"] == other.port
    assert set(found.told("in_doubt")) == found.ledger.in_doubt


@pytest.mark.parametrize(
    "keys",
    [
        {}, {"resend": 1}, {"transaction_size": 20}, {"transaction_size": 20, "resend": 1},
        {"connections": 8, "links": 2}, {"connections": 8, "links": 2, "resend": 1},
        {"body_size": 200_000, "resend": 1, "rate": 300},
    ],
    ids=str,
)  # fmt: skip
def test_a_server_that_is_killed_and_started_again(keys: dict[str, int], tmp_path: Path) -> None:
    """Records by id agree with the failures that are told."""
    report = tmp_path / "report"
    port = free_port()
    keys = {"rate": 4000, "count": 0, "duration": 3, **keys}
    with (
        running_server(tmp_path, port=port) as server,
        Running(lasting("send", port, report, **keys)) as running,
    ):
        wait_until(lambda: len(running.stdout_so_far()) > 10_000, "messages were sent")
        server.kill()
        with running_server(tmp_path, port=port):
            found = finished(running, report, sends=True)
    lines = keys.get("connections", 1)
    assert len(found.failures) == lines
    told = set(found.told("in_doubt"))
    assert told - set(found.told("resent")) == found.ledger.in_doubt
    assert set(found.told("resent")) == (told if keys.get("resend") else set())
    assert set(found.ledger.settled.values()) == {1}
    assert found.report["sent"] == len(found.ledger.sent)
    assert found.report["unsettled"] == len(found.ledger.in_doubt)
    links = keys.get("links", 1)
    assert sorted(failure["ends"] for failure in found.failures) == [
        [number * links, number * links + links - 1] for number in range(lines)
    ]


def without_credit(talk: Talk) -> None:
    """Attach two links in sessions of their own, and give no credit."""
    talk.answer_header()
    talk.expect("open")
    talk.send("open", container_id="frames")
    attached = 0
    while attached < 2:
        frame = talk.read()
        if frame.name == "begin":
            windows = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000}
            talk.send("begin", channel=frame.channel, remote_channel=frame.channel, **windows)
        elif frame.name == "attach":
            ours = {name: frame.fields[name] for name in ("name", "handle")}
            target = composite("target")
            talk.send("attach", channel=frame.channel, role=True, target=target, **ours)
            attached += 1


@pytest.mark.parametrize("words", ["", "hold"])
def test_many_ends_are_lost_before_they_begin(words: str, tmp_path: Path) -> None:
    """They begin over the next connection; the duration counts from then on."""
    is_ready = threading.Event()

    def only(talk: Talk) -> None:
        without_credit(talk)
        assert is_ready.wait(SECONDS)
        reset(talk.socket)

    keys = {"connections": 1, "links": 2, "count": 0, "duration": 1, "rate": 1000}
    with running_server(tmp_path) as server, lives(only) as peer:
        place = f"127.0.0.1:{server.port}"
        command = lasting("send", peer.port, tmp_path, failover=place, **keys)[3:]
        command = [word for word in command if not word.startswith("report-file=")]
        with controlled(tmp_path, *command, first=words) as arrow:
            arrow.wait_ready()
            is_ready.set()
            peer.end()
            # Again, over the next connection.
            arrow.wait_ready()
            arrow.say(*["start"] * bool(words))
            end, report = arrow.end()
    assert end.code == 0, end
    (failure,) = report["failures"]
    assert (failure["ends"], failure["in_doubt"]) == ([0, 1], [])
    assert failure["place"] == place
    assert report["ends"]["counts"] == pytest.approx([500, 500], abs=10)
    assert report["accepted"] == report["sent"]


def test_one_line_of_many_is_lost(tmp_path: Path) -> None:
    """The others go on meanwhile, and its two ends move to the new connection."""
    report = tmp_path / "report"
    with running_server(tmp_path) as server:
        words = lasting("send", server.port, report, connections=4, links=2, rate=2000, count=4000)
        with Running(words) as running:
            wait_until(lambda: len(running.stdout_so_far()) > 10_000, "messages were sent")
            cut_one(running, server.port)
            found = finished(running, report, sends=True)
    (failure,) = found.failures
    assert failure["ends"][1] - failure["ends"][0] == 1
    assert found.report["ends"]["counts"] == [500] * 8
    assert set(found.told("in_doubt")) == found.ledger.in_doubt


class Late(Proxy):
    """Passes the bytes of its first connection on when the others have opened."""

    def _accept(self) -> None:
        super()._accept()
        if self.accepted == 1:
            self.passages[0].due = time.monotonic() + 0.3


def test_a_loss_names_the_ends_of_its_connection(tmp_path: Path) -> None:
    """Also where connections did not open in their order: the ids of the messages tell it."""
    report = tmp_path / "report"
    with running_server(tmp_path) as server, Late(server.port) as proxy:
        words = lasting("send", proxy.port, report, connections=3, links=2, rate=3000, count=6000)
        with Running(words) as running:
            wait_until(lambda: len(running.stdout_so_far()) > 10_000, "messages were sent")
            proxy.cut("silence")
            before = len(running.stdout_so_far())
            wait_until(lambda: len(running.stdout_so_far()) > before + 5000, "some have no outcome")
            proxy.cut("rst")
            found = finished(running, report, sends=True)
    assert len(found.failures) == 3
    for failure in found.failures:
        first, last = failure["ends"]
        ends = {int(one) // IDS_OF_AN_END for one in numbers(failure["in_doubt"])}
        assert ends == {first, last}


def cut_one(running: Running, port: int) -> None:
    """Shut one connection of an arrow down, by a copy of its descriptor (pidfd_getfd(2))."""
    pid = running.process.pid
    found = psutil.Process(pid).net_connections("tcp")
    descriptor = next(one.fd for one in found if one.raddr and one.raddr.port == port)
    copy = ctypes.CDLL(None).syscall(PIDFD_GETFD, os.pidfd_open(pid), descriptor, 0)
    with socket.socket(fileno=copy) as sock:
        sock.shutdown(socket.SHUT_RDWR)
