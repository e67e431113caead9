"""Limits of streams: credit, memory, links and handles, and the CPU while they stall."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery, Endpoint, Receiver, Sender
from support.engine_client import EngineClient
from support.server import Server, running_server
from support.streams import BOTH, cpu_seconds, head, judged, pair, received, rss

Start = Callable[..., Server]
Check = Callable[[Server, EngineClient, EngineClient], None]
KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
QUIET = 0.2
# As much has to come of a message whose link did not ask for a stream.
Q2 = 262_144
# Bytes that a session of a consumer may hold unread.
NARROW = 65536
# Streams of one link that are not settled.
UNSETTLED = 250


def whole(
    producer: EngineClient, sender: Sender, rest: bytes, consumer: EngineClient, link: Receiver
) -> int:
    """Send the rest of a message and read all of it; return the CRC of the bytes received."""
    crc, sent = 0, 0
    # None: it is given to the engine already.
    current = sender.current

    def ended() -> bool:
        nonlocal crc, sent
        if sent < len(rest) and sender.session.outgoing_bytes < 131072:
            sent += sender.stream(rest[sent : sent + 65536])
        if current is not None and sent == len(rest) and sender.current == current:
            sender.advance()
        producer.pump(0)
        while link.current is not None and (part := link.recv(MEBIBYTE)):
            crc = zlib.crc32(part, crc)
        return sent == len(rest) and link.current is not None and not link.current.partial

    consumer.until(ended)
    consumer.accept(link)
    return crc


def small_streams(
    producer: EngineClient, senders: list[Sender], probe: Sender, size: int
) -> list[Delivery]:
    """Send a message on each link that is a stream, small as it is.

    Args:
        probe: a link for messages; when the server has one, it has what went before it, the
            beginnings of the streams alone.
    """
    deliveries = [producer.start(sender, head(size) + b"x") for sender in senders]
    behind = producer.send(probe, head(1) + b"p")
    producer.until(lambda: behind.settled)
    for sender in senders:
        sender.stream(b"x" * (size - 1))
        sender.advance()
    producer.pump(0)
    return deliveries


class TestCredit:
    """It is renewed by settlement, which bounds the messages on their way and their memory."""

    def test_settlement_renews_it(self, server: Server, address: str) -> None:
        size, total = 5000, UNSETTLED + 50
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address, 0)
            sender = producer.sender(address, streaming=True)
            probe = producer.sender(f"{address}-probe")
            deliveries: list[Delivery] = []

            def send(least: int) -> None:
                """Send at least that many in all, and whatever there is credit for."""
                while len(deliveries) < least or sender.credit > 0:
                    producer.until(lambda: sender.credit > 0)
                    deliveries.extend(small_streams(producer, [sender], probe, size))
                    assert len(deliveries) <= total

            send(UNSETTLED)
            producer.rest(QUIET)
            assert (len(deliveries), sender.credit) == (UNSETTLED, 0)
            receiver.flow(total)
            for _ in range(UNSETTLED):
                received(consumer, receiver, size + 8, producer)
            producer.until(lambda: all(each.settled for each in deliveries))
            producer.until(lambda: sender.credit > 0)

    @BOTH
    def test_what_waits_counts_in_the_queue(
        self, start: Start, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        """Streams that have come to their end as well."""
        figure = judged(request, measures)
        server = start(queue_limit=MEBIBYTE)
        count, size = 8, 40_000
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address, 0)
            senders = [producer.sender(address, streaming=True) for _ in range(count)]
            probe = producer.sender(f"{address}-probe")
            before = rss(server)
            deliveries = []
            for _ in range(30):
                able = [each for each in senders if each.session.outgoing_bytes == 0]
                deliveries += small_streams(producer, able, probe, size)
            # Sixteen of 64 KiB each in the queue, and of each sender its session's window of
            # four frames and the current one.
            assert len(deliveries) < 16 + count * 7
            # A MiB in the queue, eight windows of 256 KiB, and the connections' own buffers
            # (2.94 was measured); without a limit thirty rounds of eight would be 10 MiB and more.
            figure("bytes that wait", rss(server) - before, at_most=5 * MEBIBYTE, unit="B")
            # And they go on.
            receiver.flow(1000)
            for _ in deliveries:
                received(consumer, receiver, size + 8, producer)
            producer.until(lambda: all(each.settled for each in deliveries))

    def test_a_peer_that_does_not_answer(self, start: Start, address: str) -> None:
        """It makes the server attach no more than max-links; the others are released."""
        most, count = 6, 15
        server = start(max_links=most)
        with (
            EngineClient(server.port) as one,
            EngineClient(server.port) as two,
            EngineClient(server.port) as three,
            EngineClient(server.port, streaming_links=True) as consumer,
        ):
            consumer.receiver(address)
            deliveries = []
            for producer in [one, two, three] * (count // 3):
                sender = producer.sender(address, streaming=True)
                deliveries.append(producer.start(sender, head(9) + b"x"))

            def released() -> int:
                for producer in (one, two, three):
                    producer.pump(0)
                return [each.remote_state for each in deliveries].count(Delivery.RELEASED)

            consumer.until(lambda: released() == count - most)
            consumer.rest(QUIET)
            assert len(consumer.attached) == most
            # They are no links of the peer's: it may have as many of its own.
            for _ in range(most - 1):
                consumer.receiver(address)

    def test_a_stream_goes_without_credit_of_the_base_link(
        self, server: Server, address: str
    ) -> None:
        """Past messages that wait for it."""
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address, 0)
            small = producer.sender(address)
            for number in range(3):
                producer.send(small, head(1) + bytes([number]))
            producer.start(producer.sender(address, streaming=True), head(9) + b"x")
            assert consumer.read(consumer.take(), 9) == head(9) + b"x"
            assert base.credit == 0
            base.flow(3)
            for number in range(3):
                assert received(consumer, base, 9) == head(1) + bytes([number])


class TestQ2:
    """Messages of links without the capability."""

    @pytest.mark.parametrize("streaming_links", [False, True])
    def test_how_much_it_is(self, server: Server, address: str, streaming_links: bool) -> None:
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(address)
            sender = producer.sender(address)
            producer.start(sender, head(MEBIBYTE) + b"x" * (250_000 - 8))
            producer.until(lambda: sender.session.outgoing_bytes == 0)
            consumer.rest(QUIET)
            assert base.current is None
            assert consumer.attached == []
            sender.stream(b"x" * 13_000)
            producer.until(lambda: sender.session.outgoing_bytes == 0)
            link = consumer.take() if streaming_links else base
            assert len(consumer.read(link, Q2)) >= Q2
            assert link.current.partial

    @BOTH
    def test_a_busy_consumer_holds_it_back(
        self, start: Start, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        """Neither is it kept up to the queue's limit, nor refused beyond it."""
        figure = judged(request, measures)
        server = start(queue_limit=4 * MEBIBYTE)
        message = head(20 * MEBIBYTE) + os.urandom(20 * MEBIBYTE)
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address, 0)
            sender = producer.sender(address)
            before = rss(server)
            delivery = producer.start(sender, message[: 2 * MEBIBYTE])
            given = 2 * MEBIBYTE
            for _ in range(100):
                if sender.session.outgoing_bytes < 65536:
                    given += sender.stream(message[given : given + MEBIBYTE])
                producer.pump(0.005)
            # The window of a session without streams: 64 frames of 64 KiB.
            assert given < len(message)
            figure("bytes that wait", rss(server) - before, at_most=9 * MEBIBYTE, unit="B")
            assert sender.state & Endpoint.REMOTE_ACTIVE
            receiver.flow(1)
            assert whole(producer, sender, message[given:], consumer, receiver) == zlib.crc32(
                message
            )
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED

    def test_behind_others_in_the_queue(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address, 0)
            small = producer.sender(address)
            for number in range(3):
                producer.send(small, head(1) + bytes([number]))
            message = head(MEBIBYTE) + os.urandom(MEBIBYTE)
            large = producer.sender(address)
            delivery = producer.start(large, message[: Q2 + 1])
            producer.until(lambda: large.session.outgoing_bytes == 0)
            receiver.flow(10)
            for number in range(3):
                assert received(consumer, receiver, 9) == head(1) + bytes([number])
            crc = whole(producer, large, message[Q2 + 1 :], consumer, receiver)
            assert crc == zlib.crc32(message)
            producer.until(lambda: delivery.settled)

    def test_the_last_consumer_goes(self, server: Server, address: str) -> None:
        """It had none of it: the sender may send it again, and then the queue keeps it."""
        message = head(MEBIBYTE) + os.urandom(MEBIBYTE)
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address, 0)
            sender = producer.sender(address)
            for outcome in (Delivery.RELEASED, Delivery.ACCEPTED):
                delivery = producer.start(sender, message[: Q2 + 1])
                producer.until(lambda: sender.session.outgoing_bytes == 0)
                producer.sync()
                receiver.close()
                consumer.pump(0)
                sender.stream(message[Q2 + 1 :])
                sender.advance()
                producer.until(lambda each=delivery: each.settled)
                assert delivery.remote_state == outcome
            assert received(consumer, consumer.receiver(address), len(message)) == message

    def test_without_credit_of_the_base_link(self, server: Server, address: str) -> None:
        message = head(MEBIBYTE) + os.urandom(MEBIBYTE)
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address, 0)
            sender = producer.sender(address)
            producer.start(sender, message[: Q2 + 1])
            link = consumer.take()
            crc = whole(producer, sender, message[Q2 + 1 :], consumer, link)
            assert crc == zlib.crc32(message)

    def test_without_a_consumer_the_queue_keeps_it(self, server: Server, address: str) -> None:
        message = head(MEBIBYTE) + os.urandom(MEBIBYTE)
        with pair(server, streaming_links=False) as (producer, consumer):
            sender = producer.sender(address)
            delivery = producer.start(sender, message[: Q2 + 1])
            sender.stream(message[Q2 + 1 :])
            sender.advance()
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED
            assert received(consumer, consumer.receiver(address), len(message)) == message

    @pytest.mark.parametrize("durable", [False, True], ids=["passed", "stored"])
    def test_over_a_trunk(self, tmp_path: Path, durable: bool) -> None:
        """Also one that comes out of a file; what follows on the link comes after it."""
        body = 3 * MEBIBYTE
        message = (b"\x00\x53\x70\xc0\x02\x01\x41" if durable else b"") + head(body)
        message += os.urandom(body)
        keys: dict[str, object] = {"store": tmp_path / "store"} if durable else {}
        with (
            running_server(tmp_path, trunks="*", **keys) as near,
            running_server(
                tmp_path, queue_limit=2 * MEBIBYTE, connect=f"127.0.0.1:{near.port}"
            ) as far,
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            receiver = consumer.receiver("orders", 0)
            consumer.rest(QUIET)
            sender = producer.sender("orders")
            delivery = producer.start(sender, message[: Q2 + 1])
            sender.stream(message[Q2 + 1 :])
            sender.advance()
            # A file takes all of it, or the window of the session.
            producer.until(
                lambda: delivery.settled if durable else sender.session.outgoing_bytes == 0
            )
            consumer.rest(QUIET)
            receiver.flow(10)
            crc = whole(producer, sender, b"", consumer, receiver)
            assert crc == zlib.crc32(message)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED
            producer.send(sender, head(1) + b"z")
            assert received(consumer, receiver, 9) == head(1) + b"z"


class NarrowClient(EngineClient):
    """A client whose sessions have few handles: its begins say so (AMQP 1.0 part 2.7.2).

    The engine's own limit is the last of the fields there that are 2**31 - 1.
    """

    HANDLE_MAX = 3

    def _write(self) -> None:
        limit = b"\x70" + self.HANDLE_MAX.to_bytes(4, "big")
        while (pending := self.transport.pending()) > 0:
            data = self.transport.peek(pending)
            data = re.sub(rb"(?:\x70\x7f\xff\xff\xff)+", lambda m: m[0][:-5] + limit, data)
            self.transport.pop(self.socket.send(data))


class TestHandles:
    """The engine is mute for ever when it has no handle for a link."""

    def test_a_shared_session(self, start: Start, address: str) -> None:
        """Four handles: links without room in one session use a further one."""
        count = 6
        server = start(stream_sessions="shared")
        with (
            EngineClient(server.port) as producer,
            NarrowClient(server.port, streaming_links=True) as consumer,
        ):
            base = consumer.receiver(address)
            for _ in range(count):
                producer.start(producer.sender(address, streaming=True), head(9) + b"x")
            links = [consumer.take() for _ in range(count)]
            for link in links:
                assert consumer.read(link, 9) == head(9) + b"x"
            sessions = [link.session for link in links]
            assert sorted(sessions.count(each) for each in {*sessions}) == [2, 4]
            producer.send(producer.sender(address), head(1) + b"z")
            assert received(consumer, base, 9) == head(1) + b"z"

    def test_without_channels(self, server: Server, address: str) -> None:
        """In the consumer's session there is room for three; the others are released."""
        count = 5
        with (
            EngineClient(server.port) as producer,
            NarrowClient(server.port, streaming_links=True, channel_max=0) as consumer,
        ):
            base = consumer.receiver(address)
            deliveries = [
                producer.start(producer.sender(address, streaming=True), head(9) + b"x")
                for _ in range(count)
            ]
            for _ in range(3):
                assert consumer.read(consumer.take(), 9) == head(9) + b"x"
            producer.until(
                lambda: [each.remote_state for each in deliveries].count(Delivery.RELEASED) == 2
            )
            producer.send(producer.sender(address), head(1) + b"z")
            assert received(consumer, base, 9) == head(1) + b"z"

    def test_more_links_of_the_peers_own(self, server: Server, address: str) -> None:
        """It cannot be answered: its session ends, with an error, and the others go on."""
        with NarrowClient(server.port) as client:
            session = client.session()
            for number in range(5):
                link = session.receiver(f"link-{number}")
                link.source.address = address
                link.open()
            client.until(lambda: bool(session.state & Endpoint.REMOTE_CLOSED))
            assert session.remote_condition.name == "amqp:resource-limit-exceeded"
            session.close()
            client.receiver(address)

    def test_trunks_wait_for_it(self, server: Server, address: str) -> None:
        """As another server: its addresses are announced when its begin has come."""
        names = [f"{address}-{number}" for number in range(5)]
        with (
            EngineClient(server.port) as consumer,
            NarrowClient(server.port, trunk=True, streaming_links=True, channel_max=3) as trunk,
        ):
            for name in names:
                consumer.receiver(name)
            # One in a session to itself; of those in the other session the first.
            trunk.until(lambda: len(trunk.attached) == 2)
            trunk.rest(QUIET)
            assert len(trunk.attached) == 2
            for _ in names:
                trunk.until(lambda: bool(trunk.attached))
                link = trunk.attached.pop(0)
                if link.session.state & Endpoint.LOCAL_UNINIT:
                    link.session.open()
                link.open()
                trunk.pump(0)
            trunk.rest(0.05)
            assert trunk.attached == []
            assert not trunk.closed_by_peer


class TestSessions:
    """An unread stream closes the window of its own session only."""

    @pytest.mark.parametrize("sessions", ["own", "shared"])
    def test_a_window_that_is_closed(self, start: Start, address: str, sessions: str) -> None:
        """The socket stays open for others all the while; with one session they stall too."""
        server = start(stream_sessions=sessions)
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            unread, other = (producer.sender(address, streaming=True) for _ in range(2))
            producer.start(unread, head(1 << 30))
            consumer.take(capacity=NARROW)

            def fill() -> None:
                for _ in range(40):
                    if unread.session.outgoing_bytes < 65536:
                        unread.stream(b"x" * 65536)
                    producer.pump(0)
                    consumer.pump(0.005)

            fill()
            message = head(MEBIBYTE) + os.urandom(MEBIBYTE)
            producer.start(other, message[:9])
            link = consumer.take(capacity=NARROW)
            if sessions == "own":
                crc = whole(producer, other, message[9:], consumer, link)
                assert crc == zlib.crc32(message)
                return
            fill()
            consumer.rest(QUIET)
            assert link.current is None or len(link.recv(MEBIBYTE) or b"") < len(message)


@pytest.fixture
def check_idle(request: pytest.FixtureRequest, measures: bool) -> Callable[..., None]:
    """See that a server does nothing while both its clients are there and answer."""

    def check(server: Server, producer: EngineClient, consumer: EngineClient) -> None:
        before = cpu_seconds(server)
        for _ in range(30 if measures else 5):
            producer.pump(0.01)
            consumer.pump(0.01)
        figure = judged(request, measures)
        figure("CPU of 0.6 s", cpu_seconds(server) - before, at_most=0.1, unit="s")

    return check


@BOTH
class TestStalled:
    """A stream that nobody reads stops its sender and takes no CPU time while it waits."""

    def test_by_a_closed_window(self, start: Start, address: str, check_idle: Check) -> None:
        server = start()
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(1 << 30))
            consumer.take(capacity=NARROW)
            push_while(producer, [sender], consumer)
            check_idle(server, producer, consumer)

    @pytest.mark.parametrize("capability", [False, True])
    @pytest.mark.parametrize("streaming_links", [False, True])
    def test_for_credit(
        self,
        start: Start,
        address: str,
        streaming_links: bool,
        capability: bool,
        check_idle: Check,
    ) -> None:
        server = start()
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            consumer.receiver(address, 0)
            sender = producer.sender(address, streaming=capability)
            producer.start(sender, head(1 << 30) + b"x" * Q2)
            if streaming_links:
                consumer.take(0)
            push_while(producer, [sender], consumer)
            check_idle(server, producer, consumer)

    def test_for_the_answer_to_an_attach(
        self, start: Start, address: str, check_idle: Check
    ) -> None:
        """It holds that sender back, and goes on when the answer comes after all."""
        server = start()
        message = head(4 * MEBIBYTE) + os.urandom(4 * MEBIBYTE)
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, message[:9])
            given = 9
            for _ in range(60):
                if sender.session.outgoing_bytes < 65536:
                    given += sender.stream(message[given : given + 65536])
                producer.pump(0.005)
            assert given < MEBIBYTE
            assert delivery.remote_state == 0
            check_idle(server, producer, consumer)
            crc = whole(producer, sender, message[given:], consumer, consumer.take())
            assert crc == zlib.crc32(message)

    def test_behind_another_stream(self, start: Start, address: str, check_idle: Check) -> None:
        server = start()
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address)
            senders = [producer.sender(address, streaming=True) for _ in range(2)]
            producer.start(senders[0], head(9) + b"x")
            consumer.read(receiver, 9)
            producer.start(senders[1], head(1 << 30))
            push_while(producer, senders[1:], consumer)
            check_idle(server, producer, consumer)

    def test_by_a_slow_member_of_a_topic(
        self, start: Start, address: str, check_idle: Check
    ) -> None:
        server = start()
        topic = f"topic.{address}"
        with pair(server, streaming_links=False) as (producer, consumer):
            consumer.receiver(topic, 0)
            fast = consumer.receiver(topic)
            sender = producer.sender(topic, streaming=True)
            producer.start(sender, head(1 << 30))
            push_while(producer, [sender], consumer)
            while fast.current is not None and fast.recv(MEBIBYTE):
                pass
            check_idle(server, producer, consumer)


def push_while(producer: EngineClient, senders: list[Sender], consumer: EngineClient) -> None:
    """Send until nothing moves, while the consumer's socket takes data."""
    given = quiet = 0
    while quiet < 20:
        quiet += 1
        for sender in senders:
            if sender.session.outgoing_bytes < 65536:
                given += sender.stream(b"x" * 65536)
                quiet = 0
        assert given < 16 * MEBIBYTE, "it does not stall"
        producer.pump(0.005)
        consumer.pump(0.005)
