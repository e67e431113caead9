"""Cases of clients and arrows."""

from __future__ import annotations

import itertools
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from quiver_fast.conform.case import MUST, SHOULD, Unobservable, check, client, rows
from quiver_fast.conform.cases.connections import BEGIN, FRAME_MAX, UNLIMITED
from quiver_fast.conform.client import Client
from quiver_fast.conform.counterpart import ACCEPTED, Counterpart, contract_message
from quiver_fast.conform.mutation import added, changed, cut, dropped, header, held, silenced, word
from quiver_fast.conform.server import preparing
from quiver_fast.conform.wire.client import ENDS
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    Fields,
    Frame,
    composite,
    frame,
)

FAILED = composite("error", condition="amqp:internal-error")
# A run that goes on to its end: the fault is an error in it.
GOES_ON = changed("close", error=FAILED)

USER = {"username": "conform", "password": "conform"}

# -- what it says of itself


@client("2.2/7", MUST, word("scheme", "amqps"))
def begins_with_a_header(client: Client) -> None:
    """Its first bytes are a header of AMQP 1.0.0 or of SASL, before any of ours."""
    for operation in client.operations:
        client.meet(operation, "").header(AMQP_HEADER, SASL_HEADER)


@client("2.4.1/3", SHOULD, changed("open", container_id=lambda old: old * 100))
def small_open(client: Client) -> None:
    """Its open is a frame of at most 512 bytes, because nobody told his maximum before."""
    for operation in client.operations:
        size = client.meet(operation, "open").largest
        check(size <= 512, "an open of at most 512 bytes", f"{size} bytes")


@rows(client, MUST, changed("open", container_id=None), table={
    "2.7.1/1": ("Its open names the container.", "open", lambda f: bool(f.get("container_id"))),
    "2.7.1/6": ("Its maximum of a frame is at least 512 bytes.", "open",
                lambda f: f.get("max_frame_size", 512) >= 512, changed("open", max_frame_size=256)),
    "2.7.1/12": ("The hostname of its open is the name by which it was told to connect, or none.",
                 "open", lambda f: f.get("hostname") in (None, "127.0.0.1"), SHOULD,
                 changed("open", hostname="elsewhere")),
    "2.5.1/5": ("The begin of a new session has no remote-channel.", "begin",
                lambda f: "remote_channel" not in f, changed("begin", remote_channel=0)),
    "2.5.1/2": ("Its begin has its next-outgoing-id and its windows.", "begin",
                lambda f: {"next_outgoing_id", "incoming_window", "outgoing_window"} <= {*f},
                changed("begin", incoming_window=None)),
    "2.7.3/8": ("The attach of a new link has no unsettled deliveries.", "attach",
                lambda f: not f.get("unsettled"),
                changed("attach", unsettled=Value("map", ((Value("binary", b"x"), ACCEPTED),)))),
    "2.7.3/3": ("The attach of a sender has an initial-delivery-count.", "attach",
                lambda f: f.get("role") or "initial_delivery_count" in f,
                changed("attach", initial_delivery_count=None)),
})  # fmt: skip
def says(client: Client, name: str, right: Callable[[Fields], bool]) -> None:
    for operation in client.operations:
        found = client.course(operation).one(name)
        check(right(found.fields), f"{name} as the clause says", found)


@client("2.4.1/1", MUST, changed("open", channel=1))
def open_is_first(client: Client) -> None:
    """Its first frame is open, on channel 0."""
    for operation in client.operations:
        frames = client.course(operation).frames
        first = next(each for each in frames if not each.name.startswith("sasl_"))
        check((first.name, first.channel) == ("open", 0), "open on channel 0", first)


@client("2.7.2/3", MUST, changed("attach", handle=1))
def within_the_handle_max(client: Client) -> None:
    """No handle of its own is above our handle-max."""
    for operation in client.operations:
        peer = client.meet(operation, says={"begin": {"handle_max": 0}})
        check(peer.link["handle"] == 0, "attach handle=0", peer.frames[-1])


# -- the end


@client("2.4.3/2", MUST, added("close", "begin", next_outgoing_id=0, incoming_window=1,
                               outgoing_window=1))  # fmt: skip
def close_is_last(client: Client) -> None:
    """Nothing follows its close."""
    for operation in client.operations:
        frames = client.course(operation).frames
        names = [each.name for each in frames]
        check("close" not in names[:-1], "close as the last frame", frames[-1])


@client("2.4.3/8", MUST, cut("close"))
def ends_by_close(client: Client) -> None:
    """A run ends by a close, not by the end of the socket alone."""
    for operation in client.operations:
        frames = client.course(operation).frames
        check(any(each.name == "close" for each in frames), "close", frames[-1])


@client("2.6.4/4", MUST, added("end", "flow", incoming_window=1, next_outgoing_id=0,
                               outgoing_window=1))  # fmt: skip
def nothing_behind_the_end(client: Client) -> None:
    """No frame of a link follows its detach, and no frame of a session follows its end."""
    for operation in client.operations:
        over = False
        for each in client.course(operation).frames:
            over = over or each.name == "end"
            check(not over or each.name in ("end", "close", "empty"), "nothing after end", each)


# -- transfers, flows, dispositions


def first_transfers(client: Client) -> list[Fields]:
    """Return the first transfer of each delivery."""
    found: list[Fields] = []
    more = False
    for each in client.course("send").all("transfer"):
        if not more:
            found.append(each.fields)
        more = bool(each.fields.get("more"))
    return found


def several(client: Client) -> None:
    """Demand a client that sends several messages; an arrow does, as it is told."""
    if not client.told and len(first_transfers(client)) < 5:
        raise Unobservable("it does not send five messages")


@client("2.6.12/1", MUST, changed("transfer", delivery_tag=b"same"))
def tags_differ(client: Client) -> None:
    """Delivery-tags differ while unsettled, and delivery-ids follow one another."""
    several(client)
    peer = client.meet("send", verdict=None)
    with preparing("have messages without an outcome"):
        peer.take(2)
    sent = [each.fields for each in peer.frames if "delivery_id" in each.fields]
    tags = {each["delivery_tag"] for each in sent}
    following = [each["delivery_id"] - sent[0]["delivery_id"] for each in sent]
    check(len(tags) == len(sent), "tags that differ", sent)
    check(following == [*range(len(sent))], "delivery-ids that follow one another", sent)


@rows(client, MUST, changed("transfer", message_format=None), table={
    "2.7.5/6": ("The first transfer of a delivery has an id, a tag of at most 32 bytes, a format.",
                lambda sent: all(len(each["delivery_tag"]) <= 32 and "delivery_id" in each
                                 and "message_format" in each for each in sent)),
    "2.7.5/11": ("A transfer of a new delivery does not say resume.",
                 lambda sent: not any(each.get("resume") for each in sent),
                 changed("transfer", resume=True)),
})  # fmt: skip
def transfers(client: Client, right: Callable[[list[Fields]], bool]) -> None:
    sent = first_transfers(client)
    check(right(sent), "transfers as the clause says", sent)


@client("2.7.4/5", MUST, changed("flow", next_incoming_id=None))
def fields_of_flows(client: Client) -> None:
    """Its flows have next-incoming-id and the windows of the session."""
    due = {"next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window"}
    later = [each for each in client.course("receive", count=30).all("flow")
             # It has read our begin, if it counts what came.
             if each.fields.get("delivery_count")]  # fmt: skip
    if not later:
        raise Unobservable("it sends no flow behind a delivery")
    for each in later:
        check(due <= {*each.fields}, "flow with the four of the session", each)


def first_flow(client: Client, count: int) -> Frame:
    """Return its first flow of the link, where our delivery-count begins so."""
    peer = client.meet("receive", says={"attach": {"initial_delivery_count": count}}, stock=0)
    with preparing("have it give credit"):
        return peer.find(
            "flow", lambda each: (each.name == "flow" and "handle" in each.fields) or None
        )


@client("2.7.4/7", MUST, changed("flow", delivery_count=0))
def repeats_the_count(client: Client) -> None:
    """A receiver repeats the delivery-count of the sender in its flows."""
    flow = first_flow(client, 7)
    if "delivery_count" not in flow.fields:
        raise Unobservable("it gives credit before it has read our attach")
    check(flow.fields["delivery_count"] == 7, "flow delivery-count=7", flow)


@client("2.7.6/4", MUST, changed("disposition", role=False))
def role_of_dispositions(client: Client) -> None:
    """The dispositions of a receiver have its role."""
    for each in client.course("receive").all("disposition"):
        check(bool(each.fields.get("role")), "disposition role=receiver", each)


# -- what it answers


@client("2.2/6", MUST, held())
def another_header(client: Client) -> None:
    """A header of another version ends the connection."""
    for operation in client.operations:
        peer = client.meet(operation, "")
        peer.read_header()
        peer.send_bytes(b"AMQP\x00\x00\x09\x01")
        peer.ended()


BAD_FLOW: dict[str, Any] = {"incoming_window": 1, "next_outgoing_id": 0, "outgoing_window": 1}
TRANSFER: dict[str, Any] = {
    "handle": 0, "delivery_id": 0, "delivery_tag": b"0", "message_format": 0,
    "payload": contract_message(1),
}  # fmt: skip


BAD_FRAMES = {"transfer": TRANSFER, "flow": BAD_FLOW}


def head(size: int) -> bytes:
    return struct.pack(">IBBH", size, 2, 0, 0)


def refused(peer: Counterpart) -> None:
    peer.refused("close")


def wrong_frame(
    client: Client, judge: Callable[[Counterpart], None], data: bytes = head(7)
) -> None:
    for operation in client.operations:
        peer = client.meet(operation, credit=0, stock=0)
        peer.send_bytes(data)
        judge(peer)


malformed = rows(client, MUST, cut("close"), table={
    "2.3.1/1": ("A frame of fewer than 8 bytes ends the connection.", Counterpart.over,
                silenced("close")),
    "2.4.3/6": ("Before it ends the connection for an error it writes a close.", refused),
})(wrong_frame)  # fmt: skip
no_performative = rows(client, SHOULD, silenced("close"), table={
    "2.3.2/1": ("A body that is no performative ends the connection.", Counterpart.over,
                frame(encode(Value("string", "x")))),
}, doubt="no sentence names the answer")(wrong_frame)  # fmt: skip


@client("2.7.1/3", MUST, dropped("close"))
def above_the_maximum(client: Client) -> None:
    """A frame above its maximum ends the connection."""
    for operation in client.operations:
        peer = client.meet(operation, credit=0, stock=0)
        size = peer.theirs["open"].get("max_frame_size", UNLIMITED) + 1
        if size > FRAME_MAX + 1:
            raise Unobservable(f"its max-frame-size is {size - 1:,}")
        peer.send_bytes(frame(BEGIN + bytes(size - 8 - len(BEGIN)), channel=9))
        peer.refused("close")


@client("2.5.5/3", MUST, dropped("close"), doubt="no sentence names the answer")
def no_session(client: Client) -> None:
    """Another frame on a channel without a session is refused."""
    for operation, (name, fields) in itertools.product(client.operations, BAD_FRAMES.items()):
        peer = client.meet(operation, credit=0, stock=0)
        peer.send(name, channel=9, **fields)
        peer.refused("close")


def bad_transfer(client: Client, *wrong: dict[str, Any]) -> None:
    for fields in wrong:
        peer = client.meet("receive", "flow", stock=0)
        peer.send("transfer", **{**TRANSFER, **fields})
        peer.refused("detach")


first_transfer = rows(client, MUST, dropped("close"), table={
    "2.7.5/1": ("The first transfer of a delivery without a delivery-id is refused.",
                {"delivery_id": None}),
    "2.7.5/2": ("The first transfer without a delivery-tag, or with a long one, is refused.",
                {"delivery_tag": None}, {"delivery_tag": bytes(33)}),
}, doubt="the clause binds the sender; no sentence names the answer")(bad_transfer)  # fmt: skip
no_link = rows(client, SHOULD, dropped("close"), table={
    "2.7.7/1": ("A frame for a handle without a link is refused.", {"handle": 9}),
}, doubt="no sentence names the answer")(bad_transfer)  # fmt: skip


def answers(peer: Counterpart, name: str) -> None:
    """Expect the answer to an end.

    A wider one is an answer, too, also without an error: sessions end with their connection, and
    links with their session (part 2.5.2).
    """

    def judge(found: Frame) -> bool | None:
        if found.name == name:
            return name != "detach" or found.fields.get("closed") is True
        return found.name in ENDS[ENDS.index(name) + 1 :] or None

    peer.find(name, judge)


@rows(client, MUST, dropped("close"), table={
    "2.4.3/1": ("A close is answered by a close.", "close", {}),
    "2.5.2/1": ("An end is answered by an end, one with an error too.", "end", {},
                {"error": FAILED}),
    "2.6.6/1": ("A detach that says closed is answered by one that says closed.", "detach",
                {"closed": True}),
})  # fmt: skip
def ends(client: Client, name: str, *ways: dict[str, Any]) -> None:
    for operation, fields in itertools.product(client.operations, ways):
        peer = client.meet(operation, credit=0, stock=0)
        link = {"handle": peer.link["handle"]} if name == "detach" else {}
        peer.send(name, **link, **fields)
        answers(peer, name)


@client("2.4.5/1", MUST, dropped("empty"))
def heartbeats(client: Client) -> None:
    """It sends a frame before our idle-time-out of 2 s is over, or closes."""
    for operation in client.operations:
        peer = client.meet(operation, says={"open": {"idle_time_out": 2000}}, credit=0, stock=0)
        peer.socket.settimeout(2.5)
        # The first one may be a flow that was on its way.
        for _ in range(3):
            peer.any_frame()


@rows(client, MUST, GOES_ON, table={
    "2.3.1/4": ("The bytes between a frame's header and its data offset are skipped.",
                b"\0\0\0\x0c\x03\0\0\0more"),
    "2.4.5/4": ("Empty frames are taken.", b"\0\0\0\x08\x02\0\0\0" * 100),
})  # fmt: skip
def taken(client: Client, data: bytes) -> None:
    for operation in client.operations:
        peer = client.meet(operation)
        peer.send_bytes(data)
        goes_on(client, peer)


def goes_on(client: Client, peer: Counterpart) -> None:
    """Expect that the run ends without an error, as it does with a right peer."""
    if client.course("receive" if peer.link.get("role") else "send").end.code:
        raise Unobservable("its run fails, whatever we do")
    end = client.finish(peer)
    wrong = next((each for each in peer.frames if each.name in ENDS and each.condition), None)
    check(wrong is None, "an end without an error", wrong)
    check(end.code == 0, "exit code 0", end.said)


# -- transactions and security


def in_transactions(client: Client, operation: str) -> list[Frame]:
    """Return the frames of a run with transactions."""
    found = client.course(operation, transaction_size=2).all("attach")
    if not any(is_control(each) for each in found):
        raise Unobservable("it attaches no coordinator")
    return list(client.course(operation, transaction_size=2).frames)


def is_control(attach: Frame) -> bool:
    target = attach.fields.get("target")
    return target is not None and target.name == "coordinator"


@client("2.6.2/2", MUST, changed("attach", handle=0))
def two_handles(client: Client) -> None:
    """Two links of a session have different handles of its own."""
    for operation in client.operations:
        frames = in_transactions(client, operation)
        attaches = [each for each in frames if each.name == "attach"]
        links = [(each.channel, each.fields["handle"]) for each in attaches]
        check(len({*links}) == len(links), "handles that differ", links)


@client("4.2/8", MUST, changed("transfer", nth=1, settled=True))
def unsettled_declares(client: Client) -> None:
    """Its declares and discharges are not settled."""
    for operation in client.operations:
        frames = in_transactions(client, operation)
        handle = next(each.fields["handle"] for each in frames
                      if each.name == "attach" and is_control(each))  # fmt: skip
        for each in frames:
            control = each.name == "transfer" and each.fields["handle"] == handle
            check(not (control and each.fields.get("settled")), "an unsettled transfer", each)


@client("4.2/7", SHOULD, changed("attach", source=composite("source", outcomes=["x"])))
def control_outcomes(client: Client) -> None:
    """The source of its control link takes the outcome rejected."""
    for operation in client.operations:
        for each in in_transactions(client, operation):
            if each.name == "attach" and is_control(each):
                outcomes = each.fields["source"].fields.get("outcomes") or ["amqp:rejected:list"]
                check("amqp:rejected:list" in outcomes, "outcomes with rejected", each)


@client("4.4.1/6", MUST, changed("transfer", state=None))
def named_transactions(client: Client) -> None:
    """Each transfer of a message in a transaction names it."""
    frames = in_transactions(client, "send")
    control = {each.fields["handle"] for each in frames
               if each.name == "attach" and is_control(each)}  # fmt: skip
    for each in frames:
        if each.name == "transfer" and each.fields["handle"] not in control:
            state = each.fields.get("state")
            check(state is not None and state.name == "transactional_state",
                  "transfer with a transactional-state", each)  # fmt: skip


@client("4.4.3/1", MUST, dropped("close"), doubt="a client is no transactional resource")
def acquires_nothing(client: Client) -> None:
    """Acquisition in a transaction works, or it ends the link, not-implemented."""
    several(client)
    peer = client.meet("send", credit=0)
    pair = (Value("symbol", "txn-id"), Value("binary", b"x"))
    peer.grant(10, properties=Value("map", (pair,)))
    peer.refused("detach", "amqp:not-implemented")


@client("5.3.3.5/1", MUST, header(b"AMQP\x00\x00\x09\x01"))
def headers_again(client: Client) -> None:
    """After the outcome ok both sides send a header again, that of AMQP."""
    for operation in client.operations:
        authenticated(client.meet(operation, ""), 0).header(AMQP_HEADER)


def authenticated(peer: Counterpart, code: int) -> Counterpart:
    """Speak SASL up to the outcome."""
    with preparing("authenticate it"):
        offered(peer, "ANONYMOUS")
    peer.send("sasl_outcome", code=code)
    return peer


def offered(peer: Counterpart, mechanism: str) -> Frame:
    """Offer a mechanism; return its choice."""
    if peer.read_header() != SASL_HEADER:
        raise Unobservable("it does not speak SASL")
    peer.send_bytes(SASL_HEADER)
    peer.send("sasl_mechanisms", sasl_server_mechanisms=[mechanism])
    return peer.expect("sasl_init", mechanism=mechanism)


@client("5.3.3.5/2", MUST, held())
def false_proof(client: Client) -> None:
    """If our proof of SCRAM is false, it ends the connection although the outcome is ok."""
    for operation in with_a_user(client):
        peer = client.meet(operation, "", keys=USER)
        with preparing("have it choose SCRAM-SHA-256"):
            begun = offered(peer, "SCRAM-SHA-256").fields["initial_response"]
            nonce = begun.partition(b",r=")[2]
            peer.send("sasl_challenge", challenge=b"r=%bx,s=c2FsdA==,i=4096" % nonce)
            peer.expect("sasl_response")
        peer.send("sasl_outcome", code=0, additional_data=b"v=" + b64encode(bytes(32)))
        check(not (frames := peer.ended()), "the end of the connection", frames)


def with_a_user(client: Client) -> Sequence[str]:
    """Return what a program does whom we tell a user."""
    if not client.told:
        raise Unobservable("it is not told a user")
    return client.operations


@client("5.3/3", MUST, held())
def without_sasl(client: Client) -> None:
    """If it has a user, AMQP's header in answer to that of SASL ends the connection."""
    for operation in with_a_user(client):
        peer = client.meet(operation, "", keys=USER)
        if peer.read_header() != SASL_HEADER:
            raise Unobservable("it does not speak SASL")
        peer.send_bytes(AMQP_HEADER)
        check(not (frames := peer.ended()), "the end of the connection", frames)


@client("5.3.3.6/3", MUST, held())
def refused_credentials(client: Client) -> None:
    """An outcome that is not ok ends its connection; no open follows."""
    for operation in client.operations:
        frames = authenticated(client.meet(operation, ""), 1).ended()
        check(not frames, "the end of the connection", frames)
