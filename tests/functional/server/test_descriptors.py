"""Few descriptors: accepted messages are there after a restart under the same limit."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Sender
from support.clients import Clients
from support.engine_client import EngineClient
from support.processes import wait_until
from support.server import Server, running_server
from support.streams import head, received

LIMIT = 100
# Descriptors that the server reserves for operations that must not fail (server.main).
RESERVED = 16
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"
ADDRESSES = [f"q{number}" for number in range(60)]


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


@pytest.mark.parametrize("durability", ["none", "group"])
def test_as_many_queues_as_the_limit_allows(tmp_path: Path, durability: str) -> None:
    keys = {"store": tmp_path / "store", "durability": durability, "descriptors": LIMIT}
    running = running_server(tmp_path, says="Too many open files", **keys)
    with running as server, Clients(server.port) as clients:
        connection = clients.connect()
        accepted = send_all(clients, connection, ADDRESSES)
        assert len(accepted) > 30
        # The queues that there are go on.
        assert send_all(clients, connection, accepted) == accepted
        server.kill()
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        assert contents(clients, accepted) == {address: [address] * 2 for address in accepted}


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
