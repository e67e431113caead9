"""New durable queues: their files are made while the server goes on, and nothing is lost."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import pytest
from proton import Delivery, Message, Sender
from support.durable_client import DurableClient, encoded
from support.processes import free_port
from support.remote import failure, receive, replies, reply, request
from support.server import Server, running_server

from tests.functional.server.test_durability import drain

MANY = 40


def addressed(address: str, number: int = 0, size: int = 50) -> bytes:
    """Return a durable message that names its address."""
    message = Message(id=number, address=address, body=b"x" * size, durable=True)
    return bytes(message.encode())


def send_all(client: DurableClient, sender: Sender, messages: list[bytes]) -> list[Delivery]:
    """Send messages, all before the first is answered if credit lets them."""
    deliveries = []
    for message in messages:
        client.until(lambda: sender.credit > 0)
        deliveries.append(client.send(sender, message))
    return deliveries


def is_in_turn(server: Server) -> bool:
    """Say whether another client is served."""
    with DurableClient(server.port) as client:
        sender = client.sender("bystander")
        return client.outcome(client.send(sender, encoded(1))) == Delivery.ACCEPTED


@pytest.mark.parametrize("durability", ["none", "group"])
def test_accepted_in_new_queues_is_there_after_a_crash(tmp_path: Path, durability: str) -> None:
    keys = {"store": tmp_path / "store", "durability": durability}
    names = [f"new/{number}" for number in range(MANY)]
    with running_server(tmp_path, **keys) as server, DurableClient(server.port) as client:
        sent = send_all(client, client.sender(None), [addressed(name) for name in names])
        client.until(lambda: all(each.remote_state for each in sent))
        assert {each.remote_state for each in sent} == {Delivery.ACCEPTED}
        server.kill()
    with running_server(tmp_path, **keys) as server, DurableClient(server.port) as client:
        for name in names:
            assert client.drain(name) == [0]


def test_two_links_to_one_new_queue_keep_their_orders(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, store=tmp_path / "store", durability="group") as server,
        DurableClient(server.port) as one,
        DurableClient(server.port) as two,
    ):
        senders = [(one, one.sender("new")), (two, two.sender(None))]
        # One is given to the server before either is answered.
        sent = []
        for number in range(10):
            for each, (client, sender) in enumerate(senders):
                client.until(lambda sender=sender: sender.credit > 0)
                body = addressed("new", 100 * each + number)
                sent.append((client, client.send(sender, body)))
        for client, delivery in sent:
            assert client.outcome(delivery) == Delivery.ACCEPTED
        found = drain(server, "new")
    for each in range(2):
        mine = [number for number in found if number // 100 == each]
        assert mine == [100 * each + number for number in range(10)]


def test_a_long_message_waits_for_its_file(tmp_path: Path) -> None:
    """Its parts are written as they come, once there is a file for them."""
    with (
        running_server(tmp_path, store=tmp_path / "store") as server,
        DurableClient(server.port) as client,
    ):
        sent = send_all(client, client.sender("long"), [encoded(1, 3_000_000), encoded(2)])
        for delivery in sent:
            assert client.outcome(delivery) == Delivery.ACCEPTED
        assert drain(server, "long") == [1, 2]


@pytest.mark.parametrize("fails", [False, True])
def test_a_commit_waits_for_the_files_of_its_queues(tmp_path: Path, fails: bool) -> None:
    """The discharge is on its way before any of its messages has a file to be in."""
    store = tmp_path / "store"
    names = [f"q{number}/in" for number in range(5)]
    if fails:
        store.mkdir()
        (store / "q3").write_text("in the way")
    says = "q3/in: File exists" if fails else ""
    with (
        running_server(tmp_path, store=store, says=says) as server,
        DurableClient(server.port) as client,
    ):
        coordinator = client.coordinator()
        transaction = client.declare(coordinator)
        sender = client.sender(None)
        client.until(lambda: sender.credit > len(names))
        for name in names:
            client.send_in(transaction, sender, addressed(name))
        assert client.discharge(coordinator, transaction) is not fails
        assert is_in_turn(server)
        server.kill()
    with running_server(tmp_path, store=store) as server:
        for name in names[:3]:
            assert drain(server, name) == ([] if fails else [0])


def test_stopped_while_queues_are_made(tmp_path: Path) -> None:
    """The server ends in order; the accepted messages are there."""
    store = tmp_path / "store"
    names = [f"new{number}" for number in range(60)]
    with running_server(tmp_path, store=store) as server, DurableClient(server.port) as client:
        sender = client.sender(None)
        sent = send_all(client, sender, [addressed(name) for name in names])
        client.until(lambda: bool(sent[0].remote_state))
        server.running.send_signal(signal.SIGTERM)
        client.until(lambda: client.is_over)
        accepted = [
            name for name, each in zip(names, sent, strict=True)
            if each.remote_state == Delivery.ACCEPTED
        ]  # fmt: skip
    with running_server(tmp_path, store=store) as server, DurableClient(server.port) as client:
        for name in accepted:
            assert client.drain(name) == [0]


def test_a_queue_that_cannot_be_made_is_refused_and_others_are_made(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "file").write_text("in the way")
    with (
        running_server(tmp_path, store=store, says="file/long: File exists") as server,
        DurableClient(server.port) as client,
    ):
        anonymous, long = client.sender(None), client.sender("file/long")
        sent = send_all(client, anonymous, [
            addressed("file/a"), addressed("good", 1), addressed("file/a"), addressed("good", 2),
        ])  # fmt: skip
        parts = client.send(long, encoded(1, 3_000_000))
        states = [client.outcome(delivery) for delivery in sent]
        assert states == [Delivery.MODIFIED, Delivery.ACCEPTED] * 2
        assert sent[0].remote.failed
        assert client.outcome(parts) == Delivery.MODIFIED
        assert drain(server, "good") == [1, 2]
        # A queue without a file must not refuse messages that need none.
        plain = Message(address="file/a", body=b"x").encode()
        assert client.outcome(client.send(anonymous, plain)) == Delivery.ACCEPTED


def test_its_producer_goes_while_a_queue_is_made(tmp_path: Path) -> None:
    with running_server(tmp_path, store=tmp_path / "store") as server:
        for number in range(10):
            with DurableClient(server.port) as client:
                sender = client.sender(None)
                send_all(client, sender, [addressed(f"left{number}-{each}") for each in range(3)])
                client.pump(0)
        assert is_in_turn(server)


# -- remote queues


def submit(queue: str, tid: int, text: str = "an entry") -> bytes:
    return request(f'submit: "{text}"', csp=f"//h/{queue}#appender", tid=tid)


def test_both_protocols_make_one_queue_at_once(tmp_path: Path) -> None:
    port = free_port()
    with running_server(tmp_path, store=tmp_path / "store", csp_port=port) as server:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            for number in range(20):
                sock.sendall(submit(f"both{number}", 1))
                with DurableClient(server.port) as client:
                    sent = client.send(client.sender(f"both{number}"), encoded(number))
                    assert client.outcome(sent) == Delivery.ACCEPTED
            assert len(replies(receive(sock, 20))) == 20
        assert drain(server, "both7") == [7]


def test_documents_keep_their_order_behind_a_new_queue(tmp_path: Path) -> None:
    """The answers come in the order of the requests, and what comes in pieces is taken."""
    store, port = tmp_path / "store", free_port()
    store.mkdir()
    (store / "file").write_text("in the way")
    count = 15
    data = b"".join(
        submit(f"new{number}", 4 * number)
        + submit("file/x", 4 * number + 1)
        + submit(f"new{number}", 4 * number + 2)
        + request("createTailer: { }", csp=f"//h/new{number}#Queue", tid=4 * number + 3)
        for number in range(count)
    )
    keys = {"store": store, "csp_port": port, "durability": "group"}
    with running_server(tmp_path, **keys), socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(data[:1000])
        sock.sendall(data[1000:])
        sock.shutdown(socket.SHUT_WR)
        answers = receive(sock, 4 * count, timeout=60)
        assert sock.recv(1) == b""
    found = [tid for tid, _ in replies(answers)]
    assert found == list(range(4 * count))
    refused = [content for tid, content in replies(answers) if tid % 4 == 1]
    assert all("File exists" in each["exception"]["message"] for each in refused)


def test_a_client_of_remote_queues_goes_while_one_is_made(tmp_path: Path) -> None:
    port = free_port()
    with running_server(tmp_path, store=tmp_path / "store", csp_port=port):
        for number in range(10):
            with socket.create_connection(("127.0.0.1", port)) as sock:
                sock.sendall(submit(f"left{number}", 1))
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(submit("stays", 1))
            assert "index" in reply(receive(sock, 1))[1]


# -- limits


def test_remote_queues_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    """Those that exist are served, also after a restart."""
    store, port = tmp_path / "store", free_port()
    keys = {"scheme": "csp", "path": "", "store": store, "max_queues": 3}
    for _ in range(2):
        with (
            running_server(tmp_path, port=port, **keys),
            socket.create_connection(("127.0.0.1", port)) as sock,
        ):
            for name in ("a", "b", "c"):
                sock.sendall(submit(name, 1))
                assert "index" in reply(receive(sock, 1))[1]
            sock.sendall(submit("d", 2))
            _, kind, message = failure(receive(sock, 1))
            assert "3 queues, the most there may be" in message
            assert re.search("reject", kind, re.IGNORECASE)


def test_addresses_beyond_the_limit_are_refused_in_words(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, max_queues=3, path="first") as server,
        DurableClient(server.port) as client,
    ):
        sender = client.sender(None)
        sent = send_all(client, sender, [addressed(name) for name in ("b", "c", "d")])
        states = [client.outcome(delivery) for delivery in sent]
        assert states == [Delivery.ACCEPTED, Delivery.ACCEPTED, Delivery.REJECTED]
        condition = sent[2].remote.condition
        assert condition.name == "amqp:resource-limit-exceeded"
        assert condition.description == "the server has 3 queues, the most there may be"


def test_appenders_of_a_remote_connection_are_limited(tmp_path: Path) -> None:
    """Those with a cid and those without one count."""
    port = free_port()
    keys = {"scheme": "csp", "path": "", "store": tmp_path / "store", "max_links": 3}
    with (
        running_server(tmp_path, port=port, **keys),
        socket.create_connection(("127.0.0.1", port)) as sock,
    ):
        sock.sendall(
            request("createTailer: { }", csp="//h/a#Queue", tid=1)
            + submit("a", 2) + submit("b", 3) + submit("c", 4) + submit("a", 5)
            + request("createAppender: { }", csp="//h/a#Queue", tid=6)
        )  # fmt: skip
        answers = dict(replies(receive(sock, 6)))
        refused = [tid for tid, content in answers.items() if "exception" in content]
        assert refused == [4, 6]
        assert answers[4]["exception"]["message"] == (
            "the connection has 3 cids, the most there may be"
        )
