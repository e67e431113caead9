"""Streams come by links of their own: who attaches them, on which terms, and when they go."""

from __future__ import annotations

from proton import Endpoint, symbol
from support.engine_client import EngineClient
from support.server import Server
from support.streams import head, pair, received, wave

MEBIBYTE = 1 << 20
QUIET = 0.3


class TestAttach:
    def test_the_server_says_what_it_can(self, server: Server, address: str) -> None:
        with EngineClient(server.port) as client:
            offered = list(client.connection.remote_offered_capabilities)
            assert symbol("qd.streaming-links") in offered
            assert symbol("ANONYMOUS-RELAY") in offered
            assert client.sender(address).remote_target.address == address
            assert client.receiver(address).remote_source.address == address

    def test_links_for_streams(self, server: Server, address: str) -> None:
        """The attach of links for streams, and its fields."""
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address, credit=7)
            producer.start(producer.sender(address, streaming=True), head(9) + b"x")
            link = consumer.take()
            assert link.is_receiver
            assert link.remote_source.address is None
            assert link.remote_target.address is None
            assert not link.remote_source.capabilities.format()
            consumer.read(link, 9)
            assert base.credit == 7

    def test_an_unanswered_attach_stops_that_stream_only(
        self, server: Server, address: str
    ) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            base = consumer.receiver(address)
            waiting = producer.sender(address, streaming=True)
            producer.start(waiting, head(MEBIBYTE))
            consumer.until(lambda: bool(consumer.attached))
            consumer.attached.clear()
            producer.start(producer.sender(address, streaming=True), head(9) + b"y")
            assert consumer.read(consumer.take(), 9) == head(9) + b"y"
            producer.send(producer.sender(address), head(1) + b"z")
            assert received(consumer, base, 9) == head(1) + b"z"

    def test_a_second_wave_uses_the_links_of_the_first(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            senders = [producer.sender(address, streaming=True) for _ in range(8)]
            links = wave(producer, consumer, senders, [])
            assert len(links) == 8
            assert wave(producer, consumer, senders, links) == links

    def test_idle_links_beyond_128_go(self, server: Server, address: str) -> None:
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            session = producer.session()
            senders = [
                producer.sender(address, streaming=True, session=session) for _ in range(140)
            ]
            links = wave(producer, consumer, senders, [])
            assert len(links) == 140

            def gone() -> int:
                return sum(1 for link in links if link.state & Endpoint.REMOTE_CLOSED)

            consumer.until(lambda: gone() == 12)
            consumer.rest(QUIET)
            assert gone() == 12
