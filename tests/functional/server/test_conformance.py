"""Clauses of AMQP 1.0 that no other test holds; `docs/internals/conformance.md` lists all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    composite,
    encode_frame,
    message,
)

BODY = message(b"whole")
HALVES = (BODY[:4], BODY[4:])
ACCEPTED = composite("accepted")
WINDOWS = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}
REQUEST = 0x77  # amqp-value


def value(body: Value, *, code: int = REQUEST) -> bytes:
    return encode(Value("described", (Value("ulong", code), body)))


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


def body_of_next(client: FrameClient, address: str, *, handle: int = 8) -> bytes:
    """Attach a consumer and return the payload of the first message of a queue."""
    client.attach_receiver(address, handle=handle)
    client.give_credit(1, handle=handle)
    return client.expect("transfer").payload


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


@pytest.mark.parametrize("channel", [0, 5, 1024])
def test_a_begin_is_answered_with_its_channel(server: Server, channel: int) -> None:
    """Part 2.7.2, remote-channel."""
    with FrameClient(server.port) as client:
        assert client.open().fields["channel_max"] >= channel
        assert client.begin(channel).fields["remote_channel"] == channel


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


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_detach_is_answered_in_kind(
    client: FrameClient, address: str, role: str, closed: bool
) -> None:
    """Parts 2.6.4 and 2.6.6; the handle is free then."""
    attach = client.attach_sender if role == "sender" else client.attach_receiver
    attach(address)
    client.send("detach", handle=0, closed=closed)
    told = client.expect("detach")
    assert (told.fields.get("closed", False), told.condition) == (closed, None)
    attach(address)


@pytest.mark.parametrize("terminus", ["null", "unknown"])
def test_a_link_without_a_target_is_detached(client: FrameClient, terminus: str) -> None:
    """Part 2.6.3: our attach says that there is no terminus, and the detach follows at once."""
    unknown = Value("described", (Value("ulong", 0x99), Value("list", ())))
    target = None if terminus == "null" else unknown
    assert "target" not in client.attach_sender("none", target=target).fields
    assert client.expect("detach").fields["closed"]


@pytest.mark.parametrize("policy", [None, "link-detach", "session-end", "connection-close"])
@pytest.mark.parametrize("terminus", ["source", "target"])
def test_a_terminus_is_told_as_it_is(
    client: FrameClient, address: str, terminus: str, policy: str | None
) -> None:
    """Part 2.6.3: a queue's terminus ends with its link under every policy (3.5.5, 3.5.6)."""
    asked = composite(terminus, address=address, durable=1, expiry_policy=policy, timeout=600)
    attach = client.attach_receiver if terminus == "source" else client.attach_sender
    told = attach(address, **{terminus: asked}).fields[terminus].fields
    assert told["expiry_policy"] == "link-detach"
    assert (told.get("durable", 0), told.get("timeout", 0)) == (0, 0)


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [("queue", None, "move"), ("queue", "move", "move"), ("queue", "copy", "copy"),
     ("queue", "odd", "move"), ("topic", None, "copy"), ("topic", "move", "move")],
)  # fmt: skip
def test_a_source_names_its_distribution_mode(
    client: FrameClient, address: str, name: str, asked: str | None, told: str
) -> None:
    """Part 3.5.3: the sending end has two of them, so it says which."""
    mode = asked and Value("symbol", asked)
    source = composite("source", address=f"{name}-{address}", distribution_mode=mode)
    attach = client.attach_receiver("", source=source)
    assert attach.fields["source"].fields["distribution_mode"] == told


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


@pytest.mark.parametrize("flags", [(True, None), (None, True), (True, True)])
def test_a_delivery_is_settled_by_any_of_its_frames(
    client: FrameClient, address: str, flags: tuple[bool | None, bool | None]
) -> None:
    """Part 2.7.5, settled: such a delivery has no outcome; the one behind it has."""
    produce(client, address)
    client.transfer(0, HALVES[0], more=True, settled=flags[0])
    client.send("transfer", handle=0, settled=flags[1], payload=HALVES[1])
    client.transfer(1, BODY)
    assert outcome(client) == (1, "accepted")
    assert body_of_next(client, address) == BODY


def test_aborted_counts_more_than_more(client: FrameClient, address: str) -> None:
    """Part 2.7.5, aborted: its own payload is nothing either, and the delivery is settled."""
    produce(client, address)
    client.transfer(0, HALVES[0], more=True)
    client.send("transfer", handle=0, more=True, aborted=True, payload=HALVES[1])
    client.transfer(1, message(b"next"))
    assert outcome(client) == (1, "accepted")
    assert body_of_next(client, address) == message(b"next")


@pytest.mark.parametrize(
    "fields",
    [{"delivery_id": None}, {"delivery_tag": None}, {"delivery_tag": bytes(33)}],
    ids=["no id", "no tag", "long tag"],
)
def test_a_first_transfer_has_id_and_tag(
    client: FrameClient, address: str, fields: dict[str, Any]
) -> None:
    """Parts 2.7.5 and 2.8.7."""
    produce(client, address)
    client.transfer(0, BODY, **fields)
    assert client.expect("close").condition == "amqp:invalid-field"


def test_a_continuation_keeps_its_id(client: FrameClient, address: str) -> None:
    """Part 2.7.5, delivery-id."""
    produce(client, address)
    client.transfer(0, HALVES[0], more=True)
    client.send("transfer", handle=0, delivery_id=1, payload=HALVES[1])
    assert client.expect("close").condition == "amqp:not-allowed"


def test_the_tags_of_a_link_differ_while_unsettled(client: FrameClient, address: str) -> None:
    """Part 2.6.12; and the ids of a session's deliveries follow one another (2.5.6)."""
    produce(client, address)
    for number in range(3):
        client.transfer(number, BODY)
        client.expect("disposition")
    client.attach_receiver(address, handle=1)
    client.give_credit(3, handle=1)
    sent = [client.expect("transfer").fields for _ in range(3)]
    assert [each["delivery_id"] for each in sent] == [0, 1, 2]
    assert len({each["delivery_tag"] for each in sent}) == 3
    assert {each["message_format"] for each in sent} == {0}


# -- transactions


def control(client: FrameClient, **source: Any) -> dict[str, Any]:
    """Attach to the coordinator; return its description in the attach."""
    target = composite("coordinator")
    attach = client.attach_sender("", source=composite("source", **source), target=target)
    client.wait_for_credit()
    fields: dict[str, Any] = attach.fields["target"].fields
    return fields


def declare(client: FrameClient) -> bytes:
    client.transfer(0, value(composite("declare")))
    txn_id: bytes = client.expect("disposition").fields["state"].fields["txn_id"]
    return txn_id


def test_the_coordinator_says_what_it_can(client: FrameClient) -> None:
    """Part 4.5.1; a transaction is its connection's, and its id has at most 32 bytes (4.5.4)."""
    assert control(client)["capabilities"] == [
        "amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn",
    ]  # fmt: skip
    assert 0 < len(declare(client)) <= 32


@pytest.mark.parametrize("asked", [composite("declare"), composite("discharge", txn_id=b"x")])
def test_a_settled_request_ends_the_control_link(client: FrameClient, asked: Value) -> None:
    """Parts 4.2 and 4.3: nobody would hear of its outcome."""
    control(client)
    client.transfer(0, value(asked), settled=True)
    assert client.expect("detach").condition == "amqp:not-allowed"


def test_a_global_transaction_is_rejected(client: FrameClient) -> None:
    """Part 4.5.2: it would be a local one otherwise."""
    control(client)
    client.transfer(0, value(composite("declare", global_id=Value("binary", b"x"))))
    state = client.expect("disposition").fields["state"]
    assert state.fields["error"].fields["condition"] == "amqp:not-implemented"


@pytest.mark.parametrize(
    ("outcomes", "rejects"),
    [(["amqp:accepted:list"], False), (["amqp:accepted:list", "amqp:rejected:list"], True),
     (["amqp:rejected:list"], True)],
)  # fmt: skip
def test_an_error_ends_a_control_link_that_takes_no_rejection(
    client: FrameClient, outcomes: list[str], rejects: bool
) -> None:
    """Parts 4.2 and 4.3."""
    control(client, outcomes=outcomes)
    client.transfer(0, value(composite("discharge", txn_id=b"12345678")))
    if rejects:
        assert outcome(client) == (0, "rejected")
    else:
        assert client.expect("detach").condition == "amqp:transaction:unknown-id"


def test_sections_beside_a_declare_are_ignored(client: FrameClient) -> None:
    """Part 4.2."""
    control(client)
    header = value(Value("list", (Value("boolean", True),)), code=0x70)
    annotations = value(Value("map", ()), code=0x72)
    client.transfer(0, header + annotations + value(composite("declare")))
    assert outcome(client) == (0, "declared")


def test_the_outcome_in_a_transaction_names_it(client: FrameClient, address: str) -> None:
    """Part 4.4.1: what will hold when it is discharged is told before."""
    control(client)
    txn_id = declare(client)
    produce(client, address, handle=1)
    state = composite("transactional_state", txn_id=txn_id)
    client.transfer(1, BODY, handle=1, state=state)
    told = client.expect("disposition").fields["state"]
    assert told.fields["txn_id"] == txn_id
    assert told.fields["outcome"].name == "accepted"


@pytest.mark.parametrize("kind", ["symbol", "string"])
def test_messages_are_not_acquired_in_a_transaction(
    client: FrameClient, address: str, kind: str
) -> None:
    """Part 4.4.3: a flow that asks for that ends its link; its other properties do not."""
    client.attach_receiver(address)
    asked = Value("map", ((Value("symbol", "other"), Value("uint", 1)),))
    client.give_credit(1, properties=asked)
    name = Value(kind, "txn-id")
    client.give_credit(1, properties=Value("map", (*asked.value, (name, Value("binary", b"x")))))
    if kind == "symbol":
        assert client.expect("detach").condition == "amqp:not-implemented"
    else:
        client.send("detach", handle=0)
        assert client.expect("detach").condition is None


# -- SASL


def test_without_users_the_one_mechanism_is_anonymous(server: Server) -> None:
    """Part 5.3.3.1; the header of a SASL frame is read as that of any (5.3.1)."""
    with FrameClient(server.port) as client:
        client.exchange_header(SASL_HEADER)
        told = client.expect("sasl_mechanisms")
        assert (told.channel, told.fields["sasl_server_mechanisms"]) == (0, ["ANONYMOUS"])
        body = encode(composite("sasl_init", mechanism="ANONYMOUS"))
        size = (16 + len(body)).to_bytes(4, "big")
        client.send_bytes(size + bytes((4, 1, 0, 77)) + b"extended" + body)
        assert client.expect("sasl_outcome").fields["code"] == 0
