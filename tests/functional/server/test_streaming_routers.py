"""Streams to and from a router of another kind, which this server is a container of.

The router is a scripted one. Its open frame, and where it sends streams, are what
skupper-router's are (file 004): to a peer that offers `qd.streaming-links` by a link without
addresses, told where to go by a section that only routers read; to any other by the link of
the address.
"""

from __future__ import annotations

import os

import pytest
from proton import Delivery, Sender, symbol
from support.engine_client import EngineClient
from support.server import Server
from support.streams import head, received, send_all

SIZES = [1, 300_000, 3_000_000]


class Router(EngineClient):
    """A connection of a router that takes this server for a route container."""

    def link_for_streams(self, address: str) -> Sender:
        """Attach a link for a stream, as a router chooses it."""
        if symbol("qd.streaming-links") in list(self.connection.remote_offered_capabilities):
            return self.sender(None)
        return self.sender(address)


def router(server: Server) -> Router:
    return Router(server.port, streaming_links=True, relay=True)


def test_it_is_offered_no_links_for_streams(server: Server) -> None:
    with router(server) as relay, EngineClient(server.port, streaming_links=True) as client:
        assert symbol("qd.streaming-links") not in list(
            relay.connection.remote_offered_capabilities
        )
        assert symbol("ANONYMOUS-RELAY") in list(relay.connection.remote_offered_capabilities)
        assert symbol("qd.streaming-links") in list(client.connection.remote_offered_capabilities)


@pytest.mark.parametrize("size", SIZES)
def test_from_the_router(server: Server, address: str, size: int) -> None:
    """The first part of a large message names no address, but its link does."""
    message = head(size) + os.urandom(size)
    with router(server) as relay, EngineClient(server.port) as consumer:
        receiver = consumer.receiver(address)
        sender = relay.link_for_streams(address)
        delivery = relay.start(sender, message[:1])
        send_all(relay, sender, message[1:], lambda: consumer.pump(0))
        assert received(consumer, receiver, len(message), relay) == message
        relay.until(lambda: delivery.settled)
        assert delivery.remote_state == Delivery.ACCEPTED


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("streaming", [False, True])
def test_to_the_router(server: Server, address: str, size: int, streaming: bool) -> None:
    """By the link that it attached: one without addresses would tell it nothing."""
    message = head(size) + os.urandom(size)
    with EngineClient(server.port) as producer, router(server) as relay:
        receiver = relay.receiver(address)
        sender = producer.sender(address, streaming=streaming)
        delivery = producer.start(sender, message[:1])
        send_all(producer, sender, message[1:], lambda: relay.pump(0))
        assert received(relay, receiver, len(message), producer) == message
        assert not relay.attached
        producer.until(lambda: delivery.settled)
        assert delivery.remote_state == Delivery.ACCEPTED
