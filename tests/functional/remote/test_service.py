"""Remote queues on sockets: many clients, segments, half-close, kills, and the arrow."""

from __future__ import annotations

import re
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.measured import Figure
from support.processes import run
from support.remote import document, failure, receive, replies, reply, request, serving

QUEUE, APPENDER, TAILER = "//h/q#Queue", "//h/q#appender", "//h/q#tailer"
ARROW = ["-m", "quiver_fast.arrow.main"]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with serving(tmp_path) as port:
        yield port


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def rest(sock: socket.socket) -> bytes:
    """Receive until the server closes."""
    data = b""
    while more := sock.recv(1 << 16):
        data += more
    return data


def test_a_half_close_is_answered_and_then_closed(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(request("submit: a", csp=APPENDER, tid=1))
        sock.sendall(request("hasNext: { index: 0, batch: 9 }", csp=TAILER, tid=2))
        (_, first), (_, second) = replies(receive(sock, 2))
        index = int(first["index"])
        assert second["reply"] == ["a"]
        waiting = f"hasNext: {{ index: {index + 1}, wait: 60000 }}"
        sock.sendall(request(waiting, csp=TAILER, tid=3) + request("submit:", csp=APPENDER)[:9])
        sock.shutdown(socket.SHUT_WR)
        assert reply(rest(sock)) == (3, {"index": str(index + 1), "reply": []})


def test_documents_in_single_bytes(port: int) -> None:
    with connect(port) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request("submit: { a: b }", csp=APPENDER, tid=1):
            sock.sendall(bytes([byte]))
        assert "index" in reply(receive(sock, 1))[1]


def test_long_polls_of_many_connections_get_the_entry(port: int) -> None:
    readers = [connect(port) for _ in range(50)]
    for reader in readers:
        reader.sendall(request("createTailer: { }", csp=QUEUE, tid=1))
        receive(reader, 1)
        reader.sendall(request("hasNext: { wait: 30000 }", cid=1, tid=2))
    with connect(port) as writer:
        writer.sendall(request("submit: news", csp=APPENDER, tid=1))
        receive(writer, 1)
    for reader in readers:
        assert reply(receive(reader, 1))[1]["reply"] == ["news"]
        reader.close()


def test_a_wait_ends_in_time(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(request("createTailer: { }", csp=QUEUE, tid=1))
        receive(sock, 1)
        sock.sendall(request("hasNext: { wait: 200 }", cid=1, tid=2))
        assert reply(receive(sock, 1))[1]["reply"] == []


@pytest.mark.parametrize(
    "sent",
    [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x10\0\0\0\xb9submit", document("tid: x", 0x40000000)],
)
def test_a_fatal_error_is_said_and_disturbs_nobody_else(port: int, sent: bytes) -> None:
    with connect(port) as good, connect(port) as bad:
        good.sendall(request("submit: before", csp=APPENDER, tid=1))
        receive(good, 1)
        bad.sendall(sent + b"x" * 100_000)
        assert failure(rest(bad))[0] == 0
        good.sendall(request("submit: after", csp=APPENDER, tid=2))
        assert reply(receive(good, 1))[0] == 2


def test_a_reset_in_the_middle_of_a_document_takes_no_effect(port: int) -> None:
    with connect(port) as good:
        with connect(port) as bad:
            bad.sendall(request("submit: never", csp=APPENDER, tid=1)[:-2])
            bad.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        good.sendall(request("lastWrittenIndex: { }", csp=QUEUE, tid=2))
        assert reply(receive(good, 1))[1]["reply"] == "-1"


def test_a_slow_reader_stops_being_read_and_gets_everything(port: int) -> None:
    value = '"' + "x" * 900_000 + '"'
    with connect(port) as sock:
        sock.sendall(request(f"submit: {value}", csp=APPENDER, tid=1))
        index = int(reply(receive(sock, 1))[1]["index"])
        one = request(f"hasNext: {{ index: {index} }}", csp=TAILER, tid=2)
        sender = threading.Thread(target=sock.sendall, args=(one * 40,))
        sender.start()
        with connect(port) as other:
            other.sendall(request("submit: meanwhile", csp=APPENDER, tid=3))
            assert reply(receive(other, 1))[0] == 3
        assert len(replies(receive(sock, 40))) == 40
        sender.join()


def test_stopping_the_server_answers_what_waits(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        sock = connect(port)
        sock.sendall(request("createTailer: { }", csp=QUEUE, tid=1))
        receive(sock, 1)
        sock.sendall(request("hasNext: { wait: 60000 }", cid=1, tid=2))
        sock.sendall(request("lastWrittenIndex: { }", csp=QUEUE, tid=3))
        receive(sock, 1)
    assert reply(rest(sock))[1]["reply"] == []
    sock.close()


def test_no_create(tmp_path: Path) -> None:
    with serving(tmp_path, "no-create=1") as port, connect(port) as sock:
        sock.sendall(request("createTailer: { }", csp=QUEUE, tid=1))
        assert failure(receive(sock, 1))[1] == "java.io.FileNotFoundException"


# ---- the arrow (B.10) ----------------------------------------------------------------


def arrow(operation: str, port: int, **options: object) -> list[str]:
    given = {
        "connection-mode": "client", "channel-mode": "active", "operation": operation,
        "id": "a", "scheme": "csp", "host": "127.0.0.1", "port": port, "path": "q/sub", **options,
    }  # fmt: skip
    return [sys.executable, *ARROW, *(f"{key}={value}" for key, value in given.items())]


@pytest.mark.parametrize("body_size", [0, 100, 70_000])
def test_what_the_arrow_sends_it_receives(port: int, body_size: int) -> None:
    options = {"count": 700, "record-format": "v2", "run-id": "r1"}
    sent = run(arrow("send", port, **options, **{"body-size": body_size, "settlement": 1}))
    assert (sent.code, sent.stderr) == (0, "")
    transfers = [line for line in sent.lines if line[0] not in "Ss"]
    settled = [line for line in sent.lines if line[0] in "Ss"]
    assert [line.partition(",")[0] for line in settled[:2]] == ["S1", "s2"]
    assert len(settled) == 700
    received = run(arrow("receive", port, **options))
    assert (received.code, received.stderr) == (0, "")
    assert [line.rpartition(",")[0] for line in received.lines] == transfers


def test_entries_of_other_runs_are_passed_over(port: int) -> None:
    for run_id, count in (("old", 20), ("new", 5)):
        assert run(arrow("send", port, count=count, **{"run-id": run_id})).code == 0
    received = run(arrow("receive", port, count=5, **{"run-id": "new", "record-format": "v1"}))
    assert [line.partition(",")[0] for line in received.lines] == ["1", "2", "3", "4", "5"]


def send_times(port: int, **limits: int) -> list[int]:
    """Send a thousand messages a second; return their times in microseconds."""
    sent = run(arrow("send", port, rate=1000, **limits, **{"time-unit": "us"}))
    assert sent.code == 0
    return [int(line.partition(",")[0]) for line in sent.lines]


def test_a_rate_is_that_of_the_send_times(port: int) -> None:
    times = send_times(port, count=901)
    assert times[900] - times[0] == 900_000


def test_a_duration_ends(port: int) -> None:
    assert 0 < len(send_times(port, duration=1)) <= 1050


@pytest.mark.measured
def test_a_rate_is_kept(port: int, figure: Figure) -> None:
    sent = len(send_times(port, duration=1))
    figure("messages of a second", sent, at_least=950, at_most=1050)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("connection-mode", "server"), ("channel-mode", "passive"), ("durable", 1),
        ("transaction-size", 5), ("presettled", 1), ("username", "me"),
        ("sasl-mechanisms", "PLAIN"), ("max-frame-size", 4096), ("idle-timeout", 5),
    ],
)  # fmt: skip
def test_options_without_a_counterpart_are_errors_at_start(option: str, value: object) -> None:
    ended = run(arrow("send", 1, **{option: value}))
    assert ended.code == 2
    assert option in ended.stderr


def test_a_refused_queue_and_a_lost_server_end_the_arrow(port: int, tmp_path: Path) -> None:
    ended = run(arrow("send", port, path="a b", count=1))
    assert ended.code == 1
    assert "IllegalArgumentException" in ended.stderr
    with serving(tmp_path / "other") as other:
        pass
    ended = run(arrow("receive", other, count=1))
    assert (ended.code, ended.stdout) == (1, "")
    assert "cannot connect" in ended.stderr


def test_a_pair_through_a_queue_loses_nothing(port: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quiver_fast.cli.pair.command", f"csp://127.0.0.1:{port}/pair"]
    ended = run([*command, "--count", "2000", "--output", str(tmp_path / "out")])
    assert ended.code == 0, ended.stderr
    assert re.search(r"Received \.+ 2,000 messages", ended.stdout)


@pytest.mark.parametrize("flags", [["--durable"], ["--transaction-size", "5"], ["--presettled"]])
def test_the_wrapper_refuses_what_csp_has_not(flags: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quiver_fast.cli.arrow.command", "send", "csp://localhost/q"]
    ended = run([*command, *flags, "--output", str(tmp_path / "out")])
    assert (ended.code, len(ended.stderr.splitlines())) == (2, 1)
    assert flags[0] in ended.stderr
