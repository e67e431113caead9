"""Limits and time: sizes, counts, handshakes, idle time-outs and expiry."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable

import pytest
from proton import Endpoint
from proton.reactor import Copy
from support.amqp_frames import FrameClient
from support.clients import Clients
from support.network import read_exactly
from support.processes import wait_until
from support.server import Server

Connect = Callable[..., tuple[Server, Clients]]

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"


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


def test_what_comes_after_the_refusal_is_not_kept(connect: Connect) -> None:
    """A peer that goes on sending does not fill the server's memory."""
    server, clients = connect(max_message_size=10_000)
    producer = clients.producer(clients.connect(), "queue0")
    before = server.process.memory_info().rss
    producer.link.delivery("endless")
    for _ in range(60):
        producer.link.stream(b"x" * 1_000_000)
        clients.container.process()
    clients.pause()
    assert server.process.memory_info().rss - before < 16 << 20
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
    clients.pause()
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


def test_connection_limit(connect: Connect) -> None:
    server, clients = connect(max_connections=3)
    connections = [clients.connect() for _ in range(3)]
    with socket.create_connection(("127.0.0.1", server.port), 5) as beyond:
        beyond.settimeout(5)
        assert beyond.recv(1) == b""
    connections[0].close()
    clients.pause()
    clients.producer(clients.connect(), "queue0").publish("x")


def test_frame_size(connect: Connect) -> None:
    """What the server said is kept by the peer, and what the peer said by the server."""
    _, clients = connect(max_frame_size=1000)
    connection = clients.connect(max_frame_size=700)
    assert connection.transport.remote_max_frame_size == 1000
    consumer = clients.consumer(connection, "queue0", credit=1)
    clients.producer(connection, "queue0").send("x" * 50_000)
    assert consumer.accept(1) == ["x" * 50_000]


def test_without_descriptors(connect: Connect) -> None:
    """Connections wait until there are some again, without the server going round in circles."""
    server, clients = connect()
    clients.producer(clients.connect(), "queue0").publish("before")
    used = server.process.num_fds()
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used, hard))
    with contextlib.ExitStack() as stack:
        waiting = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            for _ in range(5)
        ]
        clients.pause(0.3)
        before = sum(server.process.cpu_times()[:2])
        clients.pause(1.0)
        assert sum(server.process.cpu_times()[:2]) - before < 0.3
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1000, hard))
        for connection in waiting:
            connection.settimeout(5)
            connection.sendall(AMQP_HEADER)
            assert read_exactly(connection, 8) in (AMQP_HEADER, SASL_HEADER)
    clients.producer(clients.connect(), "queue0").publish("after")


# -- time


@pytest.mark.parametrize("said", [b"", b"AM", AMQP_HEADER, SASL_HEADER])
def test_handshake_timeout(connect: Connect, said: bytes) -> None:
    """A peer that never opens a connection does not keep one."""
    server, _ = connect(handshake_timeout=1)
    with socket.create_connection(("127.0.0.1", server.port), 5) as idle:
        began = time.monotonic()
        idle.settimeout(5)
        idle.sendall(said)
        with contextlib.suppress(ConnectionError):
            while idle.recv(1000):
                pass
        assert 0.8 < time.monotonic() - began < 3


def test_the_server_keeps_the_peers_idle_timeout(connect: Connect) -> None:
    """Part 2.4.5: empty frames in time, so that a peer that wants them stays."""
    _, clients = connect(idle_timeout=0)
    connection = clients.connect(heartbeat=1.0)
    clients.pause(3.0)
    assert connection.state & Endpoint.REMOTE_ACTIVE
    clients.producer(connection, "queue0").publish("x")


def test_the_peer_must_keep_the_servers_idle_timeout(connect: Connect) -> None:
    server, clients = connect(idle_timeout=1)
    connection = clients.connect()
    assert 0 < connection.transport.remote_idle_timeout <= 1.0
    clients.pause(2.5)
    assert connection.state & Endpoint.REMOTE_ACTIVE
    clients.producer(connection, "queue0").publish("held")
    with FrameClient(server.port) as silent:
        silent.open()
        silent.begin()
        silent.attach_receiver("queue0")
        silent.give_credit(1)
        silent.expect("transfer")
        # It says nothing from here on.
        last = [found for found in silent.read_to_end() if found.name != "empty"]
    assert [(found.name, found.condition) for found in last] == [
        ("close", "amqp:resource-limit-exceeded")
    ]
    with Clients(server.port) as others:
        assert others.drain_queue(others.connect(), "queue0") == ["held"]


def test_an_idle_server_rests(connect: Connect) -> None:
    server, clients = connect()
    clients.producer(clients.connect(), "queue0").publish("x")
    clients.pause()
    before = sum(server.process.cpu_times()[:2])
    clients.pause(2.0)
    assert sum(server.process.cpu_times()[:2]) - before <= 0.05


# -- expiry


def test_messages_expire(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    producer.publish("short", ttl=0.3)
    producer.publish("long", ttl=30.0)
    producer.publish("for ever")
    clients.pause(0.6)
    assert clients.drain_queue(clients.connect(), address) == ["long", "for ever"]


def test_a_message_that_is_released_too_late(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    consumer = clients.consumer(clients.connect(), address, credit=1)
    producer.publish("short", ttl=0.3)
    received = consumer.take_one()
    clients.pause(0.6)
    received.release()
    consumer.link.flow(10)
    clients.pause(0.3)
    assert consumer.bodies() == []


def test_expiry_makes_room(connect: Connect) -> None:
    """A paused producer goes on when what filled the queue has expired."""
    _, clients = connect(queue_limit=65536, credit=10)
    producer = clients.producer(clients.connect(), "queue0")
    sent = [producer.send("x" * 10_000, ttl=0.5) for _ in range(10)]
    clients.wait(lambda: all(each.remote_state for each in sent), "all are taken", 3.0)


def test_what_is_left_of_the_time_to_live_goes_on(clients: Clients, address: str) -> None:
    """Part 3.2.1: a node reduces it by the time that the message was with it."""
    producer = clients.producer(clients.connect(), address)
    producer.publish("x", ttl=30.0)
    clients.pause(0.5)
    consumer = clients.consumer(clients.connect(), address, credit=1)
    first = consumer.take_one()
    assert 29.0 < first.message.ttl <= 29.6
    first.release()
    clients.pause(0.5)
    consumer.link.flow(1)
    assert 28.0 < consumer.take_one().message.ttl <= 29.1


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
    """A server that has done everything once, so that what it keeps for ever is there."""
    server, clients = connect()
    cycle(clients, 20)
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


@pytest.mark.memory
def test_nothing_leaks(busy: tuple[Server, Clients]) -> None:
    server, clients = busy
    clients.pause()
    descriptors, before = server.process.num_fds(), server.process.memory_info().rss
    cycle(clients, 300)
    wait_until(lambda: server.process.num_fds() <= descriptors, "descriptors are closed")
    grown = server.process.memory_info().rss - before
    assert grown < 2 << 20, f"{grown >> 10} KiB more after 300 connections"
