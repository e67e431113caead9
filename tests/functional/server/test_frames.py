"""The server's error paths, frame by frame: AMQP 1.0 parts 2 and 5.

Every test talks to one server over a connection of its own, and after every test
another connection must work as before. Some conditions are the engine's, which
closes the connection where the specification would end a session or detach a link;
then both are allowed, the specification's first.
"""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
from support.network import reset
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    Frame,
    encode_frame,
    message,
)

FRAMING = "amqp:connection:framing-error"
DECODE = "amqp:decode-error"
ILLEGAL_STATE = "amqp:illegal-state"
NOT_ALLOWED = "amqp:not-allowed"
INVALID_FIELD = "amqp:invalid-field"

# A queue of its own for each producer: what another test left is not in the way.
addresses = (f"frames-{number}" for number in itertools.count())


def closing(client: FrameClient) -> Frame:
    """Return the server's close; once it is answered the socket must be closed too."""
    found = client.until("close")
    client.send("close")
    assert client.read_to_end() == []
    return found


def ending(client: FrameClient) -> Frame:
    """Return the first detach, end or close; a close must be the last word."""
    while True:
        found = client.read()
        if found.name in ("detach", "end"):
            return found
        if found.name == "close":
            client.send("close")
            assert client.read_to_end() == []
            return found


# -- before the open frame


@pytest.mark.parametrize(
    "greeting",
    [
        b"AMQP\x00\x00\x09\x01",  # AMQP 0-9-1
        b"\x16\x03\x01\x02\x00\x01\x00\x01",  # a TLS client hello where there is no TLS
        b"AMQPAMQPAMQP" * 1000,
    ],
    ids=["0-9-1", "tls", "flood"],
)
def test_another_protocol_gets_our_header_and_the_door(
    client: FrameClient, greeting: bytes
) -> None:
    """Part 2.2: answer with a supported header, then close the socket."""
    client.send_bytes(greeting)
    if not greeting.startswith(b"\x16"):
        assert client.read_header() in (AMQP_HEADER, SASL_HEADER)
    client.read_to_end()


def test_half_a_header_and_a_farewell(client: FrameClient) -> None:
    client.send_bytes(AMQP_HEADER[:5])
    client.socket.shutdown(1)
    while client.socket.recv(4096):
        pass


# -- frames


@pytest.mark.parametrize("beyond", [1, 0xFFFFFFFF])
def test_a_frame_above_the_maximum_is_refused_before_its_end(
    client: FrameClient, beyond: int
) -> None:
    limit = client.open().fields["max_frame_size"]
    client.send_bytes(struct.pack(">IBBH", min(limit + beyond, 0xFFFFFFFF), 2, 0, 0))
    assert closing(client).condition == FRAMING


# -- frames that the state of a session or link does not allow


def producer(client: FrameClient, address: str | None = None) -> int:
    """Begin a session and attach a sending link; return its credit."""
    client.begin()
    attach = client.attach_sender(address or next(addresses))
    assert "target" in attach.fields, attach
    return client.wait_for_credit()


def test_delivery_ids_with_a_gap_end_it(client: FrameClient) -> None:
    client.open()
    producer(client)
    for number in (0, 5):
        client.transfer(number, message(b"x"))
    assert ending(client).condition == INVALID_FIELD


def test_a_range_backwards_ends_it(client: FrameClient) -> None:
    client.open()
    producer(client)
    client.send("disposition", role=True, first=5, last=4)
    assert ending(client).condition == INVALID_FIELD


def test_more_transfers_than_credit_end_the_link(tmp_path: Path) -> None:
    """Part 2.6.7; all in one piece of the network, so that no new credit comes between."""
    with running_server(tmp_path, credit=10) as server, FrameClient(server.port) as client:
        client.open()
        assert producer(client) == 10
        sent = [{"delivery_id": n, "delivery_tag": b"%d" % n} for n in range(60)]
        body = message(b"x" * 100)
        transfers = [encode_frame("transfer", payload=body, handle=0, **each) for each in sent]
        client.send_bytes(b"".join(transfers))
        assert ending(client).condition == "amqp:link:transfer-limit-exceeded"


def test_beginning_twice_harms_only_its_connection(client: FrameClient) -> None:
    """Part 2.5.6 has no such transition; the engine takes it for the newer one."""
    client.open()
    client.begin()
    client.send("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    client.send("close")
    assert closing(client).condition in (None, ILLEGAL_STATE, NOT_ALLOWED, FRAMING)


def test_a_connection_of_a_trunk_is_opened_once(client: FrameClient) -> None:
    """Part 2.4.6 has no such transition."""
    opened = {"offered_capabilities": Value("symbol", "quiver.trunk")}
    client.open(**opened)
    client.begin()
    client.send("open", container_id="again", **opened)
    assert closing(client).condition == ILLEGAL_STATE


def test_a_transfer_to_a_sender_harms_only_its_connection(client: FrameClient) -> None:
    """No clause says what to answer; the engine takes it for a delivery of its own."""
    client.open()
    client.begin()
    client.attach_receiver(next(addresses), handle=0)
    client.transfer(0, message(b"wrong way"))
    client.send("close")
    assert closing(client).condition in (None, NOT_ALLOWED, ILLEGAL_STATE, INVALID_FIELD)


def test_frames_after_close_do_not_keep_a_connection(client: FrameClient) -> None:
    client.open()
    client.send_bytes(encode_frame("close") + encode_frame("begin") * 3)
    closing(client)


@pytest.mark.parametrize("how", ["reset", "shutdown"])
def test_a_connection_that_is_cut_in_mid_frame(client: FrameClient, how: str) -> None:
    client.open()
    producer(client)
    client.send_bytes(encode_frame("transfer", handle=0, delivery_id=0, delivery_tag=b"0")[:10])
    if how == "reset":
        reset(client.socket)
    else:
        client.socket.shutdown(1)
        client.read_to_end()


def test_a_sender_that_dies_in_mid_delivery_sends_nothing(
    client: FrameClient, server: Server
) -> None:
    address = next(addresses)
    with FrameClient(server.port) as sender:
        sender.open()
        producer(sender, address)
        sender.transfer(0, message(b"half"), more=True)
        reset(sender.socket)
    client.open()
    producer(client, address)
    client.transfer(0, message(b"whole"))
    client.outcome(0, "accepted")
    client.attach_receiver(address, handle=1)
    client.give_credit(10, handle=1)
    assert client.expect("transfer").payload == message(b"whole")


# -- time-outs


@pytest.mark.parametrize("milliseconds", [1, 99])
def test_an_idle_time_out_that_is_too_short(client: FrameClient, milliseconds: int) -> None:
    """A few connections that ask for thousands of heartbeats a second would keep a core busy."""
    client.open(idle_time_out=milliseconds)
    # A server that takes it sends heartbeats first.
    found = client.read()
    assert (found.name, found.condition) == ("close", "amqp:resource-limit-exceeded")
