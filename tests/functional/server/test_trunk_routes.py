"""Routes: what servers say to each other of a stream, in parts and in error."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Delivery
from support.engine_client import EngineClient
from support.server import Server
from support.streams import head, received, route

QUIET = 0.3


class TestRoutes:
    """A client that says that it is a server, to send what one would."""

    @settings(
        max_examples=20,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(cuts=st.sets(st.integers(1, 110), max_size=8), whole=st.booleans())
    def test_they_may_come_in_parts(
        self, servers: tuple[Server, Server], address: str, cuts: set[int], whole: bool
    ) -> None:
        header = b"\x00\x53\x70\xc0\x04\x02\x40\x50\x07"
        # The example before may still have a consumer at its address.
        own = f"{address}-{os.urandom(4).hex()}"
        message = header + route(own) + head(20) + b"x" * 20
        places = [0, *sorted(cuts), len(message)]
        port = servers[0].port
        with EngineClient(port, trunk=True) as peer, EngineClient(port) as consumer:
            receiver = consumer.receiver(own)
            sender = peer.sender(None)
            delivery = peer.start(sender, message[: places[1]])
            for begin, end in itertools.pairwise(places[1:]):
                sender.stream(message[begin:end])
                if not whole:
                    peer.pump(0)
            sender.advance()
            # The end of a delivery is no bytes to wait for.
            peer.pump(0)
            peer.until(lambda: sender.session.outgoing_bytes == 0)
            got = received(consumer, receiver, len(header) + 28, peer)
            assert got == header + head(20) + b"x" * 20
            peer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED

    @pytest.mark.parametrize("complete", [False, True])
    @pytest.mark.parametrize(
        "start",
        [
            head(1) + b"x",
            route("queue0", flags=0) + head(1) + b"x",
            b"\x00\x53\x71\xc1\x01\x00" + head(1) + b"x",
            b"\x00\x53\x71\x40" + head(1) + b"x",
            b"no message",
        ],
        ids=["none", "no stream", "empty", "no map", "no message"],
    )
    def test_without_one_it_is_rejected(
        self, servers: tuple[Server, Server], start: bytes, complete: bool
    ) -> None:
        with EngineClient(servers[0].port, trunk=True) as peer:
            sender = peer.sender(None)
            delivery = peer.start(sender, start)
            if complete:
                sender.advance()
            peer.until(lambda: delivery.remote_state == Delivery.REJECTED)

    def test_to_nobody_it_is_released(self, servers: tuple[Server, Server], address: str) -> None:
        with EngineClient(servers[0].port, trunk=True) as peer:
            delivery = peer.start(peer.sender(None), route(address) + head(9) + b"x")
            peer.until(lambda: delivery.remote_state == Delivery.RELEASED)

    @pytest.mark.parametrize("streaming", [False, True])
    def test_the_section_of_other_routers_is_none(
        self, servers: tuple[Server, Server], address: str, streaming: bool
    ) -> None:
        """skupper-router's annotations are for routers; from others it rejects them as well."""
        flags = b"\x00\x80\x53\x4b\x50\x52\x2d\x2d\x52\x41\xc0\x06\x04\x52\x01\x40\x40\x45"
        with EngineClient(servers[0].port) as producer, EngineClient(servers[0].port) as consumer:
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=streaming)
            delivery = producer.start(sender, flags + head(2) + b"ab")
            sender.advance()
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.REJECTED
            assert delivery.remote.condition.name == "amqp:decode-error"
            consumer.rest(0.1)
            assert receiver.current is None
