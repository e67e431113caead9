"""Sessions of the links that the server attaches, and of those that streams come by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery, Endpoint
from support.engine_client import STREAMING_DELIVERIES, EngineClient
from support.measured import Figure
from support.server import Server, running_server
from support.streams import head, pair, received, rss

Start = Callable[..., Server]
QUIET = 0.2


class TestChannels:
    """A peer may allow few sessions; without a channel the engine is mute for ever."""

    @pytest.mark.parametrize(("channel_max", "sessions"), [(0, 1), (1, 1), (2, 1), (5, 3)])
    def test_streams_share_what_there_is(
        self, server: Server, address: str, channel_max: int, sessions: int
    ) -> None:
        """The consumer's own session, or up to half of the channels and never the last."""
        count = 4
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port, streaming_links=True, channel_max=channel_max) as consumer,
        ):
            base = consumer.receiver(address)
            senders = [producer.sender(address, streaming=True) for _ in range(count)]
            deliveries = [producer.start(sender, head(2) + b"x") for sender in senders]
            links = [consumer.take() for _ in range(count)]
            assert len({link.session for link in links}) == sessions
            for sender, link in zip(senders, links, strict=True):
                assert consumer.read(link, 9) == head(2) + b"x"
                sender.stream(b"y")
                sender.advance()
                producer.pump(0)
                received(consumer, link, 1, producer)
            producer.until(lambda: all(each.settled for each in deliveries))
            assert {each.remote_state for each in deliveries} == {Delivery.ACCEPTED}
            producer.send(producer.sender(address), head(1) + b"z")
            assert received(consumer, base, 9) == head(1) + b"z"

    def test_more_streams_than_sessions(self, start: Start, address: str) -> None:
        count = 12
        with pair(start(max_sessions=4), streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            session = producer.session()
            for _ in range(count):
                sender = producer.sender(address, streaming=True, session=session)
                producer.start(sender, head(9) + b"x")
            for _ in range(count):
                assert consumer.read(consumer.take(), 9) == head(9) + b"x"

    def test_sessions_come_back(self, server: Server, address: str) -> None:
        """A session that the peer ended does not count: the next stream has its own session."""
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port, streaming_links=True, channel_max=5) as consumer,
        ):
            consumer.receiver(address)
            for _ in range(6):
                delivery = producer.start(producer.sender(address, streaming=True), head(9) + b"x")
                link = consumer.take()
                consumer.read(link, 9)
                link.session.close()
                consumer.pump(0)
                producer.until(lambda d=delivery: d.remote_state == Delivery.RELEASED)

    def test_trunks_share_as_well(self, tmp_path: Path, address: str) -> None:
        """Five addresses and five streams, of servers that allow three sessions."""
        names = [f"{address}-{number}" for number in range(5)]
        with (
            running_server(tmp_path, max_sessions=3, trunks="*") as near,
            running_server(tmp_path, max_sessions=3, connect=f"127.0.0.1:{near.port}") as far,
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            session, other = consumer.session(), producer.session()
            receivers = [consumer.receiver(name, session=session) for name in names]
            consumer.rest(QUIET)
            for name, receiver in zip(names, receivers, strict=True):
                producer.send(producer.sender(name, session=other), head(1) + b"z")
                assert received(consumer, receiver, 9) == head(1) + b"z"
            senders = [producer.sender(name, streaming=True, session=other) for name in names]
            for sender in senders:
                producer.start(sender, head(2) + b"x")
            for receiver in receivers:
                assert consumer.read(receiver, 9) == head(2) + b"x"
            for sender in senders:
                sender.stream(b"y")
                sender.advance()
            producer.pump(0)
            for receiver in receivers:
                assert received(consumer, receiver, 1, producer) == b"y"


class TestSharedSession:
    def test_one_session_for_all_links(self, start: Start, address: str) -> None:
        server = start(stream_sessions="shared")
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address)
            for _ in range(3):
                producer.start(producer.sender(address, streaming=True), head(9) + b"x")
            links = [consumer.take() for _ in range(3)]
            assert len({link.session for link in links}) == 1
            assert links[0].session != base.session
            for link in links:
                assert consumer.read(link, 9) == head(9) + b"x"
            # A link that goes leaves the session to the others.
            links[0].close()
            consumer.pump(0)
            producer.start(producer.sender(address, streaming=True), head(9) + b"y")
            link = consumer.take()
            assert link.session == links[1].session
            assert consumer.read(link, 9) == head(9) + b"y"


class TestWindow:
    @pytest.mark.measured
    @pytest.mark.parametrize("early", [False, True], ids=["attach follows", "attach at once"])
    def test_a_stalled_stream_is_small(
        self, start: Start, address: str, early: bool, figure: Figure
    ) -> None:
        """Also if its session was answered before its link was attached."""
        server = start()
        count = 8
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sessions = [producer.session() for _ in range(count)]
            if not early:
                producer.until(
                    lambda: all(each.state & Endpoint.REMOTE_ACTIVE for each in sessions)
                )
            senders = [
                producer.sender(address, streaming=True, session=session) for session in sessions
            ]
            before = rss(server)
            for sender in senders:
                producer.start(sender, head(1 << 30))
                consumer.take()
            for _ in range(60):
                for sender in senders:
                    if sender.session.outgoing_bytes < 65536:
                        sender.stream(b"x" * 65536)
                producer.pump(0.005)
            held = (rss(server) - before) / count
            figure("bytes held by a stream", held, at_most=448 << 10, unit="B")

    def test_others_on_the_session_keep_theirs(self, server: Server, address: str) -> None:
        """A window that is in use is not made smaller: that would be a breach by the sender."""
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address, credit=200)
            session = producer.session()
            plain = producer.sender(address, session=session)
            link = session.sender("streams")
            link.target.address = address
            link.target.capabilities.put_symbol(STREAMING_DELIVERIES)
            link.open()
            for number in range(50):
                plain.delivery(f"t{number}")
                plain.stream(head(1) + b"z")
                plain.advance()
            producer.until(lambda: link.credit > 0 and session.outgoing_bytes == 0)
            consumer.until(lambda: base.queued == 50)
            producer.start(link, head(9) + b"x")
            assert consumer.read(consumer.take(), 9) == head(9) + b"x"
            assert not producer.closed_by_peer


class TestAnonymous:
    def properties(self, to: str) -> bytes:
        fields = b"\x40\x40\xa1" + bytes([len(to)]) + to.encode()
        return b"\x00\x53\x73\xc0" + bytes([len(fields) + 1, 3]) + fields

    def test_cut_anywhere(self, server: Server, address: str) -> None:
        """In two at every byte before the body: it waits for `to`."""
        name = f"{address}-to"
        start = b"\x00\x53\x70\xc0\x04\x02\x41\x50\x07"
        start += b"\x00\x53\x72\xc1\x07\x02\xa3\x01k\xa1\x01v"
        start += self.properties(name) + head(3) + b"abc"
        with contextlib.ExitStack() as stack:
            producer, consumer = stack.enter_context(pair(server, streaming_links=True))
            base = consumer.receiver(name, credit=200)
            sender = producer.sender(None, streaming=True)
            link = None
            for cut in range(1, len(start)):
                delivery = producer.start(sender, start[:cut])
                producer.until(lambda: sender.session.outgoing_bytes == 0)
                sender.stream(start[cut:])
                producer.pump(0)
                sender.advance()
                producer.pump(0)
                consumer.until(lambda link=link: consumer.attached or is_there(base, link))
                if consumer.attached:
                    assert link is None
                    link = consumer.take(200)
                    consumer.until(lambda link=link: is_there(base, link))
                at = base if base.current is not None else link
                assert received(consumer, at, len(start), producer) == start
                producer.until(lambda d=delivery: d.settled)
                assert delivery.remote_state == Delivery.ACCEPTED

    def test_to_nobody_it_is_released(self, server: Server, address: str) -> None:
        with EngineClient(server.port) as producer:
            sender = producer.sender(None, streaming=True)
            delivery = producer.start(sender, self.properties(f"{address}-none") + head(9) + b"x")
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            sender.stream(b"x" * 8)
            sender.advance()
            producer.until(lambda: delivery.settled)

    def test_what_is_no_message_is_a_decode_error(self, server: Server) -> None:
        with EngineClient(server.port) as producer:
            delivery = producer.start(producer.sender(None, streaming=True), b"no message")
            producer.until(lambda: delivery.remote_state == Delivery.REJECTED)
            assert delivery.remote.condition.name == "amqp:decode-error"


def is_there(base: object, link: object) -> bool:
    return any(each is not None and each.current is not None for each in (base, link))
