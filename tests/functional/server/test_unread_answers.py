"""A client that asks and never reads: the server reads no more, and counts its waiting answers."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Callable

import pytest
from support.certificates import Certificates
from support.floods import Flood
from support.processes import wait_until
from support.server import Server
from support.streams import BOTH, judged, rss

from quiver_fast.conform.wire.frames import composite, decode_frame, encode_frame

MIB = 1 << 20
# A server that never stopped reading would take all of it; sockets have some megabytes.
POURED = 60 * MIB
SESSIONS = 8000
WINDOW = {"incoming_window": 1000, "next_outgoing_id": 0, "outgoing_window": 1000}


def flow(**fields: object) -> bytes:
    return encode_frame("flow", next_incoming_id=0, **WINDOW, **fields)


def session_echoes(_: Flood) -> bytes:
    return flow(echo=True)


def link_echoes(client: Flood) -> bytes:
    client.attach_sender("queue0")
    return flow(handle=0, delivery_count=0, echo=True)


def attached(address: str | None) -> bytes:
    """Return an attach and its detach."""
    return encode_frame(
        "attach", name="l", handle=1, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address=address),
    ) + encode_frame("detach", handle=1, closed=True)  # fmt: skip


def attaches(_: Flood) -> bytes:
    return attached("queue0")


def refused_attaches(_: Flood) -> bytes:
    return attached("$none")


KINDS = [session_echoes, link_echoes, attaches, refused_attaches]


def pour(client: Flood, frames: bytes) -> bytes | None:
    """Send frames as long as the server reads; return the rest, or None if it reads all of them."""
    data = frames * (MIB // len(frames))
    for _ in range(POURED // MIB):
        taken = client.pour(data, seconds=30.0)
        if taken < len(data):
            return data[taken:]
    return None


@BOTH
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_who_never_reads_is_not_read(
    start: Callable[..., Server],
    kind: Callable[[Flood], bytes],
    request: pytest.FixtureRequest,
    measures: bool,
) -> None:
    """Others are served, and the client goes on as soon as it reads."""
    server = start()
    client = Flood(server.port).start()
    frames = kind(client)
    before = rss(server)
    rest = pour(client, frames)
    assert rest is not None
    figure = judged(request, measures)
    figure("bytes grown", rss(server) - before, at_most=8 * MIB, unit="B")
    with Flood(server.port) as other:
        other.start().echo()
    client.pump(rest)
    client.echo()
    client.socket.close()


def test_who_never_reads_within_tls(
    start: Callable[..., Server], certificates: Certificates
) -> None:
    server = start(scheme="amqps", **certificates.server.keys())
    context = ssl.create_default_context(cafile=certificates.authority)
    client = Flood(server.port)
    client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
    frames = session_echoes(client.start())
    # Nothing tells a client that the server does not read; a slow machine makes this test easier.
    client.socket.settimeout(1.0)
    with pytest.raises(TimeoutError):
        client.socket.sendall(frames * (POURED // len(frames)))
    client.socket.close()


def test_unread_answers_count(start: Callable[..., Server]) -> None:
    """Together they exceed memory-limit, and the connections that hold most are closed."""
    server = start(memory_limit=4 * MIB, says="memory-limit: a connection that held")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Flood(server.port)).start() for _ in range(8)]
        for client in clients:
            pour(client, session_echoes(client))
        wait_until(lambda: any(is_over(client.socket) for client in clients), "one is closed")
        with Flood(server.port) as other:
            other.start().echo()


def test_sessions_that_come_and_go(start: Callable[..., Server]) -> None:
    """Each begin is answered with its channel, and then its end, also if the peer reads late."""
    client = Flood(start().port).start()
    client.kept = {"begin", "end"}
    begin = encode_frame("begin", channel=1, **WINDOW)
    frames = (begin + encode_frame("end", channel=1)) * SESSIONS
    taken = client.pour(frames)
    client.pump(frames[taken:], lambda: client.seen["end"] >= SESSIONS)
    answers = [decode_frame(each) for each in client.frames][-2 * SESSIONS :]
    assert [each.name for each in answers] == ["begin", "end"] * SESSIONS
    assert {each.fields["remote_channel"] for each in answers[::2]} == {1}
    client.echo()
    client.socket.close()


def is_over(sock: socket.socket) -> bool:
    """Say whether the server has closed a connection, without reading from it."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))
