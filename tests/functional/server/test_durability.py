"""Durable messages: after a crash the accepted ones are there, the settled ones are not."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Delivery, Endpoint, Message, Receiver, Sender
from support.engine_client import EngineClient
from support.processes import free_port, run, wait_until
from support.server import Server, command, running_server

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.live import mark_transaction
from quiver_fast.queuefile.verify import verify_queue

QUEUE = "orders"


def encoded(number: int, *, durable: bool = True, body: bytes = b"") -> bytes:
    return Message(id=number, body=body or b"x" * 50, durable=durable).encode()


def number_of(data: bytes) -> int:
    message = Message()
    message.decode(data)
    return int(message.id)


def receive(client: EngineClient, receiver: Receiver) -> int:
    """Return the number of the next message, not yet settled."""
    client.until(lambda: receiver.current is not None and not receiver.current.partial)
    data = receiver.recv(receiver.current.pending)
    return number_of(data)


def drain(server: Server, address: str = QUEUE) -> list[int]:
    """Return the numbers of all messages that a queue holds, and accept them."""
    numbers: list[int] = []
    with EngineClient(server.port) as client:
        receiver = client.receiver(address, credit=0)
        receiver.drain(100_000)

        def is_drained() -> bool:
            take_all(receiver, numbers)
            return receiver.credit == 0 and receiver.current is None

        client.until(is_drained)
        receiver.close()
        # The server has read all outcomes when it answers.
        client.until(lambda: bool(receiver.state & Endpoint.REMOTE_CLOSED))
    return numbers


def send_all(client: EngineClient, sender: Sender, messages: list[bytes]) -> list[Delivery]:
    """Send messages and wait for their outcomes."""
    deliveries = []
    for message in messages:
        client.until(lambda: sender.credit > 0)
        deliveries.append(client.send(sender, message))
    client.until(lambda: all(delivery.remote_state for delivery in deliveries))
    return deliveries


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.mark.parametrize("durability", ["none", "interval:5", "group"])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_accepted_messages_survive(
    tmp_path: Path, store: Path, durability: str, end: signal.Signals
) -> None:
    with running_server(tmp_path, store=store, durability=durability) as server:
        with EngineClient(server.port) as client:
            sender = client.sender(QUEUE)
            deliveries = send_all(client, sender, [encoded(n) for n in range(500)])
            assert {delivery.remote_state for delivery in deliveries} == {Delivery.ACCEPTED}
        with EngineClient(server.port) as client:
            receiver = client.receiver(QUEUE, credit=200)
            for number in range(200):
                assert receive(client, receiver) == number
                client.accept(receiver)
            client.sync()
        finish(server, end)
    with running_server(tmp_path, store=store) as server:
        assert drain(server) == list(range(200, 500))
    with running_server(tmp_path, store=store) as server:
        assert drain(server) == []


def finish(server: Server, number: signal.Signals) -> None:
    """End the server as its context expects of a test that ends it on purpose."""
    if number == signal.SIGTERM:
        assert server.end(number).code == 0
        return
    server.kill()


def test_messages_that_are_not_durable_go(tmp_path: Path, store: Path) -> None:
    with running_server(tmp_path, store=store) as server, EngineClient(server.port) as client:
        sender = client.sender(QUEUE)
        messages = [encoded(n, durable=n % 2 == 0) for n in range(10)]
        send_all(client, sender, messages)
    with running_server(tmp_path, store=store) as server:
        assert drain(server) == [0, 2, 4, 6, 8]


def test_a_queue_gets_its_file_with_its_first_durable_message(tmp_path: Path, store: Path) -> None:
    with running_server(tmp_path, store=store) as server, EngineClient(server.port) as client:
        sender = client.sender(QUEUE)
        send_all(client, sender, [encoded(0, durable=False)])
        assert not (store / QUEUE).exists()
        send_all(client, sender, [encoded(1)])
        assert (store / QUEUE).exists()
        assert drain(server) == [0, 1]


def test_a_queue_that_cannot_have_a_file_says_so(tmp_path: Path, store: Path) -> None:
    store.mkdir()
    (store / QUEUE).write_text("in the way")
    running = running_server(tmp_path, store=store, says=QUEUE)
    with running as server, EngineClient(server.port) as client:
        sender = client.sender(QUEUE)
        states = [d.remote_state for d in send_all(client, sender, [encoded(0)])]
        assert states == [Delivery.MODIFIED]
        (store / QUEUE).unlink()
        states = [d.remote_state for d in send_all(client, sender, [encoded(0)])]
        assert states == [Delivery.ACCEPTED]


def test_disk_space_is_given_back(tmp_path: Path, store: Path) -> None:
    """Whatever goes through: a message that stays keeps its own file, the rest goes."""
    keys = {"store": store, "roll_size": 65536}
    with running_server(tmp_path, **keys) as server, EngineClient(server.port) as client:
        sender, receiver = client.sender(QUEUE), client.receiver(QUEUE, credit=1)
        send_all(client, sender, [encoded(0)])
        assert receive(client, receiver) == 0
        stuck = receiver.current
        receiver.advance()
        for first in range(1, 1001, 100):
            receiver.flow(100)
            numbers = range(first, first + 100)
            send_all(client, sender, [encoded(number, body=b"x" * 1000) for number in numbers])
            for number in numbers:
                assert receive(client, receiver) == number
                receiver.current.update(Delivery.ACCEPTED)
                receiver.current.settle()
            client.pump(0)
        wait_until(lambda: len(list((store / QUEUE).glob("*.cq4"))) <= 4, "files are deleted")
        stuck.update(Delivery.RELEASED)
        stuck.settle()
        client.sync()
        server.kill()
    with running_server(tmp_path, **keys) as server:
        assert drain(server) == [0]
    assert verify_queue(store / QUEUE).deviations == []


def test_order_and_outcomes_are_kept(tmp_path: Path, store: Path) -> None:
    with running_server(tmp_path, store=store) as server:
        with EngineClient(server.port) as client:
            send_all(client, client.sender(QUEUE), [encoded(n) for n in range(6)])
            receiver = client.receiver(QUEUE, credit=6)
            outcomes = [
                Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED,
            ]  # fmt: skip
            for outcome in outcomes:
                receive(client, receiver)
                receiver.current.update(outcome)
                receiver.current.settle()
                client.pump(0)
            client.sync()
        server.kill()
    with running_server(tmp_path, store=store) as server:
        assert drain(server) == [2, 3, 4, 5]


def test_the_store_has_one_writer(tmp_path: Path, store: Path) -> None:
    with running_server(tmp_path, store=store, path=QUEUE):
        ended = run(command(free_port(), store=store, path=QUEUE))
        assert ended.code == 1
        assert ended.stderr.count("\n") == 1
        assert "another process writes to this queue" in ended.stderr


def test_large_durable_messages(tmp_path: Path, store: Path) -> None:
    body = os.urandom(1_000_000)
    with running_server(tmp_path, store=store) as server, EngineClient(server.port) as client:
        sender = client.sender(QUEUE, streaming=True)
        send_all(client, sender, [encoded(7, body=body)])
    with running_server(tmp_path, store=store) as server, EngineClient(server.port) as client:
        receiver = client.receiver(QUEUE)
        client.until(lambda: receiver.current is not None)
        data = b""
        while receiver.current.partial or receiver.current.pending:
            data += receiver.recv(receiver.current.pending) if receiver.current.pending else b""
            client.pump(0.01)
        message = Message()
        message.decode(data)
        assert bytes(message.body) == body


def test_a_torn_transaction_never_was(tmp_path: Path, store: Path) -> None:
    appender = Appender(store / QUEUE)
    appender.append_raw(bytes(encoded(1)))
    mark_transaction(appender, "begin")
    appender.append_raw(bytes(encoded(2)))
    appender.append_raw(bytes(encoded(3)))
    appender.close()
    for _ in range(2):
        with running_server(tmp_path, store=store) as server, EngineClient(server.port) as client:
            receiver = client.receiver(QUEUE)
            assert receive(client, receiver) == 1
            client.sync()
            assert receiver.queued == 1
    with running_server(tmp_path, store=store) as server:
        with EngineClient(server.port) as client:
            send_all(client, client.sender(QUEUE), [encoded(4)])
        server.kill()
    with running_server(tmp_path, store=store) as server:
        assert drain(server) == [1, 4]


class TestKill:
    """kill -9 under load, at random moments; how often, QUIVER_FAST_KILLS says (default 4).

    Files are rolled after 64 KiB, so that some are rolled and deleted all the time.
    """

    KILLS = int(os.environ.get("QUIVER_FAST_KILLS", "4"))
    ACCEPTED = 100

    @pytest.mark.timeout(60 + 5 * KILLS)
    @pytest.mark.parametrize("durability", ["none", "interval:5", "group"])
    def test_nothing_accepted_is_lost(self, tmp_path: Path, store: Path, durability: str) -> None:
        moments = random.Random(f"kills-{durability}")
        accepted: set[int] = set()
        receipts = Receipts()
        sent = 0
        window = 50
        keys = {"store": store, "durability": durability, "roll_size": 65536}
        for _ in range(self.KILLS):
            with running_server(tmp_path, **keys) as server:
                received: list[int] = []
                seconds = 0.05 + 0.3 * moments.random()
                # On a machine that is too busy for that, the moment is a later one.
                least = len(accepted) + self.ACCEPTED // self.KILLS + 1
                sent = load(server, sent, accepted, received, window, seconds, least)
            receipts.note(received, window)
        with running_server(tmp_path, **keys) as server:
            receipts.note(drain(server), 0)
        print(f"{self.KILLS} kills, {durability}: {len(accepted)} accepted, "
              f"{len(receipts.all)} received, {receipts.again} again, "
              f"{len(accepted - receipts.all)} lost")  # fmt: skip
        assert accepted - receipts.all == set()
        assert len(accepted) > self.ACCEPTED
        # Files went as they were consumed.
        assert len(list((store / QUEUE).glob("*.cq4"))) <= 3


class Receipts:
    """Messages, and duplicates, of a consumer whose server is killed and started again."""

    def __init__(self) -> None:
        self.all: set[int] = set()
        self.again = 0
        self._may_return: set[int] = set()

    def note(self, received: list[int], window: int) -> None:
        """Take down the numbers between two kills; judge which of them had come before.

        Those may be only what the consumer had, or had settled within its last window
        of credit, when the server died: of all else the server knew the outcome.
        """
        numbers = set(received)
        assert len(numbers) == len(received), "twice from one server, without a release"
        returned = numbers & self.all
        assert returned <= self._may_return
        self.again += len(returned)
        self.all |= numbers
        self._may_return = self._may_return - numbers | set(received[-window:])


def load(
    server: Server, sent: int, accepted: set[int], received: list[int], window: int,
    seconds: float, least: int,
) -> int:  # fmt: skip
    """Send and receive at once until the server is killed; return the next number.

    That is after a time, and when so many at least are accepted.
    """
    with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
        sender = producer.sender(QUEUE)
        receiver = consumer.receiver(QUEUE, credit=window)
        open_deliveries: dict[int, Delivery] = {}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or len(accepted) < least:
            while len(open_deliveries) < window and sender.credit > 0:
                open_deliveries[sent] = producer.send(sender, encoded(sent))
                sent += 1
            producer.pump(0)
            note_accepted(open_deliveries, accepted)
            consumer.pump(0)
            take_all(receiver, received)
            receiver.flow(max(0, window - receiver.credit))
        server.kill()
        with contextlib.suppress(AssertionError, OSError):
            for _ in range(20):
                producer.pump(0.005)
                consumer.pump(0.005)
        note_accepted(open_deliveries, accepted)
        take_all(receiver, received)
    return sent


def note_accepted(open_deliveries: dict[int, Delivery], accepted: set[int]) -> None:
    for number, delivery in list(open_deliveries.items()):
        if delivery.remote_state == Delivery.ACCEPTED:
            accepted.add(number)
            del open_deliveries[number]


def take_all(receiver: Receiver, received: list[int]) -> None:
    while receiver.current is not None and not receiver.current.partial:
        received.append(number_of(receiver.recv(receiver.current.pending)))
        receiver.current.update(Delivery.ACCEPTED)
        receiver.current.settle()


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """Mount a file system of a few MiB; skips where that is not allowed."""
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs privileges that this machine does not give")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        running = running_server(tmp_path, says="No space left", store=disk / "store")
        with running as server, EngineClient(server.port) as client:
            sender = client.sender(QUEUE)
            body = b"x" * 10_000
            states = []
            number = 0
            while Delivery.MODIFIED not in states:
                states.append(
                    send_all(client, sender, [encoded(number, body=body)])[0].remote_state
                )
                number += 1
                assert number < 1000
            assert set(states[:-1]) == {Delivery.ACCEPTED}
            # The server is up, and goes on when there is space again.
            ballast.unlink()
            again = send_all(client, sender, [encoded(number, body=body)])[0]
            assert again.remote_state == Delivery.ACCEPTED
            assert drain(server) == [*range(number - 1), number]
