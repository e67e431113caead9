"""Clauses of part 2 that no other test holds; `docs/internals/conformance.md` has all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    composite,
    encode_frame,
    message,
)

BODY = message(b"whole")
WINDOWS = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}


@pytest.fixture(name="client")
def opened_client(server: Server) -> Iterator[FrameClient]:
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        yield client


def produce(client: FrameClient, address: str, **fields: Any) -> None:
    client.attach_sender(address, **fields)
    client.wait_for_credit()


def outcome(client: FrameClient) -> tuple[int, str]:
    """Return the delivery and the state of the next disposition."""
    fields = client.expect("disposition").fields
    return fields["first"], fields["state"].name


# -- connections and sessions


@pytest.mark.parametrize("tunnel", [1, 2, 4, 255])
def test_a_tunnel_that_is_not_there_gets_our_header_and_the_door(
    server: Server, tunnel: int
) -> None:
    """Parts 2.2 and 5.2: also that of TLS, which begins without a header here (5.2.1)."""
    with FrameClient(server.port) as client:
        client.send_bytes(b"AMQP" + bytes((tunnel, 1, 0, 0)))
        assert client.read_header() in (AMQP_HEADER, SASL_HEADER)
        client.read_to_end()


def test_a_close_comes_on_any_channel_and_is_answered_on_the_first(client: FrameClient) -> None:
    """Part 2.4.3; the answer is the last frame."""
    client.send("close", channel=7)
    last = client.read_to_end()[-1]
    assert (last.name, last.channel, last.condition) == ("close", 0, None)


def test_frames_behind_an_error_are_discarded(client: FrameClient) -> None:
    """Part 2.4.6, DISCARDING: after a close of ours nothing is answered."""
    client.attach_sender("behind")
    client.send("transfer", handle=0)
    client.send("begin", channel=4, **WINDOWS)
    client.send("attach", name="late", handle=0, role=True)
    assert client.expect("close").condition == "amqp:invalid-field"
    client.send("close")
    assert client.read_to_end() == []


def test_a_transfer_beyond_the_window_ends_the_session(client: FrameClient, address: str) -> None:
    """Part 2.5.6; the others of the connection go on, and the channel may be used again."""
    window = client.begin(1).fields["incoming_window"]
    client.attach_sender(address, channel=1)
    client.wait_for_credit()
    part = {"channel": 1, "handle": 0, "delivery_id": 0, "delivery_tag": b"0", "more": True}
    client.send_bytes(encode_frame("transfer", payload=b"\0", **part) * (window + 1))
    assert client.expect("end").condition == "amqp:session:window-violation"
    client.send("end", channel=1)
    client.begin(1)
    produce(client, address, channel=1)


def test_frames_behind_an_ended_session_are_discarded(client: FrameClient, address: str) -> None:
    """Parts 2.5.4 and 2.5.5."""
    client.begin(1)
    client.send("flow", channel=1, handle=9, delivery_count=0, link_credit=1, **WINDOWS)
    assert client.expect("end").condition == "amqp:session:unattached-handle"
    client.send("transfer", channel=1, handle=9, delivery_id=0, delivery_tag=b"0", payload=BODY)
    client.send("attach", channel=1, name="late", handle=3, role=True)
    client.send("end", channel=1)
    produce(client, address)
    client.transfer(0, BODY)
    assert outcome(client) == (0, "accepted")


# -- links


@pytest.mark.parametrize("terminus", ["null", "unknown"])
def test_a_link_without_a_target_is_detached(client: FrameClient, terminus: str) -> None:
    """Part 2.6.3: our attach says that there is no terminus, and the detach follows at once."""
    unknown = Value("described", (Value("ulong", 0x99), Value("list", ())))
    target = None if terminus == "null" else unknown
    assert "target" not in client.attach_sender("none", target=target).fields
    assert client.expect("detach").fields["closed"]


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_an_incomplete_map_of_deliveries_is_refused(
    client: FrameClient, address: str, role: str
) -> None:
    """Part 2.7.3: nothing new may be sent to such a link, and nothing old is resumed."""
    attach = client.attach_sender if role == "sender" else client.attach_receiver
    attach(address, unsettled=Value("map", ()), incomplete_unsettled=True)
    assert client.expect("detach").condition == "amqp:invalid-field"


def test_a_map_of_deliveries_finds_none_here(client: FrameClient, address: str) -> None:
    """Part 2.6.13: our attach has none of them, so they are settled for the peer."""
    received = composite("received", section_number=0, section_offset=0)
    unsettled = Value("map", ((Value("binary", b"tag"), received),))
    assert "unsettled" not in client.attach_receiver(address, unsettled=unsettled).fields


def test_a_delivery_is_not_resumed(client: FrameClient, address: str) -> None:
    """Part 2.7.5, resume: no tag is in an unsettled map here."""
    produce(client, address)
    client.transfer(0, BODY, resume=True)
    assert client.expect("detach").condition == "amqp:not-implemented"


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_the_settle_mode_of_a_sender_is_that_of_both(
    client: FrameClient, address: str, role: str, mode: int
) -> None:
    """Part 2.7.3; transfers to a consumer are settled by it (2.7.5)."""
    attach = client.attach_sender if role == "sender" else client.attach_receiver
    assert attach(address, snd_settle_mode=mode).fields["snd_settle_mode"] == mode
    if role == "receiver":
        produce(client, address, handle=1)
        client.transfer(0, BODY, handle=1)
        client.expect("disposition")
        client.give_credit(1)
        assert client.expect("transfer").fields.get("settled", False) == (mode == 1)


@pytest.mark.parametrize("mode", ["snd_settle_mode", "rcv_settle_mode"])
def test_settle_modes_are_known_ones(client: FrameClient, mode: str) -> None:
    """Part 2.7.3."""
    client.send("attach", name="odd", handle=0, role=True, source=None, **{mode: 9})
    assert client.expect("close").condition == "amqp:invalid-field"


# -- transfers
