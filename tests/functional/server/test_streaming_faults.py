"""Streams that stall, lose a member or a trunk, and the state that they leave."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from proton import Delivery
from support.arrow_streams import peak_bytes, rearm_peak
from support.engine_client import STREAMING_DELIVERIES, EngineClient
from support.network import Proxy
from support.server import Server
from support.streams import (
    BOTH,
    WAYS,
    head,
    judged,
    leave,
    leave_and_be_missed,
    pair,
    passes,
    received,
    rss,
    send_all,
)

Start = Callable[..., Server]
MEBIBYTE = 1 << 20
QUIET = 0.2
# Freed memory is filled, so that its use is noticed.
ENVIRONMENT = {"MALLOC_PERTURB_": "165"}


class TestResume:
    @pytest.mark.parametrize("streaming_links", [False, True])
    def test_a_stalled_stream_goes_on_intact(
        self, server: Server, address: str, streaming_links: bool
    ) -> None:
        message = head(6 * MEBIBYTE) + os.urandom(6 * MEBIBYTE)
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, message[:9])
            link = consumer.take() if streaming_links else base
            given = 9
            # Nobody reads: it stops, in the end.
            for _ in range(100):
                if sender.session.outgoing_bytes < 65536:
                    given += sender.stream(message[given : given + 65536])
                producer.pump(0.002)
            assert given < len(message)
            passes(producer, sender, message, consumer, link, given)
            consumer.accept(link)
            producer.until(lambda: delivery.settled)


class TestCredit:
    def test_nothing_is_transferred_before_credit(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            producer.start(producer.sender(address, streaming=True), head(9) + b"x")
            link = consumer.take(0)
            consumer.rest(QUIET)
            assert link.current is None
            link.flow(1)
            assert consumer.read(link, 9) == head(9) + b"x"

    def test_presettled_streams_renew_it_without_dispositions(
        self, server: Server, address: str
    ) -> None:
        """More than a sender has credit for at first (64); all come, settled."""
        count = 80
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True, settled=True)
            link = None
            for _ in range(count):
                producer.until(lambda: sender.credit > 0)
                delivery = producer.start(sender, head(2) + b"x")
                link = link or consumer.take(count)
                consumer.read(link, 9)
                sender.stream(b"y")
                delivery.settle()
                producer.pump(0)
                consumer.until(lambda at=link: at.current is not None and not at.current.partial)
                consumer.read(link, 1)
                assert link.current.settled
                assert delivery.remote_state == 0
                link.current.settle()

    @BOTH
    def test_early_settlement_leaks_nothing(
        self, server: Server, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        """Three hundred times: no link, no credit, no memory."""
        figure = judged(request, measures)
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            link = None
            before = 0
            for number in range(300):
                producer.until(lambda: sender.credit > 0)
                delivery = producer.start(sender, head(1000) + b"x")
                link = link or consumer.take(1000)
                consumer.read(link, 9)
                consumer.accept(link)
                producer.until(lambda d=delivery: d.remote_state == Delivery.ACCEPTED)
                sender.stream(b"x" * 999)
                sender.advance()
                producer.until(lambda d=delivery: d.settled)
                if number == 100:
                    before = rss(server)
            assert consumer.attached == []
            figure("bytes grown by 200", rss(server) - before, at_most=MEBIBYTE, unit="B")


class TestTerms:
    def test_of_the_links_that_the_server_attaches(self, server: Server, address: str) -> None:
        """Expiry, names and capabilities; the pool gives the link that is idle longest."""
        with pair(server, streaming_links=True) as (producer, consumer):
            came = bytearray()
            push = consumer.transport.push
            consumer.transport.push = lambda data: (came.extend(data), push(data))
            consumer.receiver(address)
            senders = [producer.sender(address, streaming=True) for _ in range(3)]
            for sender in senders:
                producer.start(sender, head(2) + b"x")
            links = [consumer.take() for _ in range(3)]
            assert len({link.name for link in links}) == 3
            # The engine of the client does not say what it read of this. The first is in the
            # answer to the consumer's attach.
            assert came.count(b"\xa3\x0blink-detach") == 1 + 3
            for link in links:
                for terminus in (link.remote_source, link.remote_target):
                    assert terminus.address is None
                    assert not terminus.capabilities.format()
            for number in (1, 2, 0):
                consumer.read(links[number], 9)
                senders[number].stream(b"y")
                senders[number].advance()
                producer.pump(0)
                received(consumer, links[number], 1, producer)
            for number in (1, 2, 0):
                producer.start(senders[0], head(2) + b"z")
                assert consumer.read(links[number], 9) == head(2) + b"z"
                senders[0].stream(b"z")
                senders[0].advance()
                producer.pump(0)
                received(consumer, links[number], 1, producer)

    def test_a_bare_symbol_is_a_capability(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.session().sender("bare")
            sender.target.address = address
            sender.target.capabilities.put_symbol(STREAMING_DELIVERIES)
            sender.open()
            producer.until(lambda: sender.credit > 0)
            producer.start(sender, head(9) + b"x")
            assert consumer.read(consumer.take(), 9) == head(9) + b"x"


class TestTrunkFaults:
    """A client in the place of the other server goes in the middle of a stream."""

    @pytest.mark.parametrize("part", [9, 20_000, 40_007])
    @pytest.mark.parametrize("way", WAYS)
    def test_the_next_server_goes(self, server: Server, address: str, way: str, part: int) -> None:
        message = head(40_000) + b"x" * 40_000
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port, trunk=True, streaming_links=True) as trunk,
        ):
            trunk.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, message[:part])
            link = trunk.take()
            trunk.read(link, part)
            leave(trunk, link, way)
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            sender.stream(message[part:])
            sender.advance()
            producer.until(lambda: delivery.settled)


class TestMulticast:
    @pytest.mark.parametrize("way", WAYS)
    def test_a_member_goes(self, server: Server, address: str, way: str) -> None:
        """The others get it to the end; the sender hears the worst of the outcomes."""
        topic = f"topic.{address}"
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port) as survivor,
            EngineClient(server.port, streaming_links=True) as victim,
        ):
            receiver = survivor.receiver(topic)
            victim.receiver(topic)
            sender = producer.sender(topic, streaming=True)
            delivery = producer.start(sender, head(4) + b"ab")
            link = victim.take()
            victim.read(link, 10)
            survivor.read(receiver, 10)
            # Else it may have had all of it: modified.
            leave_and_be_missed(server, victim, link, way)
            sender.stream(b"cd")
            sender.advance()
            producer.pump(0)
            assert received(survivor, receiver, 2, producer) == b"cd"
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED

    @pytest.mark.parametrize("way", WAYS)
    def test_the_sender_goes(self, server: Server, address: str, way: str) -> None:
        topic = f"topic.{address}"
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port) as plain,
            EngineClient(server.port, streaming_links=True) as other,
        ):
            receiver = plain.receiver(topic)
            other.receiver(topic)
            sender = producer.sender(topic, streaming=True)
            producer.start(sender, head(9) + b"x")
            links = [(plain, receiver), (other, other.take())]
            seen = []
            for client, link in links:
                client.read(link, 9)
                seen.append(link.current)
            leave(producer, sender, way)
            for (client, _), each in zip(links, seen, strict=True):
                client.until(lambda each=each: each.aborted)


class TestDiscard:
    @BOTH
    def test_to_nobody_in_bounded_memory(
        self, server: Server, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        """A hundred megabytes that nobody wants any more; twenty, if none looks at its memory."""
        figure = judged(request, measures)
        count = 100 if measures else 20
        size = count * MEBIBYTE
        block = b"x" * MEBIBYTE
        with EngineClient(server.port) as producer:
            with EngineClient(server.port) as consumer:
                receiver = consumer.receiver(address)
                sender = producer.sender(address, streaming=True)
                delivery = producer.start(sender, head(size))
                consumer.read(receiver, 8)
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            rearm_peak(server.process.pid)
            before = rss(server)
            for _ in range(count):
                while sender.session.outgoing_bytes >= MEBIBYTE:
                    producer.pump(0.01)
                sender.stream(block)
                producer.pump(0)
            sender.advance()
            producer.until(lambda: delivery.settled)
            grown = peak_bytes(server.process.pid) - before
            figure("bytes held at most", grown, at_most=MEBIBYTE, unit="B")


class TestNetwork:
    """Between the server and the producer, or the consumer."""

    @pytest.mark.parametrize("side", ["producer", "consumer"])
    @pytest.mark.parametrize(
        ("pause", "every"), [(0.002, 16384), (0.5, MEBIBYTE)], ids=["delay", "stall"]
    )
    def test_a_stream_arrives_intact(
        self, server: Server, address: str, pause: float, every: int, side: str
    ) -> None:
        message = head(2 * MEBIBYTE) + os.urandom(2 * MEBIBYTE)
        with Proxy(server.port, pause=pause, every=every) as proxy:
            ports = {"producer": server.port, "consumer": server.port, side: proxy.port}
            with (
                EngineClient(ports["producer"]) as producer,
                EngineClient(ports["consumer"], streaming_links=True) as consumer,
            ):
                consumer.receiver(address)
                sender = producer.sender(address, streaming=True)
                producer.start(sender, message[:9])
                passes(producer, sender, message, consumer, consumer.take(), 9)

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("how", ["fin", "rst", "silence"])
    def test_a_cut_receiver_releases(
        self, start: Start, address: str, how: str, streaming_links: bool
    ) -> None:
        """Also one that is silent, after the idle time-out."""
        # As long as a client of this test may have no time to say that it is there.
        server = start(idle_timeout=3 if how == "silence" else 30)
        message = head(MEBIBYTE) + b"x" * MEBIBYTE
        with (
            Proxy(server.port) as proxy,
            EngineClient(server.port) as producer,
            EngineClient(proxy.port, streaming_links=streaming_links) as consumer,
        ):
            base = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, message[:20_000])
            consumer.read(consumer.take() if streaming_links else base, 20_000)
            proxy.cut(how)

            def released() -> bool:
                producer.beat()
                return bool(delivery.remote_state == Delivery.RELEASED)

            producer.until(released)
            send_all(producer, sender, message[20_000:], producer.beat)
            producer.until(lambda: delivery.settled)
            producer.beat()
            # The next receiver gets the next one.
            receiver = producer.receiver(address)
            producer.until(lambda: sender.credit > 0)
            producer.start(sender, head(2) + b"y")
            assert producer.read(receiver, 9) == head(2) + b"y"
