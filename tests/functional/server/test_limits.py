"""Limits and time: sizes, counts, handshakes, idle time-outs and expiry."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Endpoint
from proton.reactor import Copy
from support.clients import Clients
from support.departures import port_of, wait_until_gone
from support.durable_client import encoded
from support.measured import Figure
from support.processes import wait_until
from support.server import Server
from support.streams import BOTH, cpu_seconds, judged, rss

from quiver_fast.conform.wire.client import FrameClient, read_exactly
from quiver_fast.conform.wire.frames import composite, encode_frame
from quiver_fast.queuefile.appender import Appender

Connect = Callable[..., tuple[Server, Clients]]

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
# A longer wait means that the server hangs.
HANG_SECONDS = 30.0


# -- message size


@pytest.mark.parametrize("size", [10_001, 100_000, 1_000_000])
def test_max_message_size(connect: Connect, size: int) -> None:
    """Told at attach; beyond it the link is detached (part 2.7.3), the connection lives."""
    _, clients = connect(max_message_size=10_100)
    connection = clients.connect()
    producer = clients.producer(connection, "queue0")
    assert producer.link.remote_max_message_size == 10_100
    producer.publish("x" * 10_000)
    producer.send("x" * (size + 100))
    producer.send("after")
    assert producer.condition() == "amqp:link:message-size-exceeded"
    again = clients.producer(connection, "queue0")
    again.publish("fine")
    assert clients.drain_queue(connection, "queue0") == ["x" * 10_000, "fine"]


@BOTH
def test_what_comes_after_the_refusal_is_not_kept(
    connect: Connect, request: pytest.FixtureRequest, measures: bool
) -> None:
    """A peer that goes on sending does not fill the server's memory."""
    server, clients = connect(max_message_size=10_000)
    producer = clients.producer(clients.connect(), "queue0")
    before = rss(server)
    producer.link.delivery("endless")
    for _ in range(60):
        producer.link.stream(b"x" * 1_000_000)
        clients.container.process()
    clients.pause()
    figure = judged(request, measures)
    figure("bytes kept of 60 MB", rss(server) - before, at_most=16 << 20, unit="B")
    assert producer.condition() == "amqp:link:message-size-exceeded"


# -- counts


def test_session_limit(connect: Connect) -> None:
    _, clients = connect(max_sessions=3)
    connection = clients.connect()
    sessions = [connection.session() for _ in range(4)]
    for session in sessions:
        session.open()
    clients.wait(
        lambda: bool(sessions[3].state & Endpoint.REMOTE_CLOSED), "the fourth session is ended"
    )
    assert sessions[3].remote_condition.name == "amqp:resource-limit-exceeded"
    assert all(session.state & Endpoint.REMOTE_ACTIVE for session in sessions[:3])
    sessions[0].close()
    clients.wait(lambda: bool(sessions[0].state & Endpoint.REMOTE_CLOSED), "the first has ended")
    clients.producer(connection, "queue0").publish("one may come when one has gone")


def test_link_limit(connect: Connect) -> None:
    _, clients = connect(max_links=5)
    connection = clients.connect()
    links = [clients.producer(connection, "queue0") for _ in range(5)]
    assert clients.begin_producer(connection, "queue0").condition() == (
        "amqp:resource-limit-exceeded"
    )
    assert clients.begin_consumer(connection, "queue0").condition() == (
        "amqp:resource-limit-exceeded"
    )
    links[0].close()
    clients.producer(connection, "queue0").publish("x")
    # It is a limit of each connection.
    clients.producer(clients.connect(), "queue0").publish("y")


def test_refused_links_that_stay(start: Callable[..., Server]) -> None:
    """Links beyond max-links, of which none is detached; a client that detaches goes on."""
    server = start(max_links=5)
    termini = {"source": composite("source"), "target": composite("target", address="queue0")}
    for detaches in (True, False):
        with FrameClient(server.port, timeout=HANG_SECONDS) as client:
            client.open()
            client.begin()
            for number in range(1100):
                client.send("attach", name=f"l{number}", handle=number, role=False,
                    initial_delivery_count=0, **termini)  # fmt: skip
                if detaches:
                    client.send("detach", handle=number, closed=True)
            if detaches:
                client.send("close")
            # The server would wait for our close.
            last = client.until("close")
        assert last.condition == (None if detaches else "amqp:resource-limit-exceeded")


@pytest.mark.parametrize(("size", "flawed"), [(2048, False), (2049, True)])
def test_the_length_of_a_name(start: Callable[..., Server], size: int, flawed: bool) -> None:
    server = start()
    with FrameClient(server.port, timeout=HANG_SECONDS) as client:
        client.open()
        client.begin()
        client.attach_sender("queue0", name="n" * size)
        if flawed:
            assert client.expect("detach").condition == "amqp:invalid-field"
        else:
            assert client.wait_for_credit()


def test_connection_limit(connect: Connect) -> None:
    server, clients = connect(max_connections=3)
    connections = [clients.connect() for _ in range(3)]
    with socket.create_connection(("127.0.0.1", server.port), HANG_SECONDS) as beyond:
        assert beyond.recv(1) == b""
    port = port_of(connections[0])
    connections[0].close()
    clients.wait(lambda: bool(connections[0].state & Endpoint.REMOTE_CLOSED), "it is closed")
    clients.pause()
    wait_until_gone(server, port)
    clients.producer(clients.connect(), "queue0").publish("x")


def test_frame_size(connect: Connect) -> None:
    """The peer keeps the server's limits, and the server keeps the peer's."""
    _, clients = connect(max_frame_size=1000)
    connection = clients.connect(max_frame_size=700)
    assert connection.transport.remote_max_frame_size == 1000
    consumer = clients.consumer(connection, "queue0", credit=1)
    clients.producer(connection, "queue0").send("x" * 50_000)
    assert consumer.accept(1) == ["x" * 50_000]


@BOTH
def test_without_descriptors(
    connect: Connect, request: pytest.FixtureRequest, measures: bool
) -> None:
    """Connections wait until there are some again, without the server going round in circles."""
    server, clients = connect()
    clients.producer(clients.connect(), "queue0").publish("before")
    used = server.process.num_fds()
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used, hard))
    with contextlib.ExitStack() as stack:
        waiting = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), HANG_SECONDS))
            for _ in range(5)
        ]
        clients.pause(0.3)
        before = cpu_seconds(server)
        clients.pause(1.0 if measures else 0.0)
        spent = cpu_seconds(server) - before
        judged(request, measures)("CPU in a second of waiting", spent, at_most=0.3, unit="s")
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1000, hard))
        for connection in waiting:
            connection.sendall(AMQP_HEADER)
            assert read_exactly(connection, 8) in (AMQP_HEADER, SASL_HEADER)
    clients.producer(clients.connect(), "queue0").publish("after")


# -- time


def test_handshake_timeout(connect: Connect) -> None:
    """A peer that never opens a connection does not keep one, for every input."""
    server, _ = connect(handshake_timeout=1)
    with contextlib.ExitStack() as stack:
        waiting = {}
        for said in (b"", b"AM", AMQP_HEADER, SASL_HEADER):
            began = time.monotonic()
            idle = socket.create_connection(("127.0.0.1", server.port), HANG_SECONDS)
            stack.enter_context(idle).sendall(said)
            waiting[idle] = began
        while waiting:
            readable, _, _ = select.select(list(waiting), [], [], HANG_SECONDS)
            assert readable, "a connection is kept"
            for idle in readable:
                if is_closed(idle):
                    assert time.monotonic() - waiting.pop(idle) > 0.8


def is_closed(idle: socket.socket) -> bool:
    """Read from a connection that something comes by; say whether that was its end."""
    try:
        return not idle.recv(1000)
    except ConnectionError:
        return True


# A client of a second's idle time-out would not do: a busy machine may not run it for longer.
IDLE_SECONDS = 5


@pytest.mark.slow
def test_a_peer_that_keeps_the_servers_idle_timeout_stays(connect: Connect) -> None:
    _, clients = connect(idle_timeout=IDLE_SECONDS)
    connection = clients.connect()
    assert 0 < connection.transport.remote_idle_timeout <= IDLE_SECONDS
    clients.pause(2.5 * IDLE_SECONDS)
    assert connection.state & Endpoint.REMOTE_ACTIVE
    clients.producer(connection, "queue0").publish("x")


def test_the_peer_must_keep_the_servers_idle_timeout(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """Its messages go to the next one."""
    with Appender(tmp_path / "store" / "queue0") as appender:
        appender.append_raw(encoded(1))
    server = start(idle_timeout=1, store=tmp_path / "store")
    for is_next in (False, True):
        # All is said at once: no busy machine makes a longer pause between the frames.
        with FrameClient(server.port, timeout=HANG_SECONDS) as silent:
            silent.send_bytes(consuming("queue0"))
            silent.read_header()
            assert 0 < silent.expect("open").fields["idle_time_out"] <= 1000
            silent.expect("begin")
            silent.expect("attach")
            assert encoded(1).endswith(silent.expect("transfer").payload[-50:])
            if is_next:
                return
            # It says nothing more.
            last = [found for found in silent.read_to_end() if found.name != "empty"]
        assert [(found.name, found.condition) for found in last] == [
            ("close", "amqp:resource-limit-exceeded")
        ]


def consuming(address: str) -> bytes:
    """Return all that a consumer with credit for one message has to say."""
    windows = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000}
    termini = {"source": composite("source", address=address), "target": composite("target")}
    flow = {"next_incoming_id": 0, "handle": 0, "delivery_count": 0, "link_credit": 1}
    return b"".join((
        AMQP_HEADER,
        encode_frame("open", container_id="silent"),
        encode_frame("begin", **windows),
        encode_frame("attach", name="silent", handle=0, role=True, **termini),
        encode_frame("flow", **windows, **flow),
    ))  # fmt: skip


@pytest.mark.measured
def test_an_idle_server_rests(connect: Connect, figure: Figure) -> None:
    server, clients = connect()
    clients.producer(clients.connect(), "queue0").publish("x")
    clients.pause()
    before = cpu_seconds(server)
    clients.pause(2.0)
    figure("CPU in two idle seconds", cpu_seconds(server) - before, at_most=0.05, unit="s")


# -- expiry


def test_a_message_that_is_released_too_late(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    consumer = clients.consumer(clients.connect(), address, credit=1)
    producer.publish("short", ttl=1.0)
    received = consumer.take_one()
    clients.pause(1.2)
    received.release()
    consumer.link.flow(10)
    clients.pause(0.3)
    assert consumer.bodies() == []


def test_expiry_makes_room(connect: Connect) -> None:
    """A paused producer goes on when what filled the queue has expired."""
    _, clients = connect(queue_limit=65536, credit=10)
    producer = clients.producer(clients.connect(), "queue0")
    sent = [producer.send("x" * 10_000, ttl=0.5) for _ in range(10)]
    clients.wait(lambda: all(each.remote_state for each in sent), "all are taken")


def test_what_is_left_of_the_time_to_live_goes_on(clients: Clients, address: str) -> None:
    """Part 3.2.1: a node reduces it by the time that the message was with it."""
    producer = clients.producer(clients.connect(), address)
    began = time.monotonic()
    producer.publish("x", ttl=600.0)
    clients.pause(0.5)
    consumer = clients.consumer(clients.connect(), address, credit=1)
    first = consumer.take_one()
    # No more than all the time that went by; it is told in milliseconds.
    assert 600.0 - (time.monotonic() - began) - 0.1 < first.message.ttl <= 599.6
    first.release()
    clients.pause(0.5)
    consumer.link.flow(1)
    again = consumer.take_one()
    assert 600.0 - (time.monotonic() - began) - 0.1 < again.message.ttl <= 599.1


def test_browsers_do_not_see_what_expired(clients: Clients, address: str) -> None:
    connection = clients.connect()
    producer = clients.producer(connection, address)
    browser = clients.consumer(connection, address, Copy())
    producer.publish("short", ttl=0.2)
    producer.publish("long")
    clients.pause(0.5)
    browser.link.flow(10)
    assert browser.accept(1) == ["long"]


# -- leaks


@pytest.fixture
def busy(connect: Connect) -> tuple[Server, Clients]:
    """A server that has done everything once, so that its permanent objects exist."""
    server, clients = connect()
    descriptors = server.process.num_fds()
    cycle(clients, 20)
    wait_until(lambda: server.process.num_fds() <= descriptors, "descriptors are closed")
    return server, clients


def cycle(clients: Clients, count: int) -> None:
    """Connect, attach, send, hold, and go without a word."""
    for _ in range(count):
        connection = clients.connect()
        consumer = clients.consumer(connection, None, credit=5, dynamic=True)
        subscriber = clients.consumer(connection, "topic", credit=5)
        producer = clients.producer(connection, consumer.address)
        producer.publish("a", "b")
        clients.producer(connection, "topic").publish("c")
        clients.producer(connection, "queue0")
        consumer.take(2)
        subscriber.take(1)
        clients.cut(connection)
        clients.connections.remove(connection)
        clients.container.process()


@BOTH
def test_nothing_leaks(
    busy: tuple[Server, Clients], request: pytest.FixtureRequest, measures: bool
) -> None:
    """Neither descriptors nor memory."""
    server, clients = busy
    clients.pause()
    descriptors, before = server.process.num_fds(), rss(server)
    cycle(clients, 300 if measures else 20)
    wait_until(lambda: server.process.num_fds() <= descriptors, "descriptors are closed")
    grown = rss(server) - before
    judged(request, measures)("grown by 300 connections", grown, at_most=2 << 20, unit="B")
