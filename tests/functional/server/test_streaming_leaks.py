"""Failed streams leak nothing: no credit, no link, no memory."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable

import pytest
from proton import Delivery, Receiver, Sender
from support.engine_client import EngineClient
from support.measured import Figure
from support.server import Server
from support.streams import (
    BOTH,
    WAYS,
    head,
    judged,
    leave,
    pair,
    received,
    rss,
    stall,
    together,
)

MEBIBYTE = 1 << 20
COUNT = 300
# As much as a stream may hold here before its sender waits.
BODY = b"x" * 60_000
ENVIRONMENT = {"MALLOC_PERTURB_": "165"}


def repeat(server: Server, once: Callable[[int], None], figure: Callable[..., None]) -> None:
    """Do something three hundred times; judge by how much the server grew after a hundred."""
    before = 0
    for number in range(COUNT):
        once(number)
        if number == COUNT // 3:
            before = rss(server)
    grown = rss(server) - before
    figure(f"bytes grown by {COUNT - COUNT // 3}", grown, at_most=MEBIBYTE, unit="B")


def settle_what_came(link: Receiver) -> None:
    """Settle the aborted delivery, so that its window opens again."""
    while link.current is not None and link.current.aborted:
        link.current.settle()


def most_credit(
    producer: EngineClient, sender: Sender, consumer: EngineClient, base: Receiver
) -> int:
    """Return the most credit that a sender has while its messages are accepted one by one."""
    most = 0

    def comes() -> bool:
        settle_what_came(base)
        return base.current is not None

    for _ in range(70):
        together(lambda: sender.credit > 0, producer)
        most = max(most, sender.credit)
        delivery = producer.send(sender, head(1) + b"z")
        together(comes, producer, consumer)
        assert received(consumer, base, 9) == head(1) + b"z"
        together(lambda d=delivery: d.settled, producer)
    return most


class TestAborts:
    @BOTH
    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("seen", [False, True])
    def test_with_bodies(
        self,
        server: Server,
        address: str,
        streaming_links: bool,
        seen: bool,
        request: pytest.FixtureRequest,
        measures: bool,
    ) -> None:
        """Aborted when its receiver has some of it, or wherever it is."""
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(address, 1000)
            sender = producer.sender(address, streaming=True)
            link: Receiver | None = None if streaming_links else base
            full = sender.credit

            def once(_: int) -> None:
                nonlocal link
                together(lambda: sender.credit > 0, producer)
                delivery = producer.start(sender, head(100_000) + BODY)
                link = at = link or consumer.take(1000)
                if seen:
                    together(lambda: at.current is not None, producer, consumer)
                delivery.abort()
                together(lambda: sender.session.outgoing_bytes == 0, producer, consumer)
                if seen:
                    together(lambda: bool(at.current.aborted), producer, consumer)
                settle_what_came(at)

            repeat(server, once, judged(request, measures))
            # A link whose abort is on its way may not be free yet for the next one.
            assert len(consumer.attached) <= (0 if seen else 3)
            assert sender.credit <= full
            assert most_credit(producer, sender, consumer, base) >= full

    @BOTH
    def test_behind_one_that_waits(
        self, server: Server, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            base = consumer.receiver(address, 0)
            first = producer.sender(address, streaming=True)
            producer.start(first, head(2) + b"a")
            sender = producer.sender(address, streaming=True)
            full = sender.credit

            def once(_: int) -> None:
                together(lambda: sender.credit > 0, producer)
                delivery = producer.start(sender, head(100_000) + BODY)
                together(lambda: sender.session.outgoing_bytes == 0, producer)
                delivery.abort()
                producer.pump(0)

            repeat(server, once, judged(request, measures))
            base.flow(1000)
            assert consumer.read(base, 9) == head(2) + b"a"
            first.stream(b"b")
            first.advance()
            producer.pump(0)
            received(consumer, base, 1, producer)
            assert most_credit(producer, sender, consumer, base) >= full

    @pytest.mark.measured
    def test_memory_goes_back_while_the_connections_stay(
        self, server: Server, address: str, figure: Figure
    ) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            consumer.receiver(address, 0)
            session = producer.session()
            senders = [
                producer.sender(address, streaming=True, session=session) for _ in range(100)
            ]

            def hold() -> list[Delivery]:
                deliveries = []
                for sender in senders:
                    deliveries.append(producer.start(sender, head(100_000) + BODY))
                    together(lambda: session.outgoing_bytes == 0, producer)
                return deliveries

            def abort(deliveries: list[Delivery]) -> None:
                for delivery in deliveries:
                    delivery.abort()
                # As many frames as its window takes at a time.
                producer.rest(0.05)

            # The engine keeps memory of deliveries for the next ones.
            abort(hold())
            producer.rest(1.0)
            before = rss(server)
            deliveries = hold()
            held = rss(server) - before
            figure("bytes that are held", held, at_least=3 * MEBIBYTE, unit="B")
            abort(deliveries)
            began = time.monotonic()
            # The frames that end them go as the session's window opens.
            producer.until(lambda: rss(server) - before <= 2 * MEBIBYTE)
            figure("time until they are back", time.monotonic() - began, at_most=1.5, unit="s")


class TestDeaths:
    @BOTH
    def test_of_senders(
        self, server: Server, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        with EngineClient(server.port, streaming_links=True) as consumer:
            consumer.receiver(address)
            link: Receiver | None = None

            def once(number: int) -> None:
                nonlocal link
                with EngineClient(server.port) as producer:
                    sender = producer.sender(address, streaming=True)
                    producer.start(sender, head(100_000) + BODY)
                    link = at = link or consumer.take(1000)
                    together(lambda: at.current is not None, producer, consumer)
                    leave(producer, sender, WAYS[number % len(WAYS)])
                    together(lambda: bool(at.current.aborted), consumer)
                    settle_what_came(at)

            repeat(server, once, judged(request, measures))
            assert consumer.attached == []

    @BOTH
    @pytest.mark.parametrize("streaming_links", [False, True])
    def test_of_receivers(
        self,
        server: Server,
        address: str,
        streaming_links: bool,
        request: pytest.FixtureRequest,
        measures: bool,
    ) -> None:
        with EngineClient(server.port) as producer:
            sender = producer.sender(address, streaming=True, credit=False)
            full = 0

            def once(number: int) -> None:
                nonlocal full
                with EngineClient(server.port, streaming_links=streaming_links) as consumer:
                    base = consumer.receiver(address)
                    together(lambda: sender.credit > 0 and not sender.drain_mode, producer)
                    full = max(full, sender.credit)
                    delivery = producer.start(sender, head(60_000) + BODY[:30_000])
                    link = consumer.take() if streaming_links else base
                    together(lambda: link.current is not None, producer, consumer)
                    leave(consumer, link, WAYS[number % len(WAYS)])
                    together(lambda: delivery.remote_state == Delivery.RELEASED, producer)
                    sender.stream(BODY[:30_000])
                    sender.advance()
                    together(lambda: delivery.settled, producer)
                    consumer.socket.close()
                    together(lambda: sender.drain_mode, producer)
                    sender.drained()
                    producer.pump(0)

            repeat(server, once, judged(request, measures))
            with EngineClient(server.port) as consumer:
                base = consumer.receiver(address, 1000)
                assert most_credit(producer, sender, consumer, base) >= full


class TestUnanswered:
    """A peer that leaves the attach of a link for a stream without an answer."""

    def test_the_stream_waits_and_then_goes_on(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(MEBIBYTE))
            given = stall(producer, sender)
            assert given < MEBIBYTE
            assert delivery.remote_state == 0
            link = consumer.take()
            crc = count = 0

            def ended() -> bool:
                nonlocal given, crc, count
                if given < MEBIBYTE and sender.session.outgoing_bytes < 65536:
                    given += sender.stream(b"x" * min(65536, MEBIBYTE - given))
                    if given == MEBIBYTE:
                        sender.advance()
                producer.pump(0)
                while link.current is not None and (part := link.recv(65536)):
                    crc, count = zlib.crc32(part, crc), count + len(part)
                return count == MEBIBYTE + 8 and not link.current.partial

            consumer.until(ended)
            assert crc == zlib.crc32(head(MEBIBYTE) + b"x" * MEBIBYTE)
            consumer.accept(link)
            producer.until(lambda: delivery.settled)

    @pytest.mark.parametrize("how", ["unanswered", "without credit", "unread"])
    def test_the_next_stream_does_not_wait_for_it(
        self, server: Server, address: str, how: str
    ) -> None:
        """Its sender went; the link is of no use for another's."""
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port, streaming_links=True) as consumer,
        ):
            consumer.receiver(address)
            with EngineClient(server.port) as victim:
                sender = victim.sender(address, streaming=True)
                victim.start(sender, head(MEBIBYTE))
                if how == "unanswered":
                    consumer.until(lambda: bool(consumer.attached))
                    consumer.attached.clear()
                elif how == "without credit":
                    consumer.take(0)
                else:
                    consumer.take(capacity=65536)
                stall(victim, sender)
                consumer.rest(0.05)
            consumer.rest(0.05)
            producer.start(producer.sender(address, streaming=True), head(9) + b"y")
            assert consumer.read(consumer.take(), 9) == head(9) + b"y"

    def test_it_gets_no_more_than_the_pool_holds(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            for _ in range(COUNT):
                producer.until(lambda: sender.credit > 0)
                delivery = producer.start(sender, head(9) + b"x")
                # Aborted in the same read it would be nobody's.
                consumer.until(lambda: bool(consumer.attached))
                delivery.abort()
                producer.pump(0)
            consumer.rest(0.1)
            assert 0 < len(consumer.attached) <= 128
