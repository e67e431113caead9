"""Flows that ask for an answer, and credit of any size (parts 2.6.7 and 2.7.4; frames by hand)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.sections import delivery, opened, put, settle
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import message

SESSION = {"next_incoming_id": 0, "incoming_window": 1000, "next_outgoing_id": 0,
           "outgoing_window": 1000}  # fmt: skip


@pytest.fixture(name="client")
def opened_client(server: Server) -> Iterator[FrameClient]:
    with opened(server.port) as client:
        yield client


def flow_of(client: FrameClient, handle: int) -> dict[str, object]:
    """Return the fields of the next flow of a link, by its handle; others' may come before."""
    while True:
        fields = client.expect("flow").fields
        if fields.get("handle") == handle:
            return fields


def test_a_window_comes_with_a_link(client: FrameClient, address: str) -> None:
    """Proton tells its user of no flow without one: skupper-router would wait for ever."""
    client.attach_sender(address, handle=9)
    flow_of(client, 0)
    client.attach_sender(f"{address}-other", handle=7)
    window = flow_of(client, 1)["incoming_window"]
    assert isinstance(window, int)
    client.transfer(0, message(b"x" * 1000), handle=9, more=True)
    for _ in range(window // 2):
        client.send("transfer", handle=9, more=True, payload=b"x" * 1000)
    given = client.expect("flow").fields
    assert given["incoming_window"] == window
    assert given["handle"] in (0, 1)


def test_a_second_drain_is_answered(client: FrameClient, address: str) -> None:
    """go-amqp's DrainCredit waits for a flow, also where no credit is left to return."""
    theirs = client.attach_receiver(address).fields["handle"]
    client.give_credit(2, drain=True)
    for _ in range(2):
        told = flow_of(client, theirs)
        assert (told["delivery_count"], told.get("link_credit", 0)) == (2, 0)
        client.send("flow", handle=0, delivery_count=2, link_credit=0, drain=True, **SESSION)


def test_a_consumer_gets_no_message_that_is_too_large_for_it(server: Server, address: str) -> None:
    """It is told, and the message is there for others (part 2.7.3, max-message-size)."""
    large = message(bytes(200))
    put(server.port, address, message(b"0"), large)
    with opened(server.port, container_id="receives") as consumer:
        consumer.attach_receiver(address, max_message_size=100)
        consumer.give_credit(10)
        assert delivery(consumer)[1] == message(b"0")
        settle(consumer, "accepted", 0, 0)
        found = consumer.expect("detach")
        assert found.condition == "amqp:link:message-size-exceeded"
        consumer.attach_receiver(address, handle=1, max_message_size=len(large))
        consumer.give_credit(10, handle=1)
        assert consumer.expect("transfer").payload.endswith(large)
