"""Durable streams: in the queue's file as they arrive, whole or not at all, in constant memory."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery, Sender
from support.engine_client import EngineClient
from support.measured import Figure
from support.processes import wait_until
from support.server import Server, running_server
from support.streams import head, received, rss

from quiver_fast.queuefile.live import LiveEntries
from tests.functional.server.test_torn_transactions import documents

MEBIBYTE = 1 << 20
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"
# A header section that says nothing: not durable.
PLAIN = b"\x00\x53\x70\xc0\x02\x01\x42"
# Heads of a part, of a reference to parts, and of an earlier server's part.
PART = b"\xb9\x0bquiver.part\x82"
REFERENCE = b"\xffquiver\x02"
MAGIC = b"\xffquiver\x01"
QUEUE = "orders"
Start = Callable[..., Server]


def streamed(producer: EngineClient, sender: Sender, data: bytes) -> None:
    """Send more of the current delivery, as fast as it goes, and have it on its way."""
    for begin in range(0, len(data), 65536):
        producer.until(lambda: sender.session.outgoing_bytes < 65536)
        sender.stream(data[begin : begin + 65536])
        producer.pump(0)
    producer.until(lambda: sender.session.outgoing_bytes == 0)


def send(producer: EngineClient, sender: Sender, message: bytes) -> Delivery:
    """Send a message in frames, and wait for its outcome."""
    delivery = producer.start(sender, message[:100])
    streamed(producer, sender, message[100:])
    sender.advance()
    producer.until(lambda: delivery.settled)
    return delivery


def message_of(body: bytes) -> bytes:
    return DURABLE + head(len(body)) + body


def live(store: Path, queue: str = QUEUE) -> list[bytes]:
    """Return the raw entries of a queue that are not removed."""
    if not (store / queue).exists():
        # It is made with the first of them.
        return []
    return [entry[6:] for _, entry in LiveEntries(store / queue)]


def parts_of(queue: Path) -> dict[tuple[int, int], bytes]:
    """Return the bytes of all parts in a queue's files, by number of the chain and of the part."""
    found = {}
    for path in sorted(queue.glob("*.cq4")):
        for _, content in documents(path):
            if content.startswith(PART):
                chain, part = struct.unpack_from("<QI", content, len(PART) + 5)
                found[chain, part] = content[len(PART) + 21 :]
    return found


def stored(store: Path) -> int:
    """Return how many bytes the queue's files have of long messages."""
    return sum(map(len, parts_of(store / QUEUE).values())) if (store / QUEUE).exists() else 0


def nothing_comes(server: Server) -> bool:
    """Say whether the queue has nothing for a consumer."""
    with EngineClient(server.port) as consumer:
        receiver = consumer.receiver(QUEUE, 0)
        receiver.drain(1)
        # The server takes the credit back when there is nothing.
        consumer.until(lambda: receiver.queued > 0 or receiver.credit == 0)
        return receiver.queued == 0


class TestWholeOrNotAtAll:
    def test_it_is_in_the_file_as_it_arrives(self, start: Start, tmp_path: Path) -> None:
        """Accepted when all of it is there; other readers of the file see nothing before that."""
        server = start(store=tmp_path / "store")
        message = message_of(os.urandom(MEBIBYTE))
        with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
            sender = producer.sender(QUEUE, streaming=True)
            delivery = producer.start(sender, message[:100])
            streamed(producer, sender, message[100:600_000])
            wait_until(lambda: stored(tmp_path / "store") >= 500_000, "most of it is stored")
            assert live(tmp_path / "store") == []
            assert not delivery.settled
            streamed(producer, sender, message[600_000:])
            sender.advance()
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED
            assert live(tmp_path / "store") == [message]
            assert received(consumer, consumer.receiver(QUEUE), len(message)) == message
        server.end()
        assert live(tmp_path / "store") == []

    def test_one_longer_than_an_entry(self, tmp_path: Path) -> None:
        """Its entry refers to its parts, after a crash as well."""
        store = tmp_path / "store"
        message = message_of(os.urandom(17 * MEBIBYTE))
        with (
            running_server(tmp_path, store=store) as server,
            EngineClient(server.port) as producer,
        ):
            delivery = send(producer, producer.sender(QUEUE, streaming=True), message)
            assert delivery.remote_state == Delivery.ACCEPTED
            (entry,) = live(store)
            assert entry.startswith(REFERENCE)
            assert entry[32:] == message[:4096]
            server.kill()
        with running_server(tmp_path, store=store) as again:
            with EngineClient(again.port) as consumer:
                receiver = consumer.receiver(QUEUE)
                assert received(consumer, receiver, len(message)) == message
            assert nothing_comes(again)
        assert live(store) == []

    @pytest.mark.parametrize("part", [70_000, MEBIBYTE, 2 * MEBIBYTE])
    def test_a_crash_before_its_end(self, tmp_path: Path, part: int) -> None:
        store = tmp_path / "store"
        message = message_of(b"x" * 2 * MEBIBYTE)
        with (
            running_server(tmp_path, store=store) as server,
            EngineClient(server.port) as producer,
        ):
            sender = producer.sender(QUEUE, streaming=True)
            delivery = producer.start(sender, message[:100])
            streamed(producer, sender, message[100:part])
            wait_until(lambda: stored(store) > 0, "some of it is stored")
            server.kill()
            assert not delivery.settled
        with running_server(tmp_path, store=store) as again:
            assert nothing_comes(again)
        assert live(store) == []

    @pytest.mark.parametrize("durability", ["none", "group"])
    def test_a_crash_after_its_end(self, tmp_path: Path, durability: str) -> None:
        keys = {"store": tmp_path / "store", "durability": durability}
        message = message_of(os.urandom(MEBIBYTE))
        with (
            running_server(tmp_path, **keys) as server,
            EngineClient(server.port) as producer,
        ):
            delivery = send(producer, producer.sender(QUEUE, streaming=True), message)
            assert delivery.remote_state == Delivery.ACCEPTED
            server.kill()
        with running_server(tmp_path, **keys) as again:
            with EngineClient(again.port) as consumer:
                receiver = consumer.receiver(QUEUE)
                assert received(consumer, receiver, len(message)) == message
            assert nothing_comes(again)
        assert live(tmp_path / "store") == []

    @pytest.mark.parametrize("way", ["abort", "detach", "cut"])
    def test_a_sender_that_gives_up(self, start: Start, tmp_path: Path, way: str) -> None:
        server = start(store=tmp_path / "store")
        with EngineClient(server.port) as producer:
            sender = producer.sender(QUEUE, streaming=True)
            delivery = producer.start(sender, message_of(b"x" * MEBIBYTE)[:100])
            streamed(producer, sender, b"x" * 500_000)
            if way == "abort":
                delivery.abort()
            elif way == "detach":
                sender.detach()
            producer.pump(0)
        assert live(tmp_path / "store") == []
        assert nothing_comes(server)


class TestDelivery:
    def test_several_at_once(self, start: Start, tmp_path: Path) -> None:
        """Their parts lie among each other's and among whole messages."""
        server = start(store=tmp_path / "store")
        messages = [message_of(os.urandom(400_000)) for _ in range(3)]
        with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
            senders = [producer.sender(QUEUE, streaming=True) for _ in messages]
            small = producer.sender(QUEUE)
            for sender, message in zip(senders, messages, strict=True):
                producer.start(sender, message[:100])
            for begin in range(100, 400_100, 100_000):
                for sender, message in zip(senders, messages, strict=True):
                    streamed(producer, sender, message[begin : begin + 100_000])
                producer.send(small, DURABLE + head(2) + b"ab")
            for sender in senders:
                sender.stream(messages[senders.index(sender)][400_100:])
                sender.advance()
            producer.pump(0)
            receiver = consumer.receiver(QUEUE)
            found = []
            for _ in range(len(messages) + 4):
                consumer.until(lambda: receiver.current is not None or producer.pump(0))
                data = b""
                while receiver.current.partial or receiver.current.pending:
                    producer.pump(0)
                    consumer.pump(0.01)
                    data += receiver.recv(MEBIBYTE) or b""
                consumer.accept(receiver)
                found.append(data)
            assert sorted(found) == sorted([*messages, *[DURABLE + head(2) + b"ab"] * 4])

    def test_a_consumer_that_goes_leaves_it_for_the_next(
        self, start: Start, tmp_path: Path
    ) -> None:
        server = start(store=tmp_path / "store")
        message = message_of(os.urandom(MEBIBYTE))
        with EngineClient(server.port) as producer:
            send(producer, producer.sender(QUEUE, streaming=True), message)
        with EngineClient(server.port) as consumer:
            assert len(consumer.read(consumer.receiver(QUEUE), 1000)) < len(message)
        with EngineClient(server.port) as consumer:
            receiver = consumer.receiver(QUEUE)
            data = received(consumer, receiver, len(message))
            # Its header says now that somebody had it before.
            assert data.endswith(message[len(DURABLE) :])
            assert data[:3] == DURABLE[:3]
        assert nothing_comes(server)

    def test_a_rejection_in_the_middle_removes_it(self, start: Start, tmp_path: Path) -> None:
        server = start(store=tmp_path / "store")
        with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
            send(producer, producer.sender(QUEUE, streaming=True), message_of(b"x" * 3 * MEBIBYTE))
            receiver = consumer.receiver(QUEUE)
            consumer.read(receiver, 100)
            receiver.current.update(Delivery.REJECTED)
            receiver.current.settle()
            consumer.pump(0)
            wait_until(lambda: live(tmp_path / "store") == [], "it is removed")

    def test_a_stream_for_nobody_is_kept(self, start: Start, tmp_path: Path) -> None:
        """Where there is a file, a stream that is not durable waits in it as well."""
        server = start(store=tmp_path / "store")
        message = PLAIN + head(MEBIBYTE) + os.urandom(MEBIBYTE)
        with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
            delivery = send(producer, producer.sender(QUEUE, streaming=True), message)
            assert delivery.remote_state == Delivery.ACCEPTED
            assert received(consumer, consumer.receiver(QUEUE), len(message)) == message


@pytest.mark.measured
class TestMemory:
    def test_it_is_constant(self, start: Start, tmp_path: Path, figure: Figure) -> None:
        server = start(store=tmp_path / "store")
        size = 64 * MEBIBYTE
        piece = b"x" * MEBIBYTE
        with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
            sender = producer.sender(QUEUE, streaming=True)
            before = peak = rss(server)
            delivery = producer.start(sender, DURABLE + head(size))
            for _ in range(size // MEBIBYTE):
                streamed(producer, sender, piece)
                peak = max(peak, rss(server))
            sender.advance()
            producer.until(lambda: delivery.settled)
            receiver = consumer.receiver(QUEUE)
            left = size + len(DURABLE) + 8
            while left:
                consumer.pump(0.01)
                while receiver.current is not None and (part := receiver.recv(MEBIBYTE)):
                    left -= len(part)
                peak = max(peak, rss(server))
            figure("bytes held of a stream", peak - before, at_most=20 * MEBIBYTE, unit="B")
