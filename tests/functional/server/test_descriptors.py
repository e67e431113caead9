"""Few descriptors: accepted messages are there after a restart under the same limit."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Described, Sender
from support.clients import Clients
from support.engine_client import EngineClient
from support.preload import compile_preload, preloading
from support.processes import wait_until
from support.server import Server, running_server
from support.streams import head, received

from tests.functional.server.test_subscriptions import Client, bodies, publish
from tests.functional.server.test_transactions import DISCHARGE, Controller

LIMIT = 100
# Descriptors that the server reserves for operations that must not fail (server.main).
RESERVED = 16
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"
ADDRESSES = [f"q{number}" for number in range(60)]
MANY = [f"q{number}" for number in range(250)]
DURABILITIES = [
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("none", "interval:20")), "group",
]  # fmt: skip


def send_all(clients: Clients, connection: Any, addresses: list[str]) -> list[str]:
    """Send one durable message to each address; return those that accepted it."""
    accepted = []
    for address in addresses:
        delivery = clients.producer(connection, address).send(address, durable=True)
        if clients.outcome(delivery) == Delivery.ACCEPTED:
            accepted.append(address)
    return accepted


def contents(clients: Clients, addresses: list[str]) -> dict[str, list[str]]:
    connection = clients.connect()
    return {address: clients.drain_queue(connection, address) for address in addresses}


def send_ahead(clients: Clients, connection: Any, addresses: list[str]) -> None:
    """Send one durable message to each address before any is answered; all are accepted."""
    producers = [clients.producer(connection, address) for address in addresses]
    deliveries = [
        producer.send(address, durable=True)
        for producer, address in zip(producers, addresses, strict=True)
    ]
    assert {clients.outcome(delivery) for delivery in deliveries} == {Delivery.ACCEPTED}


@pytest.mark.parametrize("durability", DURABILITIES)
def test_more_queues_than_descriptors(tmp_path: Path, durability: str) -> None:
    """Whoever sends more than one message at once: idle queues close their files."""
    keys = {"store": tmp_path / "store", "durability": durability, "descriptors": LIMIT}
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        connection = clients.connect()
        assert send_all(clients, connection, MANY) == MANY
        send_ahead(clients, connection, MANY)
        assert server.process.num_fds() < LIMIT - RESERVED
        taken = {address: clients.drain_queue(connection, address) for address in MANY[::2]}
        assert taken == {address: [address] * 2 for address in MANY[::2]}
        send_ahead(clients, connection, MANY[::-1])
        server.kill()
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        left = {address: [address] * 3 for address in MANY}
        left.update({address: [address] for address in MANY[::2]})
        assert contents(clients, MANY) == left
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        assert contents(clients, MANY) == {address: [] for address in MANY}


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_transaction_of_more_queues_than_descriptors(tmp_path: Path, durability: str) -> None:
    keys = {"store": tmp_path / "store", "durability": durability, "descriptors": LIMIT}
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        controller = Controller(clients, ADDRESSES[0])
        transaction = controller.declare()
        for address in ADDRESSES:
            controller.producer = clients.producer(controller.connection, address)
            delivery = controller.begin_send(transaction, address, durable=True)
            clients.wait(lambda d=delivery: bool(d.remote_state), "an answer")  # type: ignore[misc]
        controller.discharge(transaction)
        server.kill()
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        assert contents(clients, ADDRESSES) == {address: [address] for address in ADDRESSES}


@pytest.mark.parametrize("durability", DURABILITIES)
def test_more_durable_subscriptions_than_descriptors(tmp_path: Path, durability: str) -> None:
    """Each gets its copy of each message, in a file of its own."""
    keys = {"store": tmp_path / "store", "durability": durability, "descriptors": LIMIT}
    with running_server(tmp_path, **keys) as server:
        with Client(server) as client:
            for name in ADDRESSES:
                client.subscribe("topic", name)
        publish(server, "topic", 1, 2)
        server.kill()
    with running_server(tmp_path, **keys) as server, Client(server) as client:
        for name in ADDRESSES:
            client.subscribe("topic", name)
            client.credit(2, client.handles - 1)
            assert client.take(2) == bodies(1, 2)
            client.detach(closed=True)
        folder = tmp_path / "store" / "%subscriptions"
        wait_until(lambda: not list(folder.iterdir()), "no file is left")


def test_a_sync_under_way_keeps_no_file_from_another_queue(tmp_path: Path) -> None:
    """A message and a commit get a file although all open ones are being synced."""
    held = tmp_path / "held"
    library = compile_preload(Path(__file__).with_name("held_sync.c"), tmp_path)
    environment = {"QUIVER_HELD": str(held), **preloading(library)}
    keys = {"store": tmp_path / "store", "durability": "group", "descriptors": LIMIT}
    busy, idle, other = ADDRESSES[: LIMIT // 4], ADDRESSES[-2], ADDRESSES[-1]
    with (
        running_server(tmp_path, environment=environment, **keys) as server,
        Clients(server.port) as clients,
    ):
        connection = clients.connect()
        send_ahead(clients, connection, [*busy, idle, other])
        producers = [clients.producer(connection, address) for address in busy]
        late = clients.producer(connection, idle)
        consumer = clients.consumer(connection, idle, credit=2)
        consumer.accept(1)
        clients.sync(connection)
        controller = Controller(clients, other)
        transaction = controller.declare()
        delivery = controller.begin_send(transaction, "in it", durable=True)
        clients.wait(lambda: bool(delivery.remote_state), "an answer")
        producers[0].publish("after the removal", durable=True)
        held.touch()
        deliveries = [producer.send("first", durable=True) for producer in producers]
        clients.sync(connection)
        deliveries += [controller.link.send(Described(DISCHARGE, [transaction, False]))]
        clients.sync(controller.connection)
        deliveries += [late.send("late", durable=True)]
        assert consumer.take_one().body == "late"
        # Now files have entries that the sync does not cover.
        deliveries += [producer.send("second", durable=True) for producer in producers]
        clients.sync(connection)
        held.unlink()
        assert {clients.outcome(each) for each in deliveries} == {Delivery.ACCEPTED}
        server.kill()
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        connection = clients.connect()
        assert clients.drain_queue(connection, busy[0])[1] == "after the removal"
        for address in busy[1:]:
            assert clients.drain_queue(connection, address) == [address, "first", "second"]
        assert clients.drain_queue(connection, other) == [other, "in it"]
        assert clients.drain_queue(connection, idle) == ["late"]


def test_a_queue_beyond_the_descriptors_is_refused(tmp_path: Path) -> None:
    """One condition, one warning; all others go on, and the queue is made when there are some."""
    keys = {"store": tmp_path / "store", "says": "Too many open files"}
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        connection = clients.connect()
        here = clients.producer(connection, "here")
        here.publish("one", durable=True)
        there = [clients.producer(connection, address) for address in ("there", "too")]
        anonymous = clients.producer(connection, None)
        used = server.process.num_fds()
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used, hard))
        for producer in [*there, anonymous]:
            delivery = producer.send("lost", durable=True, address="too")
            assert clients.outcome(delivery) == Delivery.REJECTED
            assert delivery.remote.condition.name == "amqp:resource-limit-exceeded"
            here.publish("more", durable=True)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        there[0].publish("first", durable=True)
        assert clients.drain_queue(connection, "here") == ["one", *["more"] * 3]
        assert clients.drain_queue(connection, "there") == ["first"]
        assert server.end().stderr.count("\n") == 1


def test_the_queue_of_a_small_message_takes_little_disk(tmp_path: Path) -> None:
    store = tmp_path / "store"
    running = running_server(tmp_path, store=store)
    with running as server, Clients(server.port) as clients:
        assert send_all(clients, clients.connect(), ADDRESSES) == ADDRESSES
        blocks = sum(path.stat().st_blocks for path in store.rglob("*"))
        assert blocks * 512 / len(ADDRESSES) < 128 * 1024


def streamed(producer: EngineClient, sender: Sender, data: bytes) -> None:
    """Send more of the current delivery, as fast as it goes."""
    for begin in range(0, len(data), 65536):
        producer.until(lambda: sender.session.outgoing_bytes < 65536)
        sender.stream(data[begin : begin + 65536])
        producer.pump(0)


def fill(server: Server, stack: ExitStack) -> None:
    """Connect until nobody is let in any more."""
    for _ in range(LIMIT):
        stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
    wait_until(lambda: server.process.num_fds() >= LIMIT - RESERVED, "no descriptor is left")


@pytest.mark.parametrize("durability", ["none", "group"])
def test_connections_take_nothing_that_a_queue_needs(tmp_path: Path, durability: str) -> None:
    """Syncs, the next file of a queue, and long messages that are read from an older file."""
    keys = {"durability": durability, "roll_size": 65536, "descriptors": LIMIT}
    message = DURABLE + head(2_000_000) + os.urandom(2_000_000)
    with (
        running_server(tmp_path, store=tmp_path / "store", **keys) as server,
        EngineClient(server.port) as producer,
        EngineClient(server.port) as consumer,
        ExitStack() as stack,
    ):
        sender, receiver = producer.sender("q", streaming=True), consumer.receiver("q", credit=0)
        for number in range(4):
            if number == 1:
                # The queue is there.
                fill(server, stack)
            delivery = producer.start(sender, message[:100])
            streamed(producer, sender, message[100:])
            sender.advance()
            producer.until(lambda d=delivery: d.settled)  # type: ignore[misc]
            assert delivery.remote_state == Delivery.ACCEPTED
        for _ in range(4):
            receiver.flow(1)
            assert received(consumer, receiver, len(message)) == message
