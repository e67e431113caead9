"""Names of queues: an accepted name never stops the next start; an impossible one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Delivery
from support.clients import Clients
from support.judgement import assert_error
from support.processes import free_port, run
from support.sections import opened
from support.server import Server, command, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite, encode_frame, message
from quiver_fast.remote.client import Queue, quote

# Accepted, each of these stopped the next start, hid another queue, or was refused.
ADDRESSES = [
    "metadata.cq4t", "q1", "q1/20261123F.cq4", "x/metadata.cq4t", "q1/metadata.cq4t", ".", "..",
    "../outside", "q1/.quiver.lock", "q1/metadata.cq4t.partial", "/", "//", "a//b", "a/",
    "METADATA.CQ4T", "x" * 1024, "y" * 300 + "/z", "grün", "a b", "line\nbreak", "Q1", "%",
    "1/2/3/4/5/6/7/8/9/10", "1/2/3/4/5/6/7/8%2F9/10",
]  # fmt: skip


def send(clients: Clients, *addresses: str) -> None:
    """Have one durable message accepted at each address, whose body is the address."""
    connection = clients.connect()
    for address in addresses:
        clients.producer(connection, address).publish(address, durable=True)


def contents(clients: Clients, *addresses: str) -> dict[str, list[str]]:
    connection = clients.connect()
    return {address: clients.drain_queue(connection, address) for address in addresses}


def test_any_address_survives_a_restart(tmp_path: Path) -> None:
    keys = {"store": tmp_path / "store"}
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        send(clients, *ADDRESSES)
        server.kill()
    assert {path.name for path in tmp_path.iterdir() if "ready" not in path.name} == {"store"}
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        assert contents(clients, *ADDRESSES) == {address: [address] for address in ADDRESSES}


def test_any_name_of_a_remote_queue_survives_a_restart(tmp_path: Path) -> None:
    names = ["metadata.cq4t", "q1", "q1/metadata.cq4t", "q1/20261123F.cq4", ".quiver.lock"]
    for entries in (1, 2):
        with running_server(tmp_path, scheme="csp", store=tmp_path / "s", path="q1") as server:
            for name in names:
                with Queue(f"csp://127.0.0.1:{server.port}/{name}") as queue:
                    with queue.appender() as appender:
                        appender.submit(quote(name))
                    with queue.tailer() as tailer:
                        assert [e.value for e in tailer.read(10)] == [quote(name)] * entries


# -- addresses that cannot be


@pytest.fixture
def frames(server: Server) -> Iterator[FrameClient]:
    with opened(server.port) as client:
        yield client


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize(
    ("address", "condition"),
    [
        (b"a\0b", "amqp:invalid-field"),
        (b"\0\0\0", "amqp:invalid-field"),
        (b"\xff\xfe\xfd", "amqp:decode-error"),
        (b"a\xed\xa0\x80", "amqp:decode-error"),
        (b"z" * 1025, "amqp:invalid-field"),
    ],
)
def test_impossible_addresses_are_refused(
    frames: FrameClient, role: str, address: bytes, condition: str
) -> None:
    stand_in = "#" * len(address)
    termini = {"source": composite("source"), "target": composite("target")}
    termini[role] = composite(role, address=stand_in)
    attach = encode_frame(
        "attach", name="l", handle=0, role=role == "source", initial_delivery_count=0, **termini
    )
    frames.send_bytes(attach.replace(stand_in.encode(), address))
    assert role not in frames.expect("attach").fields
    assert frames.expect("detach").condition == condition


@pytest.mark.parametrize(
    ("to", "condition"),
    [
        (b"a\0b", "amqp:not-found"),
        (b"z" * 1025, "amqp:not-found"),
        (b"\xff\xfe\xfd", "amqp:decode-error"),
    ],
)
def test_impossible_addresses_of_the_anonymous_terminus(
    clients: Clients, to: bytes, condition: str
) -> None:
    null, stand_in = Value("null", None), "#" * len(to)
    fields = Value("list", (null, null, Value("string", stand_in)))
    properties = encode(Value("described", (Value("ulong", 0x73), fields)))
    producer = clients.producer(clients.connect(), None)
    delivery = producer.send_encoded(properties.replace(stand_in.encode(), to) + message(b"x"))
    clients.wait(lambda: bool(delivery.remote_state), "an outcome")
    assert delivery.remote_state == Delivery.REJECTED
    assert delivery.remote.condition.name == condition


# -- what others put into the store


def test_a_folder_called_as_a_queues_file(tmp_path: Path) -> None:
    keys = {"store": tmp_path / "store"}
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        send(clients, "q1")
    (tmp_path / "store" / "q1" / "20200101F.cq4").mkdir()
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        assert contents(clients, "q1") == {"q1": ["q1"]}


def with_a_bad_queue(tmp_path: Path) -> Path:
    """Fill the queues `good` and `bad`; return the folder in place of the lock of `bad`."""
    keys = {"store": tmp_path / "store", "path": "good"}
    with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
        send(clients, "bad", "good")
    lock = tmp_path / "store" / "bad" / ".quiver.lock"
    lock.unlink()
    lock.mkdir()
    return lock


def test_a_server_is_not_ready_without_its_own_queue(tmp_path: Path) -> None:
    with_a_bad_queue(tmp_path)
    words = command(free_port(), store=tmp_path / "store", path="bad")
    assert_error(run(words), "queue 'bad' cannot be served: ")


def test_a_queue_that_cannot_be_opened_is_refused_and_the_others_serve(tmp_path: Path) -> None:
    """It is served as soon as it can be."""
    lock = with_a_bad_queue(tmp_path)
    keys = {"store": tmp_path / "store", "path": "good"}
    running = running_server(tmp_path, says="queue 'bad' is not served: ", **keys)
    with running as server, Clients(server.port) as clients:
        assert contents(clients, "good") == {"good": ["good"]}
        producer = clients.producer(clients.connect(), "bad")
        assert producer.condition() == "amqp:internal-error"
        lock.rmdir()
        assert contents(clients, "bad") == {"bad": ["bad"]}
