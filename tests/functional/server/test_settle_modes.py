"""The modes of settlement of a link (part 2.7.3)."""

from __future__ import annotations

import pytest
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import Composite, Frame, composite, message

SOLE = "sole-connection-for-container"
ACCEPTED = composite("accepted")


def opened(server: Server, **fields: object) -> FrameClient:
    client = FrameClient(server.port)
    client.open(**fields)
    client.begin()
    return client


def publish(server: Server, address: str, *payloads: bytes) -> None:
    with opened(server) as client:
        client.attach_sender(address)
        client.wait_for_credit()
        for number, payload in enumerate(payloads):
            client.transfer(number, payload)
            client.expect("disposition")


def answer(client: FrameClient, sent: Frame, state: Value, *, settled: bool = True) -> None:
    number = sent.fields["delivery_id"]
    client.send("disposition", role=True, first=number, settled=settled, state=state)


@pytest.mark.parametrize("mode", [0, 1])
def test_rcv_settle_mode_of_a_consumer(server: Server, address: str, mode: int) -> None:
    """Part 2.6.12: with `second` the receiver settles when we have, which our answer says."""
    publish(server, address, message(b"1"), message(b"2"))
    with opened(server) as client:
        answered = client.attach_receiver(address, rcv_settle_mode=mode)
        assert answered.fields.get("rcv_settle_mode", 0) == mode
        client.give_credit(1)
        sent = client.expect("transfer")
        answer(client, sent, ACCEPTED, settled=False)
        settled = client.expect("disposition").fields
        assert not settled["role"]
        assert settled["settled"]
        assert settled["first"] == sent.fields["delivery_id"]
        assert settled["state"] == Composite("accepted", {})
        answer(client, sent, ACCEPTED)
        client.send("detach", handle=0, closed=True)
        client.expect("detach")
    with opened(server) as client:
        client.attach_receiver(address)
        client.give_credit(5)
        assert client.expect("transfer").payload == message(b"2")


def test_rcv_settle_mode_of_a_producer(server: Server, address: str) -> None:
    """We settle first for every mode that the producer asks for, and say so."""
    with opened(server) as client:
        answered = client.attach_sender(address, rcv_settle_mode=1)
        assert answered.fields.get("rcv_settle_mode", 0) == 0
        client.wait_for_credit()
        client.transfer(0, message(b"x"))
        assert client.expect("disposition").fields["settled"]
