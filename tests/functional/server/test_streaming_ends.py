"""How streams end before their end: whoever goes, the others hear of it and go on.

The server fills memory that it frees (MALLOC_PERTURB_), so that nothing of a stream,
a link or a queue can be used after it without being noticed.
"""

from __future__ import annotations

import os
import zlib

import pytest
from proton import Delivery, Described, Endpoint, Message, Receiver, Sender, Terminus, ulong
from support.engine_client import EngineClient
from support.server import Server
from support.streams import WAYS, finish, head, leave, pair, received, stall

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
# A receiver's session window: a few unread frames, and nothing more comes.
WINDOW = 64 * KIBIBYTE
QUIET = 0.2
SIZE = 2 * MEBIBYTE
OUTCOMES = [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED]
ENVIRONMENT = {"MALLOC_PERTURB_": "165"}


def sees_a_stream(
    producer: EngineClient, sender: Sender, consumer: EngineClient, receiver: Receiver | None
) -> None:
    """Send a stream to its end, on the receiver's link or on one that is attached for it."""
    producer.until(lambda: sender.credit > 0)
    delivery = producer.start(sender, head(2) + b"a")

    def comes() -> bool:
        return bool(consumer.attached) or (
            receiver is not None and receiver.current is not None and not receiver.current.aborted
        )

    consumer.until(comes)
    link = consumer.take(1000) if consumer.attached else receiver
    assert link is not None
    assert consumer.read(link, 9) == head(2) + b"a"
    sender.stream(b"b")
    sender.advance()
    producer.pump(0)
    assert received(consumer, link, 1, producer) == b"b"
    producer.until(lambda: delivery.settled)
    assert delivery.remote_state == Delivery.ACCEPTED


class TestStalled:
    """The sender's window is closed: no frame of its own can have the server read on."""

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("way", WAYS)
    def test_the_receiver_goes(
        self, server: Server, address: str, way: str, streaming_links: bool
    ) -> None:
        with EngineClient(server.port) as producer:
            with EngineClient(server.port, streaming_links=streaming_links) as consumer:
                base = consumer.receiver(address, session=consumer.session(WINDOW))
                sender = producer.sender(address, streaming=True)
                delivery = producer.start(sender, head(SIZE))
                link = consumer.take(capacity=WINDOW) if streaming_links else base
                given = stall(producer, sender)
                assert given < SIZE
                leave(consumer, link, way)
                producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
                finish(producer, sender, SIZE - given)
                producer.until(lambda: delivery.settled)
            with EngineClient(server.port) as survivor:
                sees_a_stream(producer, sender, survivor, survivor.receiver(address))

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("outcome", OUTCOMES)
    def test_an_early_outcome(
        self, server: Server, address: str, outcome: int, streaming_links: bool
    ) -> None:
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(address, session=consumer.session(WINDOW))
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(SIZE))
            link = consumer.take(capacity=WINDOW) if streaming_links else base
            given = stall(producer, sender)
            consumer.until(lambda: link.current is not None)
            link.current.update(outcome)
            link.current.settle()
            consumer.pump(0)
            producer.until(lambda: delivery.remote_state == outcome)
            finish(producer, sender, SIZE - given)
            producer.until(lambda: delivery.settled)
            sees_a_stream(producer, sender, consumer, link)

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("way", WAYS)
    def test_the_slowest_of_a_topic_goes(
        self, server: Server, address: str, way: str, streaming_links: bool
    ) -> None:
        topic = f"topic.{address}"
        message = head(SIZE) + os.urandom(SIZE)
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port) as survivor,
            EngineClient(server.port, streaming_links=streaming_links) as victim,
        ):
            receiver = survivor.receiver(topic)
            base = victim.receiver(topic, session=victim.session(WINDOW))
            sender = producer.sender(topic, streaming=True)
            delivery = producer.start(sender, message[:9])
            link = victim.take(capacity=WINDOW) if streaming_links else base
            crc, count = 0, 0

            def take() -> None:
                nonlocal crc, count
                survivor.pump(0)
                while receiver.current is not None and (part := receiver.recv(MEBIBYTE)):
                    crc, count = zlib.crc32(part, crc), count + len(part)

            given, quiet = 9, 0
            while quiet < 20:
                quiet += 1
                if sender.session.outgoing_bytes < 65536:
                    given, quiet = given + sender.stream(message[given : given + 65536]), 0
                producer.pump(0.003)
                take()
            assert count < given < len(message)
            leave(victim, link, way)

            def ended() -> bool:
                nonlocal given
                if given < len(message) and sender.session.outgoing_bytes < 65536:
                    given += sender.stream(message[given : given + 65536])
                    if given == len(message):
                        sender.advance()
                producer.pump(0)
                take()
                return count == len(message) and not receiver.current.partial

            survivor.until(ended)
            assert crc == zlib.crc32(message)
            survivor.accept(receiver)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED

    @pytest.mark.parametrize("complete", [False, True])
    @pytest.mark.parametrize("way", WAYS)
    def test_a_member_without_credit_goes(
        self, server: Server, address: str, way: str, complete: bool
    ) -> None:
        topic = f"topic.{address}"
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port) as survivor,
            EngineClient(server.port) as victim,
        ):
            receiver = survivor.receiver(topic)
            waiting = victim.receiver(topic, credit=0)
            sender = producer.sender(topic, streaming=True)
            size = 100 if complete else SIZE
            delivery = producer.start(sender, head(size))
            if complete:
                # It is a stream by then: a message that comes whole is accepted at once.
                survivor.read(receiver, 8)
                finish(producer, sender, size)
                received(survivor, receiver, size, producer)
            else:
                given = stall(producer, sender)
                assert given < size
            leave(victim, waiting, way)
            if not complete:
                rest = finish_while_reading(producer, sender, size - given, survivor, receiver)
                assert rest
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED
            sender.close()
            producer.until(lambda: bool(sender.state & Endpoint.REMOTE_CLOSED))


def finish_while_reading(
    producer: EngineClient, sender: Sender, size: int, consumer: EngineClient, receiver: Receiver
) -> int:
    """Send the last ``size`` bytes, and accept the message; return how many bytes it brought."""
    count = 0

    def ended() -> bool:
        nonlocal size, count
        if size and sender.session.outgoing_bytes < 65536:
            size -= sender.stream(b"x" * min(size, 65536))
            if size == 0:
                sender.advance()
        producer.pump(0)
        while receiver.current is not None and (part := receiver.recv(MEBIBYTE)):
            count += len(part)
        return size == 0 and receiver.current is not None and not receiver.current.partial

    consumer.until(ended)
    consumer.accept(receiver)
    return count


class Controller:
    """A coordinator link (part 4.5)."""

    def __init__(self, client: EngineClient) -> None:
        self.client = client
        self.link: Sender = client.session().sender("coordinator")
        self.link.target.type = Terminus.COORDINATOR
        self.link.open()
        client.until(lambda: self.link.credit > 0)

    def ask(self, code: int, *fields: object) -> Delivery:
        body = Described(ulong(code), list(fields))
        delivery = self.client.send(self.link, Message(body=body).encode())
        self.client.until(lambda: bool(delivery.remote_state))
        return delivery

    def declare(self) -> bytes:
        return bytes(self.ask(0x31, None).remote.data[0])

    def discharge(self, transaction: bytes, *, fail: bool) -> None:
        assert self.ask(0x32, transaction, fail).remote_state == Delivery.ACCEPTED


def retire(delivery: Delivery, transaction: bytes, outcome: int) -> None:
    """Settle with an outcome in a transaction (part 4.4.2)."""
    delivery.local.data = [transaction, Described(ulong(outcome), [])]
    delivery.update(0x34)
    delivery.settle()


class TestNeverTruncated:
    """A part of a message is never taken for the whole."""

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("way", ["detach", "close"])
    def test_a_receiver_that_detaches(
        self, server: Server, address: str, way: str, streaming_links: bool
    ) -> None:
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(9) + b"x")
            link = consumer.take() if streaming_links else base
            consumer.read(link, 9)
            seen = link.current
            if way == "detach":
                link.detach()
            else:
                link.close()
            consumer.until(lambda: bool(seen.aborted))
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)

    def test_its_session_has_room_for_others(self, server: Server, address: str) -> None:
        """Unsent bytes of a stream whose reader went do not count any more."""
        with pair(server, streaming_links=False) as (producer, consumer):
            session = consumer.session(WINDOW)
            gone = consumer.receiver(address, session=session)
            other = consumer.receiver(f"{address}-other", session=session)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(SIZE))
            stall(producer, sender)
            consumer.until(lambda: gone.current is not None)
            seen = gone.current
            gone.close()
            consumer.until(lambda: bool(gone.state & Endpoint.REMOTE_CLOSED))
            seen.settle()
            # Says that there is room in its session again.
            other.flow(1)
            size = 300 * KIBIBYTE
            producer.send(producer.sender(f"{address}-other"), head(size) + b"y" * size)
            assert len(received(consumer, other, size + 8, producer)) == size + 8

    @pytest.mark.parametrize("size", [100, MEBIBYTE])
    def test_a_transaction_rolled_back(self, server: Server, address: str, size: int) -> None:
        """The consumer has settled the stream, so it cannot have it again, nor anybody else."""
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address)
            controller = Controller(consumer)
            transaction = controller.declare()
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(size))
            producer.sync()
            finish_and_retire(producer, sender, size, consumer, receiver, transaction)
            controller.discharge(transaction, fail=True)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.MODIFIED
            assert delivery.remote.failed
            consumer.rest(QUIET)
            assert receiver.current is None

    @pytest.mark.parametrize("known", [False, True])
    def test_an_early_outcome_in_a_transaction(
        self, server: Server, address: str, known: bool
    ) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            controller = Controller(consumer)
            transaction = controller.declare()
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(SIZE))
            link = consumer.take(capacity=WINDOW)
            given = stall(producer, sender)
            consumer.until(lambda: link.current is not None)
            retire(link.current, transaction if known else b"unknown!", Delivery.ACCEPTED)
            consumer.pump(0)
            if known:
                controller.discharge(transaction, fail=True)
            producer.until(lambda: delivery.remote_state == Delivery.MODIFIED)
            finish(producer, sender, SIZE - given)
            producer.until(lambda: delivery.settled)
            sees_a_stream(producer, sender, consumer, link if known else None)


def finish_and_retire(
    producer: EngineClient, sender: Sender, size: int, consumer: EngineClient,
    receiver: Receiver, transaction: bytes,
) -> None:  # fmt: skip
    """Send the last ``size`` bytes and settle the message at its end, in a transaction."""
    left = size

    def ended() -> bool:
        nonlocal left
        if left and sender.session.outgoing_bytes < 65536:
            left -= sender.stream(b"x" * min(left, 65536))
            if left == 0:
                sender.advance()
        producer.pump(0)
        while receiver.current is not None and receiver.recv(MEBIBYTE):
            pass
        return left == 0 and receiver.current is not None and not receiver.current.partial

    consumer.until(ended)
    retire(receiver.current, transaction, Delivery.ACCEPTED)
    consumer.pump(0)


class TestTemporaryQueues:
    """A stream may outlive the link that it was for, and with it the queue."""

    @pytest.mark.parametrize("node", ["queue", "topic", "dynamic"])
    def test_the_base_link_closes(self, server: Server, address: str, node: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            base, name = attach(consumer, node, address)
            sender = producer.sender(name, streaming=True)
            delivery = producer.start(sender, head(4) + b"ab")
            link = consumer.take()
            consumer.read(link, 10)
            base.close()
            consumer.until(lambda: bool(base.state & Endpoint.REMOTE_CLOSED))
            # Freed memory is used for something else.
            others = [consumer.receiver(f"topic.{address}.{number}") for number in range(20)]
            sender.stream(b"cd")
            sender.advance()
            producer.pump(0)
            assert received(consumer, link, 2, producer) == b"cd"
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED
            for other in others:
                other.close()
            consumer.until(lambda: all(each.state & Endpoint.REMOTE_CLOSED for each in others))

    @pytest.mark.parametrize("node", ["queue", "topic", "dynamic"])
    @pytest.mark.parametrize("way", ["close", "fin", "reset"])
    def test_the_connection_goes_with_its_newest_link_first(
        self, server: Server, address: str, way: str, node: str
    ) -> None:
        """The link that the stream runs on is older than the one of its queue."""
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(f"{address}-first")
            first = producer.sender(f"{address}-first", streaming=True)
            delivery = producer.start(first, head(2) + b"a")
            link = consumer.take(1000)
            consumer.read(link, 9)
            first.stream(b"b")
            first.advance()
            producer.pump(0)
            received(consumer, link, 1, producer)
            producer.until(lambda: delivery.settled)
            base, name = attach(consumer, node, address)
            sender = producer.sender(name, streaming=True)
            delivery = producer.start(sender, head(4) + b"ab")
            consumer.read(link, 10)
            leave(consumer, base, way)
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            with EngineClient(server.port) as survivor:
                again = producer.sender(f"{address}-again", streaming=True, credit=False)
                sees_a_stream(producer, again, survivor, survivor.receiver(f"{address}-again"))

    @pytest.mark.parametrize("node", ["topic", "dynamic"])
    @pytest.mark.parametrize("complete", [False, True])
    def test_a_stream_waits_in_a_queue_that_goes(
        self, server: Server, address: str, complete: bool, node: str
    ) -> None:
        """Behind a small message."""
        with pair(server, streaming_links=False) as (producer, consumer):
            base, name = attach(consumer, node, address, credit=0)
            producer.send(producer.sender(name), head(1) + b"z")
            sender = producer.sender(name, streaming=True)
            delivery = producer.start(sender, head(2) + b"x")
            # It is a stream by then: a message that comes whole is accepted at once.
            producer.sync()
            if complete:
                sender.stream(b"y")
                sender.advance()
            producer.sync()
            base.close()
            consumer.pump(0)
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            if not complete:
                sender.stream(b"y")
                sender.advance()
            producer.until(lambda: delivery.settled)
            sender.close()
            producer.until(lambda: bool(sender.state & Endpoint.REMOTE_CLOSED))

    def test_the_last_consumer_of_a_queue_goes(self, server: Server, address: str) -> None:
        """The small message stays for the next one, the stream behind it cannot."""
        with pair(server, streaming_links=False) as (producer, consumer):
            base = consumer.receiver(address, credit=0)
            producer.send(producer.sender(address), head(1) + b"z")
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(2) + b"x")
            producer.sync()
            base.close()
            consumer.pump(0)
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            assert received(consumer, consumer.receiver(address), 9) == head(1) + b"z"


def attach(
    consumer: EngineClient, node: str, address: str, credit: int = 10
) -> tuple[Receiver, str]:
    """Attach to a node of a kind; return the link and the node's address."""
    if node != "dynamic":
        name = f"{node}.{address}"
        return consumer.receiver(name, credit), name
    link: Receiver = consumer.session().receiver("dynamic")
    link.source.dynamic = True
    link.open()
    link.flow(credit)
    consumer.until(lambda: link.remote_source.address is not None)
    return link, str(link.remote_source.address)
