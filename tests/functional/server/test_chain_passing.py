"""Durable streams that are passed on while they are stored, from the file as far as it goes."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery, Receiver
from proton.reactor import Selector
from support.clients import Clients
from support.durable_client import DurableClient
from support.engine_client import EngineClient
from support.processes import wait_until
from support.server import Server, running_server
from support.streams import head, received, together

from tests.functional.server.test_chains import (
    DURABLE,
    MEBIBYTE,
    PLAIN,
    QUEUE,
    live,
    message_of,
    nothing_comes,
    stored,
    streamed,
)

Start = Callable[..., Server]
LINKS = pytest.mark.parametrize("links", [False, True])


def taken(consumer: EngineClient, base: Receiver, links: bool) -> Receiver:
    """Return the link that a stream comes by."""
    return consumer.take() if links else base


@LINKS
@pytest.mark.parametrize(("early", "form"), [(True, DURABLE), (False, DURABLE), (False, PLAIN)])
def test_each_piece_comes_before_the_next_is_sent(
    start: Start, tmp_path: Path, links: bool, early: bool, form: bytes
) -> None:
    """As an endless one must. The consumer is there first, or comes in its midst."""
    server = start(store=tmp_path / "store")
    message = form + head(MEBIBYTE) + os.urandom(MEBIBYTE)
    begun = 1000 if early else 300_000
    with (
        EngineClient(server.port) as producer,
        EngineClient(server.port, streaming_links=links) as consumer,
    ):
        base = consumer.receiver(QUEUE) if early else None
        sender = producer.sender(QUEUE, streaming=True)
        delivery = producer.start(sender, message[:100])
        streamed(producer, sender, message[100:begun])
        if base is None:
            wait_until(lambda: stored(tmp_path / "store") > 0, "some of it is stored")
            base = consumer.receiver(QUEUE)
        link = taken(consumer, base, links)
        data = consumer.read(link, begun - 65536)
        for end in (begun + 10, 700_000, len(message) - 1):
            streamed(producer, sender, message[max(begun, len(data)) : end])
            begun = end
            data += consumer.read(link, end - len(data))
            assert not delivery.settled
        sender.stream(message[-1:])
        sender.advance()
        producer.until(lambda: delivery.settled)
        data += received(consumer, link, 1)
        assert data == message
        assert delivery.remote_state == Delivery.ACCEPTED
        wait_until(lambda: live(tmp_path / "store") == [], "it is removed")
    assert nothing_comes(server)


@LINKS
@pytest.mark.parametrize("way", ["abort", "detach", "cut"])
def test_its_sender_gives_up(start: Start, tmp_path: Path, links: bool, way: str) -> None:
    """The consumer sees that, the file has no message, and the next one comes."""
    server = start(store=tmp_path / "store")
    with EngineClient(server.port, streaming_links=links) as consumer:
        base = consumer.receiver(QUEUE)
        with EngineClient(server.port) as producer:
            sender = producer.sender(QUEUE, streaming=True)
            delivery = producer.start(sender, message_of(b"x" * MEBIBYTE)[:200_000])
            link = taken(consumer, base, links)
            consumer.read(link, 100_000)
            if way == "abort":
                delivery.abort()
            elif way == "detach":
                sender.detach()
            producer.pump(0)
        consumer.until(lambda: link.current.aborted)
        link.current.settle()
        assert live(tmp_path / "store") == []
        with EngineClient(server.port) as producer:
            message = message_of(os.urandom(300_000))
            sender = producer.sender(QUEUE, streaming=True)
            producer.start(sender, message)
            sender.advance()
            assert received(consumer, link, len(message), producer) == message


def test_a_crash_in_its_midst(tmp_path: Path) -> None:
    """The consumer's delivery is not whole, and the file has no message."""
    store = tmp_path / "store"
    message = message_of(b"x" * MEBIBYTE)
    with (
        running_server(tmp_path, store=store) as server,
        EngineClient(server.port) as producer,
        EngineClient(server.port) as consumer,
    ):
        receiver = consumer.receiver(QUEUE)
        producer.start(producer.sender(QUEUE, streaming=True), message[:200_000])
        consumer.read(receiver, 100_000)
        server.kill()
        consumer.until(lambda: consumer.closed_by_peer)
        assert receiver.current.partial
    with running_server(tmp_path, store=store) as again:
        assert nothing_comes(again)
    assert live(store) == []


@LINKS
@pytest.mark.parametrize("crash", [False, True])
def test_a_consumer_that_goes_leaves_it_for_the_next(
    tmp_path: Path, links: bool, crash: bool
) -> None:
    """From its beginning, and its sender notices nothing."""
    store = tmp_path / "store"
    message = message_of(os.urandom(MEBIBYTE))
    with running_server(tmp_path, store=store) as server:
        with EngineClient(server.port) as producer:
            sender = producer.sender(QUEUE, streaming=True)
            with EngineClient(server.port, streaming_links=links) as consumer:
                base = consumer.receiver(QUEUE)
                delivery = producer.start(sender, message[:300_000])
                consumer.read(taken(consumer, base, links), 100_000)
            with EngineClient(server.port, streaming_links=links) as consumer:
                base = consumer.receiver(QUEUE)
                link = taken(consumer, base, links)
                data = consumer.read(link, 200_000)
                streamed(producer, sender, message[300_000:])
                sender.advance()
                producer.until(lambda: delivery.settled)
                assert delivery.remote_state == Delivery.ACCEPTED
                if not crash:
                    data += received(consumer, link, MEBIBYTE - len(data))
                    # Its header says that somebody had it before.
                    assert data.endswith(message[len(DURABLE) :])
                else:
                    server.kill()
        if not crash:
            assert nothing_comes(server)
    if crash:
        with running_server(tmp_path, store=store) as again, EngineClient(again.port) as consumer:
            receiver = consumer.receiver(QUEUE)
            assert received(consumer, receiver, len(message)) == message


@LINKS
def test_messages_do_not_wait_behind_it(start: Start, tmp_path: Path, links: bool) -> None:
    """A consumer that takes links for streams gets them on its own; others wait for no consumer."""
    server = start(store=tmp_path / "store")
    small = DURABLE + head(1) + b"s"
    with (
        EngineClient(server.port) as producer,
        EngineClient(server.port, streaming_links=links) as consumer,
        EngineClient(server.port) as other,
    ):
        base = consumer.receiver(QUEUE)
        sender = producer.sender(QUEUE, streaming=True)
        producer.start(sender, message_of(b"x" * MEBIBYTE)[:200_000])
        consumer.read(taken(consumer, base, links), 1000)
        receiver = base if links else other.receiver(QUEUE)
        client = consumer if links else other
        producer.send(producer.sender(QUEUE), small)
        assert received(client, receiver, len(small), producer) == small


@LINKS
@pytest.mark.parametrize("outcome", [Delivery.ACCEPTED, Delivery.REJECTED])
def test_an_outcome_before_its_end(start: Start, tmp_path: Path, links: bool, outcome: int) -> None:
    """Its sender hears of that though it sends nothing more, and the file has no message."""
    server = start(store=tmp_path / "store")
    with (
        EngineClient(server.port) as producer,
        EngineClient(server.port, streaming_links=links) as consumer,
    ):
        base = consumer.receiver(QUEUE)
        sender = producer.sender(QUEUE, streaming=True)
        delivery = producer.start(sender, message_of(b"x" * MEBIBYTE)[:200_000])
        link = taken(consumer, base, links)
        consumer.read(link, 1000)
        link.current.update(outcome)
        link.current.settle()
        consumer.pump(0)
        producer.until(lambda: bool(delivery.remote_state))
        assert delivery.remote_state == outcome
        assert not delivery.settled
        streamed(producer, sender, b"x" * 300_000)
        sender.advance()
        producer.until(lambda: delivery.settled)
        assert live(tmp_path / "store") == []
    assert nothing_comes(server)


def modified(client: EngineClient, delivery: Delivery) -> None:
    """Give a delivery back, not to come by this link again."""
    delivery.local.undeliverable = True
    delivery.update(Delivery.MODIFIED)
    delivery.settle()
    client.sync()


@pytest.mark.parametrize("aborted", [False, True])
def test_undeliverable_before_its_end(start: Start, tmp_path: Path, aborted: bool) -> None:
    """The link that said so gets no more of it, another one all; an abort leaves nothing."""
    server = start(store=tmp_path / "store")
    message = message_of(os.urandom(MEBIBYTE))
    small = DURABLE + head(1) + b"s"
    with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
        receiver = consumer.receiver(QUEUE)
        sender = producer.sender(QUEUE, streaming=True)
        delivery = producer.start(sender, message[:200_000])
        consumer.read(receiver, 1000)
        modified(consumer, receiver.current)
        if aborted:
            delivery.abort()
        else:
            streamed(producer, sender, message[200_000:])
            sender.advance()
            producer.until(lambda: delivery.settled)
        producer.sync()
        producer.send(producer.sender(QUEUE), small)
        assert received(consumer, receiver, len(small), producer) == small
        assert nothing_comes(server) is aborted
        # The first consumer released it when it went: its header is new.
        assert [len(each) for each in live(tmp_path / "store")] == [len(message)] * (not aborted)


def test_given_back_when_it_is_whole(start: Start, tmp_path: Path) -> None:
    """It is behind messages that were whole before, with and without a selector."""
    server = start(store=tmp_path / "store")
    message = message_of(os.urandom(MEBIBYTE))
    small = DURABLE + head(1) + b"s"
    with EngineClient(server.port) as producer, EngineClient(server.port) as other:
        sender = producer.sender(QUEUE, streaming=True)
        with EngineClient(server.port) as consumer:
            receiver = consumer.receiver(QUEUE, 1)
            delivery = producer.start(sender, message[:200_000])
            consumer.read(receiver, 1000)
            for _ in range(3):
                producer.send(producer.sender(QUEUE), small)
            producer.sync()
            streamed(producer, sender, message[200_000:])
            sender.advance()
            producer.until(lambda: delivery.settled)
            receiver.current.update(Delivery.RELEASED)
            receiver.current.settle()
            consumer.sync()
        receiver = other.receiver(QUEUE)
        for _ in range(3):
            assert received(other, receiver, len(small)) == small
        assert received(other, receiver, MEBIBYTE).endswith(message[len(DURABLE) :])
        wait_until(lambda: live(tmp_path / "store") == [], "all are removed")


def color_of(name: bytes) -> bytes:
    """Return application properties of a color."""
    pair = b"\xa1\x05color\xa1" + bytes([len(name)]) + name
    return b"\x00\x53\x74\xc1" + bytes([len(pair) + 1, 2]) + pair


@pytest.mark.parametrize("cut", [10, 200, 5000])
def test_a_selector_is_asked_when_the_properties_are_there(
    start: Start, tmp_path: Path, cut: int
) -> None:
    """Wherever the fragments end: also `IS NULL` waits for all of them."""
    server = start(store=tmp_path / "store")
    annotations = b"\x00\x53\x72\xd1" + struct.pack(">II", 3011, 2)
    annotations += b"\xa3\x01k\xb0" + struct.pack(">I", 2999) + bytes(2999)
    form = DURABLE + annotations + color_of(b"blue")
    message = form + head(MEBIBYTE) + os.urandom(MEBIBYTE)
    with EngineClient(server.port) as producer, Clients(server.port) as clients:
        red = clients.consumer(clients.connect(), QUEUE, Selector("color IS NULL"), credit=1)
        blue = clients.consumer(clients.connect(), QUEUE, Selector("color = 'blue'"), credit=1)
        sender = producer.sender(QUEUE, streaming=True)
        delivery = producer.start(sender, message[:cut])
        producer.sync()
        for end in (cut + 10, len(form) + 100, 300_000):
            sender.stream(message[cut:end])
            producer.sync()
            cut = max(cut, end)
        clients.wait(lambda: blue.link.current is not None, "it comes")
        streamed(producer, sender, message[cut:])
        sender.advance()
        producer.until(lambda: delivery.settled)
        assert blue.take_one().body == message[-MEBIBYTE:]
        assert red.bodies() == []


def test_a_transaction_that_has_it(start: Start, tmp_path: Path) -> None:
    """Its sender's abort leaves nothing for a rollback to bring back."""
    server = start(store=tmp_path / "store")
    with EngineClient(server.port) as producer, DurableClient(server.port) as consumer:
        coordinator = consumer.coordinator()
        transaction = consumer.declare(coordinator)
        receiver = consumer.receiver(QUEUE)
        sender = producer.sender(QUEUE, streaming=True)
        delivery = producer.start(sender, message_of(b"x" * MEBIBYTE)[:200_000])
        consumer.read(receiver, 1000)
        consumer.accept_in(transaction, receiver.current)
        consumer.sync()
        delivery.abort()
        producer.sync()
        consumer.discharge(coordinator, transaction, fail=True)
        assert nothing_comes(server)
    assert live(tmp_path / "store") == []


def test_its_files_go(start: Start, tmp_path: Path) -> None:
    """Parts keep no file that has no message, and an aborted one's are nobody's."""
    server = start(store=tmp_path / "store", roll_size=65536)
    with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
        receiver = consumer.receiver(QUEUE, 100)
        sender = producer.sender(QUEUE, streaming=True)
        for number in range(8):
            message = message_of(os.urandom(MEBIBYTE))
            delivery = producer.start(sender, message[:100])
            if number % 2:
                streamed(producer, sender, message[100:500_000])
                delivery.abort()
                together(lambda: receiver.current and receiver.current.aborted, producer, consumer)
                receiver.current.settle()
                continue
            sender.stream(message[100:])
            sender.advance()
            assert received(consumer, receiver, len(message), producer) == message

    def used() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "store" / QUEUE).glob("*.cq4"))

    wait_until(lambda: used() < 4 * MEBIBYTE, "files are deleted")


@pytest.mark.parametrize("given_back", [False, True])
def test_its_priority_counts_when_it_is_whole(
    start: Start, tmp_path: Path, given_back: bool
) -> None:
    """It goes before earlier messages of lower priority, also when a consumer had it meanwhile."""
    server = start(store=tmp_path / "store", priorities=QUEUE)
    low = b"\x00\x53\x70\xc0\x04\x02\x41\x50\x00" + head(1) + b"l"
    message = message_of(os.urandom(MEBIBYTE))
    with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
        sender = producer.sender(QUEUE, streaming=True)
        delivery = producer.start(sender, message[:200_000])
        receiver = consumer.receiver(QUEUE, 1) if given_back else None
        if receiver is not None:
            consumer.read(receiver, 1000)
        other = producer.sender(QUEUE)
        assert producer.send(other, low) is not None
        producer.sync()
        streamed(producer, sender, message[200_000:])
        sender.advance()
        producer.until(lambda: delivery.settled)
        if receiver is not None:
            receiver.current.update(Delivery.RELEASED)
            receiver.current.settle()
            receiver.flow(2)
        else:
            receiver = consumer.receiver(QUEUE, 2)
        assert received(consumer, receiver, MEBIBYTE).endswith(message[-1000:])
        assert received(consumer, receiver, len(low)) == low
