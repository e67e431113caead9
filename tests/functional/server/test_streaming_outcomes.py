"""Outcomes of streams at senders and receivers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from proton import Condition, Delivery, Endpoint
from support.engine_client import EngineClient
from support.server import Server
from support.streams import WAYS, Arriving, head, leave, pair, received, send_part

Start = Callable[..., Server]
MEBIBYTE = 1 << 20
# Freed memory is filled, so that its use is noticed.
ENVIRONMENT = {"MALLOC_PERTURB_": "165"}


class TestTooLarge:
    def test_by_the_last_frame_of_a_silent_sender(self, start: Start, address: str) -> None:
        """It never answers the detach; the receiver hears of it all the same."""
        server = start(max_message_size=MEBIBYTE)
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            message = head(MEBIBYTE - 7) + b"x" * (MEBIBYTE - 8)
            producer.start(sender, message[:9])
            link = consumer.take()
            arriving = Arriving(consumer, link)
            send_part(producer, sender, message[9:], arriving.take)

            def all_came() -> bool:
                arriving.take()
                return arriving.count == MEBIBYTE

            producer.until(all_came)
            seen = link.current
            sender.stream(b"x")
            sender.advance()
            producer.pump(0, read=False)
            consumer.until(lambda: bool(seen.aborted))
            seen.settle()
            with EngineClient(server.port) as other:
                # The link is there for the next stream, the queue for the next message.
                again = other.sender(address, streaming=True)
                other.start(again, head(2) + b"y")
                assert consumer.read(link, 9) == head(2) + b"y"
                assert consumer.attached == []
                other.send(other.sender(address), head(1) + b"z")
                assert received(consumer, base, 9) == head(1) + b"z"
            producer.until(lambda: bool(sender.state & Endpoint.REMOTE_CLOSED))
            assert sender.remote_condition.name == "amqp:link:message-size-exceeded"


class TestRefusedLinks:
    """Later deliveries by these links are not accepted, and their sender must know."""

    def test_behind_a_message_that_is_too_large(self, start: Start, address: str) -> None:
        with EngineClient(start(max_message_size=1000).port) as producer:
            sender = producer.sender(address)
            deliveries = []
            for size in (2000, 10, 10):
                deliveries.append(sender.delivery(f"of-{size}-{len(deliveries)}"))
                sender.stream(head(size) + b"x" * size)
                sender.advance()
            producer.until(lambda: bool(sender.state & Endpoint.REMOTE_CLOSED))
            assert sender.remote_condition.name == "amqp:link:message-size-exceeded"
            assert [each.remote_state for each in deliveries] == [Delivery.RELEASED] * 3

    def test_to_another_server_that_wants_no_more(self, server: Server, address: str) -> None:
        with (
            EngineClient(server.port) as consumer,
            EngineClient(server.port, trunk=True) as trunk,
        ):
            base = consumer.receiver(address)
            trunk.until(lambda: bool(trunk.attached))
            link = trunk.attached.pop()
            link.session.open()
            link.open()
            trunk.until(lambda: link.credit > 0)
            base.close()
            consumer.until(lambda: bool(base.state & Endpoint.REMOTE_CLOSED))
            # It is detached here; the other server does not know yet.
            delivery = trunk.send(link, head(1) + b"z")
            trunk.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED


class TestOutcomes:
    """Fields of a receiver's outcome, at the end of the stream or before."""

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("early", [False, True])
    def test_why_it_is_rejected(
        self, server: Server, address: str, early: bool, streaming_links: bool
    ) -> None:
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            delivery, seen = run_to(producer, consumer, address, early, streaming_links)
            reject(consumer, seen)
            producer.until(lambda: delivery.remote_state == Delivery.REJECTED)
            assert delivery.remote.condition.name == "app:unreadable"
            assert delivery.remote.condition.description == "no such format"

    @pytest.mark.parametrize("early", [False, True])
    def test_why_across_a_trunk(
        self, servers: tuple[Server, Server], address: str, early: bool
    ) -> None:
        with (
            EngineClient(servers[0].port) as producer,
            EngineClient(servers[1].port, streaming_links=True) as consumer,
        ):
            delivery, seen = run_to(producer, consumer, address, early, True)
            reject(consumer, seen)
            producer.until(lambda: delivery.remote_state == Delivery.REJECTED)
            assert delivery.remote.condition.name == "app:unreadable"

    @pytest.mark.parametrize("failed", [False, True])
    @pytest.mark.parametrize("undeliverable", [False, True])
    @pytest.mark.parametrize("early", [False, True])
    def test_how_it_is_modified(
        self, server: Server, address: str, early: bool, undeliverable: bool, failed: bool
    ) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            delivery, seen = run_to(producer, consumer, address, early, True)
            seen.local.failed = failed
            seen.local.undeliverable = undeliverable
            seen.update(Delivery.MODIFIED)
            seen.settle()
            consumer.pump(0)
            producer.until(lambda: delivery.remote_state == Delivery.MODIFIED)
            assert delivery.remote.failed == failed
            assert delivery.remote.undeliverable == undeliverable


def reject(consumer: EngineClient, seen: Delivery) -> None:
    """Reject a stream and say why."""
    seen.local.condition = Condition("app:unreadable", "no such format")
    seen.update(Delivery.REJECTED)
    seen.settle()
    consumer.pump(0)


def run_to(
    producer: EngineClient,
    consumer: EngineClient,
    address: str,
    early: bool,
    streaming_links: bool,
) -> tuple[Delivery, Delivery]:
    """Run a stream to its end, or to just before; return its delivery at both ends."""
    base = consumer.receiver(address)
    sender = producer.sender(address, streaming=True)
    delivery = producer.start(sender, head(2) + b"a")
    link = consumer.take() if streaming_links else base
    consumer.read(link, 9)
    seen = link.current
    if not early:
        sender.stream(b"b")
        sender.advance()
        producer.pump(0)
        consumer.until(lambda: not seen.partial)
    return delivery, seen


class TestMembers:
    """Receivers of a topic, each on its own terms."""

    def test_one_rejects(self, server: Server, address: str) -> None:
        topic = f"topic.{address}"
        with pair(server, streaming_links=False) as (producer, consumer):
            receivers = [consumer.receiver(topic) for _ in range(3)]
            sender = producer.sender(topic, streaming=True)
            delivery = producer.start(sender, head(2) + b"a")
            # It is a stream by then: a message that comes whole is accepted at once.
            for receiver in receivers:
                consumer.read(receiver, 9)
            sender.stream(b"b")
            sender.advance()
            producer.pump(0)
            for receiver in receivers:
                consumer.read(receiver, 1)
                consumer.until(lambda at=receiver: not at.current.partial)
            for receiver, outcome in zip(
                receivers, [Delivery.MODIFIED, Delivery.REJECTED, Delivery.ACCEPTED], strict=True
            ):
                seen = receiver.current
                seen.local.condition = Condition("app:no")
                seen.update(outcome)
                seen.settle()
            consumer.pump(0)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.REJECTED
            assert delivery.remote.condition.name == "app:no"

    @pytest.mark.parametrize("way", ["abort", *WAYS])
    def test_one_that_waits_never_sees_what_is_aborted(
        self, server: Server, address: str, way: str
    ) -> None:
        topic = f"topic.{address}"
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port) as victim,
            EngineClient(server.port) as consumer,
        ):
            waiting, running = consumer.receiver(topic, 0), consumer.receiver(topic)
            sender = victim.sender(topic, streaming=True)
            delivery = victim.start(sender, head(9) + b"x")
            consumer.read(running, 9)
            seen = running.current
            if way == "abort":
                delivery.abort()
                victim.pump(0)
            else:
                leave(victim, sender, way)
            consumer.until(lambda: bool(seen.aborted))
            waiting.flow(10)
            consumer.sync()
            assert waiting.current is None
            producer.send(producer.sender(topic), head(1) + b"z")
            assert received(consumer, waiting, 9) == head(1) + b"z"

    def test_one_dies_after_the_end(self, server: Server, address: str) -> None:
        """It may have used its messages: modified, delivery-failed."""
        topic = f"topic.{address}"
        with EngineClient(server.port) as producer, EngineClient(server.port) as survivor:
            receiver = survivor.receiver(topic)
            with EngineClient(server.port, streaming_links=True) as victim:
                victim.receiver(topic)
                sender = producer.sender(topic, streaming=True)
                delivery = producer.start(sender, head(2) + b"a")
                link = victim.take()
                victim.read(link, 9)
                sender.stream(b"b")
                sender.advance()
                producer.pump(0)
                assert received(survivor, receiver, 10, producer) == head(2) + b"ab"
                victim.until(lambda: not link.current.partial)
                assert delivery.remote_state == 0
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.MODIFIED
            assert delivery.remote.failed
