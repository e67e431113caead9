"""Streaming deliveries through the server, sentence by sentence of the specification."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from proton import Delivery, Endpoint, Receiver
from support.arrows import arguments, pyfast, run_pyfast
from support.engine_client import EngineClient
from support.processes import Running
from support.server import Server, running_server
from support.streams import BOTH, WAYS, cpu_seconds, head, judged, leave, pair, rss

QUIET = 0.3
# After how much of a message a client goes.
SIZE = 40_000
PARTS = [9, SIZE // 2, SIZE + 8]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    return request.node.name


class TestToALinkOfItsOwn:
    """Consumers that offer qd.streaming-links."""

    def test_the_first_frame_is_forwarded(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(1000) + b"x" * 10)
            link = consumer.take()
            assert consumer.read(link, 18) == head(1000) + b"x" * 10
            assert link.current.partial

    def test_the_outcome_comes_back(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(4) + b"xx")
            link = consumer.take()
            sender.stream(b"yy")
            sender.advance()
            producer.pump(0)
            assert consumer.read(link, 12) == head(4) + b"xxyy"
            consumer.until(lambda: not link.current.partial)
            consumer.accept(link)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED

    def test_no_transfer_before_attach_is_answered(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(1000) + b"x")
            consumer.until(lambda: bool(consumer.attached))
            consumer.rest(QUIET)
            link = consumer.attached[0]
            assert link.state & Endpoint.LOCAL_UNINIT
            assert link.current is None

    def test_links_have_sessions_of_their_own(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            for _ in range(3):
                producer.start(producer.sender(address, streaming=True), head(1000) + b"x")
            links = [consumer.take() for _ in range(3)]
            assert len({link.session for link in links}) == 3

    def test_sequential_streams_reuse_one_link(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            link = None
            for _ in range(20):
                delivery = producer.start(sender, head(2) + b"x")
                link = link or consumer.take(100)
                consumer.read(link, 9)
                sender.stream(b"x")
                sender.advance()
                producer.pump(0)
                consumer.read(link, 1)
                consumer.until(lambda link=link: not link.current.partial)
                consumer.accept(link)
                producer.until(lambda delivery=delivery: delivery.settled)
            assert consumer.attached == []

    def test_small_messages_overtake(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address)
            producer.start(producer.sender(address, streaming=True), head(1000) + b"x")
            consumer.take()
            producer.send(producer.sender(address), head(3) + b"abc")
            assert consumer.read(base, 11) == head(3) + b"abc"

    def test_a_complete_message_is_never_streaming(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address)
            producer.send(producer.sender(address, streaming=True), head(3) + b"abc")
            assert consumer.read(base, 11) == head(3) + b"abc"
            assert consumer.attached == []

    def test_a_refused_attach_releases_the_stream(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(1000) + b"x")
            consumer.until(lambda: bool(consumer.attached))
            link = consumer.attached.pop()
            link.session.open()
            link.open()
            link.close()
            consumer.pump()
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            producer.send(producer.sender(address), head(1) + b"z")
            assert consumer.read(base, 9) == head(1) + b"z"

    def test_streams_are_shared_out(self, server: Server, address: str) -> None:
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port, streaming_links=True) as one,
            EngineClient(server.port, streaming_links=True) as other,
        ):
            one.receiver(address)
            other.receiver(address)
            for _ in range(8):
                producer.start(producer.sender(address, streaming=True), head(1000) + b"x")
            one.until(lambda: len(one.attached) == 4)
            other.until(lambda: len(other.attached) == 4)


class TestToTheConsumersLink:
    """Consumers that know nothing of streams."""

    def test_fragments_go_as_they_come(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(6) + b"ab")
            assert consumer.read(receiver, 10) == head(6) + b"ab"
            sender.stream(b"cd")
            producer.pump(0)
            assert consumer.read(receiver, 2) == b"cd"
            assert receiver.current.partial

    def test_one_at_a_time_on_a_link(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address)
            first = producer.sender(address, streaming=True)
            producer.start(first, head(4) + b"ab")
            consumer.read(receiver, 10)
            producer.start(producer.sender(address, streaming=True), head(4) + b"yz")
            consumer.rest(QUIET)
            assert receiver.queued == 1
            first.stream(b"cd")
            first.advance()
            producer.pump(0)
            consumer.read(receiver, 2)
            consumer.until(lambda: not receiver.current.partial)
            consumer.accept(receiver)
            assert consumer.read(receiver, 10) == head(4) + b"yz"

    def test_two_links_get_both(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            receivers = [consumer.receiver(address), consumer.receiver(address)]
            for _ in range(2):
                producer.start(producer.sender(address, streaming=True), head(4) + b"ab")
            for receiver in receivers:
                consumer.read(receiver, 10)

    def test_without_the_capability_small_parts_are_held(
        self, server: Server, address: str
    ) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address)
            sender = producer.sender(address)
            producer.start(sender, head(300_000) + b"x" * 1000)
            consumer.rest(QUIET)
            assert receiver.current is None
            sender.stream(b"x" * 270_000)
            producer.until(lambda: sender.session.outgoing_bytes == 0)
            assert len(consumer.read(receiver, 200_000)) >= 200_000
            assert receiver.current.partial

    def test_header_cut_in_the_middle(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            whole = head(3) + b"abc"
            producer.start(sender, whole[:1])
            for byte in whole[1:]:
                sender.stream(bytes([byte]))
                producer.pump(0)
                # Each byte is a frame, and the window has few of them.
                producer.until(lambda: sender.session.outgoing_bytes == 0)
            assert consumer.read(receiver, len(whole)) == whole


class TestFaults:
    """Effects on one side when the other fails."""

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("way", ["abort", *WAYS])
    def test_sender_goes(
        self, server: Server, address: str, way: str, part: int, streaming_links: bool
    ) -> None:
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, (head(SIZE) + b"x" * SIZE)[:part])
            receiver = consumer.take() if streaming_links else base
            assert len(consumer.read(receiver, part)) == part
            seen = receiver.current
            assert seen.partial
            leave(producer, sender, way)
            consumer.until(lambda: seen.aborted)
            seen.settle()
            receiver.flow(10)
            with EngineClient(server.port) as next_producer:
                again = next_producer.sender(address, streaming=True)
                next_producer.start(again, head(2) + b"y")
                assert consumer.read(receiver, 9) == head(2) + b"y"
                assert consumer.attached == []

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("way", WAYS)
    def test_receiver_goes(
        self, server: Server, address: str, way: str, part: int, streaming_links: bool
    ) -> None:
        message = head(SIZE) + b"x" * SIZE
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, message[:part])
            receiver = consumer.take() if streaming_links else base
            consumer.read(receiver, part)
            leave(consumer, receiver, way)
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            # The rest is read and dropped.
            sender.stream(message[part:])
            sender.advance()
            producer.until(lambda: delivery.settled)

    @pytest.mark.parametrize("way", WAYS)
    def test_receiver_goes_after_the_end(self, server: Server, address: str, way: str) -> None:
        """It may have used its messages: modified, delivery-failed."""
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(2) + b"x")
            link = consumer.take()
            consumer.read(link, 9)
            sender.stream(b"x")
            sender.advance()
            producer.pump(0)
            consumer.read(link, 1)
            consumer.until(lambda: not link.current.partial)
            leave(consumer, link, way)
            producer.until(lambda: delivery.remote_state == Delivery.MODIFIED)
            assert delivery.remote.failed

    def test_next_stream_goes_to_the_next_receiver(self, server: Server, address: str) -> None:
        with EngineClient(server.port) as producer, EngineClient(server.port) as survivor:
            with EngineClient(server.port) as victim:
                receiver = victim.receiver(address)
                sender = producer.sender(address, streaming=True)
                delivery = producer.start(sender, head(10) + b"x")
                victim.read(receiver, 9)
                other = survivor.receiver(address)
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            sender.advance()
            producer.start(producer.sender(address, streaming=True), head(10) + b"y")
            assert survivor.read(other, 9) == head(10) + b"y"

    def test_no_consumer_releases(self, server: Server, address: str) -> None:
        """Its sender had credit, and does not give it back."""
        with EngineClient(server.port) as producer:
            with EngineClient(server.port) as consumer:
                consumer.receiver(address)
                sender = producer.sender(address, streaming=True)
            producer.until(lambda: sender.drain_mode)
            delivery = producer.start(sender, head(1_000_000) + b"x")
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            sender.stream(b"x" * 999_999)
            sender.advance()
            producer.until(lambda: delivery.settled)

    @pytest.mark.parametrize(
        "outcome", [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED]
    )
    def test_early_settlement(self, server: Server, address: str, outcome: int) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(1_000_000) + b"x" * 10)
            link = consumer.take()
            consumer.read(link, 18)
            link.current.update(outcome)
            link.current.settle()
            consumer.pump(0)
            producer.until(lambda: delivery.remote_state == outcome)
            sender.stream(b"x" * 999_990)
            sender.advance()
            producer.until(lambda: delivery.settled)

    @BOTH
    def test_aborts_leak_nothing(
        self, server: Server, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        figure = judged(request, measures)
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            link = None
            before = 0
            for number in range(300):
                delivery = producer.start(sender, head(1000) + b"x" * (number % 3))
                link = link or consumer.take(1000)
                if number % 2:
                    consumer.until(lambda link=link: producer.pump(0) or unfinished(link))
                delivery.abort()
                producer.pump(0)
                if number == 100:
                    before = rss(server)
            consumer.until(lambda: producer.pump(0) or not unfinished(link))
            producer.until(lambda: sender.credit > 0)
            assert consumer.attached == []
            figure("bytes grown by 200", rss(server) - before, at_most=1 << 20, unit="B")


def unfinished(link: Receiver) -> bool:
    """Settle the aborted delivery; say whether another is on its way."""
    while link.current is not None and link.current.aborted:
        link.current.settle()
    return link.current is not None


class TestDemand:
    """A sender of streams has credit while there is a consumer."""

    @pytest.mark.parametrize("node", ["queue", "topic"])
    def test_credit_comes_with_a_consumer(self, server: Server, address: str, node: str) -> None:
        address = f"{node}.{address}"
        with pair(server, streaming_links=False) as (producer, consumer):
            sender = producer.sender(address, streaming=True, credit=False)
            producer.rest(QUIET)
            assert sender.credit == 0
            receiver = consumer.receiver(address)
            producer.until(lambda: sender.credit > 0)
            producer.start(sender, head(9) + b"x")
            assert consumer.read(receiver, 9) == head(9) + b"x"

    @pytest.mark.parametrize("node", ["queue", "topic"])
    def test_credit_goes_with_the_last_one(self, server: Server, address: str, node: str) -> None:
        address = f"{node}.{address}"
        with pair(server, streaming_links=False) as (producer, consumer):
            last, first = consumer.receiver(address), consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            first.close()
            consumer.until(lambda: bool(first.state & Endpoint.REMOTE_CLOSED))
            producer.sync()
            assert sender.credit > 0
            assert not sender.drain_mode
            last.close()
            consumer.pump(0)
            producer.until(lambda: sender.drain_mode)
            sender.drained()
            producer.pump(0)
            assert sender.credit == 0
            consumer.receiver(address)
            producer.until(lambda: sender.credit > 0)

    def test_messages_wait_for_a_consumer(self, server: Server, address: str) -> None:
        """Without the capability a sender has credit, and its messages are kept."""
        with pair(server, streaming_links=False) as (producer, consumer):
            delivery = producer.send(producer.sender(address), head(3) + b"abc")
            producer.until(lambda: delivery.remote_state == Delivery.ACCEPTED)
            assert consumer.read(consumer.receiver(address), 11) == head(3) + b"abc"

    def test_senders_of_streams_may_begin_first(self, start: Callable[..., Server]) -> None:
        """`quiver --streaming` through a server, whoever of the two is earlier."""
        server = start()
        common = {"count": 3, "body_size": 300_000, "streaming": 1}
        with Running(pyfast(*arguments("send", server.port, **common))) as sender:
            time.sleep(QUIET)
            assert sender.process.poll() is None
            receiver = run_pyfast(*arguments("receive", server.port, **common))
            assert receiver.code == 0, receiver
            end = sender.wait()
            assert end.code == 0, end


class TestFlow:
    """Back-pressure, in bounded memory."""

    @BOTH
    def test_an_unread_stream_stops_its_sender(
        self, server: Server, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        figure = judged(request, measures)
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(1 << 30))
            consumer.take()
            before = rss(server)
            sent = 0
            for _ in range(400):
                if sender.session.outgoing_bytes < 65536:
                    sender.stream(b"x" * 65536)
                    sent += 65536
                producer.pump(0.002)
            assert sent < 16 << 20
            figure("bytes that it holds", rss(server) - before, at_most=1 << 20, unit="B")
            cpu = cpu_seconds(server)
            producer.rest(1.0 if measures else 0.1)
            figure("CPU of a second", cpu_seconds(server) - cpu, at_most=0.05, unit="s")

    def test_presettled_streams_arrive_settled(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True, settled=True)
            producer.start(sender, head(3) + b"ab")
            link = consumer.take()
            sender.stream(b"c")
            sender.current.settle()
            producer.pump(0)
            consumer.read(link, 11)
            consumer.until(lambda: not link.current.partial)
            assert link.current.settled

    def test_anonymous_streams_go_by_to(self, server: Server, address: str) -> None:
        to = address.encode()
        fields = b"\x40\x40\xa1" + bytes([len(to)]) + to
        properties = b"\x00\x53\x73\xc0" + bytes([len(fields) + 1, 3]) + fields
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(None, streaming=True)
            producer.start(sender, properties + head(9) + b"x")
            assert consumer.read(consumer.take(), len(properties) + 9).endswith(b"x")

    def test_anonymous_streams_without_to_are_rejected(self, server: Server) -> None:
        with EngineClient(server.port) as producer:
            sender = producer.sender(None, streaming=True)
            delivery = producer.start(sender, head(9) + b"x")
            producer.until(lambda: delivery.remote_state == Delivery.REJECTED)


class TestMulticast:
    """Streams to a topic."""

    def test_every_member_gets_it(self, server: Server, address: str) -> None:
        topic = f"topic.{address}"
        with pair(server, streaming_links=True) as (producer, consumer):
            plain = producer.receiver(topic)
            consumer.receiver(topic)
            sender = producer.sender(topic, streaming=True)
            delivery = producer.start(sender, head(4) + b"ab")
            link = consumer.take()
            assert consumer.read(link, 10) == head(4) + b"ab"
            assert producer.read(plain, 10) == head(4) + b"ab"
            sender.stream(b"cd")
            sender.advance()
            producer.pump(0)
            assert consumer.read(link, 2) == b"cd"
            assert producer.read(plain, 2) == b"cd"
            consumer.until(lambda: not link.current.partial)
            consumer.accept(link)
            producer.rest(QUIET)
            assert not delivery.settled
            producer.accept(plain)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED

    def test_the_others_go_on_when_one_dies(self, server: Server, address: str) -> None:
        topic = f"topic.{address}"
        with EngineClient(server.port) as producer, EngineClient(server.port) as survivor:
            with EngineClient(server.port) as victim:
                victim.receiver(topic)
                receiver = survivor.receiver(topic)
                sender = producer.sender(topic, streaming=True)
                producer.start(sender, head(4) + b"ab")
                survivor.read(receiver, 10)
            sender.stream(b"cd")
            sender.advance()
            producer.pump(0)
            assert survivor.read(receiver, 2) == b"cd"
            survivor.until(lambda: not receiver.current.partial)
