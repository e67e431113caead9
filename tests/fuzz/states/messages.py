"""Actions: credit, transfers, outcomes and transactions."""

from __future__ import annotations

from typing import Any

from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite, encode_frame, message
from tests.fuzz.states.choices import (
    EDGES,
    Draw,
    Peer,
    action,
    channel,
    credit_frame,
    links,
    session_fields,
    sessions,
)
from tests.fuzz.states.state import MASK, Link, Session

STATES = ["accepted", "released", "modified", "rejected"]
SIZES = [0, 0, 10, 100, 600, 5000, 40_000]

# -- flow


@action(12)
def credit(peer: Peer, draw: Draw) -> bytes:
    found = links(peer, True)
    if not found:
        return b""
    session, link = draw.pick(found)
    count, handle = link.count, link.ours or 0
    fields: dict[str, Any] = {}
    if draw.one_in(4):
        fields["drain"] = True
    if draw.one_in(5):
        fields["echo"] = True
    if draw.one_in(6):
        fields["incoming_window"] = draw.pick([0, 1, 2**31 - 1])
    if draw.wrong():
        count = draw.pick(EDGES)
        fields["next_incoming_id"] = draw.pick([*EDGES, session.next_incoming or 0])
        handle = draw.pick([handle, 0, 1, 50])
    return credit_frame(session, handle, draw.pick([0, 1, 1, 3, 10, 10, 100, 2**31 - 1]), count,
                        **fields)  # fmt: skip


@action(2)
def echo(peer: Peer, draw: Draw) -> bytes:
    found = sessions(peer)
    if not found:
        return b""
    session = draw.pick(found)
    flow = encode_frame("flow", channel=session.ours or 0, echo=True,
                        **session_fields(session, draw.pick([1000, 1000, 0, 1])))  # fmt: skip
    return flow * draw.pick([1, 1, 2, 50])


@action(2)
def stall(peer: Peer, draw: Draw) -> bytes:
    """Close a session's window, whatever its links have credit for."""
    found = sessions(peer)
    if not found:
        return b""
    session = draw.pick(found)
    return encode_frame("flow", channel=session.ours or 0, **session_fields(session, 0))


# -- transfers


def header(draw: Draw) -> bytes:
    durable, priority = draw.pick([True, True, False]), draw.pick([4, 4, 0, 9])
    fields = Value("list", (Value("boolean", durable), Value("ubyte", priority)))
    return encode(Value("described", (Value("ulong", 0x70), fields)))


def content(peer: Peer, draw: Draw, address: str) -> bytes:
    """Return a message with its number at its end."""
    parts = []
    if draw.one_in(2):
        parts.append(header(draw))
    if draw.one_in(4):
        # Where a stream goes, from another server.
        flags = Value("symbol", "x-opt-quiver-flags"), Value("uint", draw.pick([0, 1, 3]))
        to = Value("symbol", "x-opt-quiver-to"), Value("string", address)
        parts.append(encode(Value("described", (Value("ulong", 0x71), Value("map", (flags, to))))))
    if draw.one_in(2):
        nothing = Value("null", None)
        to_only = Value("list", (nothing, nothing, Value("string", address)))
        parts.append(encode(Value("described", (Value("ulong", 0x73), to_only))))
    if draw.one_in(3):
        colored = ((Value("string", "color"), Value("string", draw.pick(["blue", "red"]))),
                   (Value("string", "n"), Value("int", draw.number() % 5)))  # fmt: skip
        parts.append(encode(Value("described", (Value("ulong", 0x74), Value("map", colored)))))
    body = b"x" * draw.pick(SIZES) + b"<%d>" % peer.next_number()
    return b"".join(parts) + message(body)


def under_transaction(peer: Peer, draw: Draw, outcome: Value | None = None) -> Value | None:
    known = peer.known.transactions
    if draw.wrong():
        return composite("transactional_state", txn_id=draw.pick([b"", b"none", b"t" * 40]))
    if not known or not draw.one_in(3):
        return None
    fields: dict[str, Any] = {"txn_id": draw.pick(known)}
    if outcome is not None:
        fields["outcome"] = outcome
    return composite("transactional_state", **fields)


def sending(peer: Peer, draw: Draw) -> tuple[Session, Link] | None:
    """Return a link with credit, within its session's window, or any."""
    found = [(s, link) for s, link in links(peer, False) if link.kind != "coordinator"]
    if not draw.wrong():
        found = [(s, link) for s, link in found if s.window > 0 and link.usable
                 and (link.credit.left > 0 or link.delivery is not None)]  # fmt: skip
    return draw.pick(found) if found else None


def transfer(
    session: Session,
    link: Link,
    payload: bytes,
    peer: Peer,
    *,
    size: int | None = None,
    **fields: Any,
) -> bytes:
    """Return the frames of one delivery or a part of it, cut to the server's largest frame."""
    most = (size or min(peer.known.their_frame_size, 65536)) - 100
    ours: dict[str, Any] = {"handle": link.ours or 0}
    if link.delivery is None:
        number = session.next_delivery
        ours |= {"delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0}
    more, aborted = fields.pop("more", False), fields.pop("aborted", False)
    pieces = [payload[at : at + most] for at in range(0, max(1, len(payload)), most)]
    if len(pieces) > max(1, session.window):
        # A shorter delivery, because the window ends.
        pieces = pieces[: max(1, session.window)]
    parts = []
    for at, piece in enumerate(pieces):
        last = at == len(pieces) - 1
        rest = {"more": not last or more, "aborted": aborted and last}
        said = {key: value for key, value in rest.items() if value}
        parts.append(encode_frame("transfer", channel=session.ours or 0, payload=piece,
                                  **{**ours, **said, **fields}))  # fmt: skip
        ours = {"handle": link.ours or 0}
        fields = {}
    return b"".join(parts)


@action(14)
def send(peer: Peer, draw: Draw) -> bytes:
    """A whole message, or the end of one that was begun."""
    found = sending(peer, draw)
    if found is None:
        return b""
    session, link = found
    fields: dict[str, Any] = {}
    state = under_transaction(peer, draw)
    if state is not None:
        fields["state"] = state
    elif draw.one_in(5):
        fields["settled"] = True
    if draw.wrong():
        fields |= draw.pick([{"resume": True}, {"rcv_settle_mode": 1}, {"message_format": 9},
                             {"settled": True, "state": composite("accepted")}])  # fmt: skip
    payload = content(peer, draw, draw.pick(peer.addresses[:3]))
    if link.delivery is not None:
        fields, payload = {}, b""
    return transfer(session, link, payload, peer, **fields)


@action(4)
def burst(peer: Peer, draw: Draw) -> bytes:
    """Small messages, in one write."""
    found = sending(peer, draw)
    if found is None or found[1].delivery is not None:
        return b""
    session, link = found
    count = min(draw.pick([2, 5, 20]), max(1, link.credit.left), max(1, session.window))
    parts = []
    for at in range(count):
        number = session.next_delivery + at & MASK
        body = message(b"<%d>" % peer.next_number())
        parts.append(encode_frame("transfer", channel=session.ours or 0, handle=link.ours or 0,
                                  delivery_id=number, delivery_tag=b"%d" % number,
                                  payload=body))  # fmt: skip
    return b"".join(parts)


@action(10)
def part(peer: Peer, draw: Draw) -> bytes:
    """A part of a message, which goes on."""
    found = sending(peer, draw)
    if found is None:
        return b""
    session, link = found
    size = draw.pick([0, 1, 100, 5000, 70_000, 300_000])
    payload = content(peer, draw, draw.pick(peer.addresses[:3]))
    # One data section after the other.
    payload = (payload if link.delivery is None else b"") + message(b"y" * size)
    fields: dict[str, Any] = {"more": True}
    if link.delivery is None and draw.one_in(5):
        fields["settled"] = True
    return transfer(session, link, payload, peer, size=draw.pick([None, None, 512]), **fields)


@action(3)
def abort(peer: Peer, draw: Draw) -> bytes:
    found = sending(peer, draw)
    if found is None or found[1].delivery is None:
        return b""
    return transfer(*found, b"", peer, aborted=True)


@action(2)
def tear(peer: Peer, draw: Draw) -> bytes:
    """Transfers with wrong ids, tags or handles."""
    number = channel(peer, draw)
    if number is None or not draw.wrong():
        return b""
    fields: dict[str, Any] = {"handle": draw.pick([0, 1, 2, 50]), "delivery_id": draw.pick(EDGES),
                              "delivery_tag": b"t" * draw.pick([0, 1, 32, 33])}  # fmt: skip
    if draw.one_in(2):
        fields["more"] = True
    if draw.one_in(3):
        del fields["delivery_id"]
    return encode_frame("transfer", channel=number, payload=message(b"z"), **fields)


@action(1)
def stray(peer: Peer, draw: Draw) -> bytes:
    """A transfer on a handle that is not attached, which ends its session."""
    found = sessions(peer)
    if not found or draw.wildness == 0:
        return b""
    peer.known.honest = False
    session = draw.pick(found)
    return encode_frame("transfer", channel=session.ours or 0, handle=900, delivery_id=0,
                        delivery_tag=b"s", payload=message(b"stray"))  # fmt: skip


# -- outcomes


def state_of(peer: Peer, draw: Draw) -> Value:
    name = draw.pick([*STATES, "accepted", "accepted", "received"])
    fields: dict[str, Any] = {}
    if name == "received":
        fields = {"section_number": 0, "section_offset": draw.pick([0, 10])}
    if name == "rejected" and draw.one_in(2):
        description = "r" * draw.pick([1, 600, 5000])
        fields["error"] = composite("error", condition="fuzz:rejected", description=description)
    if name == "modified":
        annotation = ((Value("symbol", f"x-{draw.number() % 7}"), Value("string", "v" * 40)),)
        fields = {"delivery_failed": draw.one_in(2), "undeliverable_here": draw.one_in(3),
                  "annotations": Value("map", annotation)}  # fmt: skip
    state = composite(name, **fields)
    if name == "received":
        # It is no outcome (part 3.4).
        return state
    return under_transaction(peer, draw, state) or state


@action(14)
def settle(peer: Peer, draw: Draw) -> bytes:
    """Outcomes of deliveries that we got: one or many, settled or not, with a state or without."""
    found = [s for s in sessions(peer) if s.got or draw.wrong()]
    if not found:
        return b""
    session = draw.pick(found)
    fields: dict[str, Any] = {"first": draw.pick(sorted(session.got) or [0])}
    if draw.one_in(3):
        fields["last"] = fields["first"] + draw.pick([0, 1, 5]) & MASK
    if draw.wrong():
        fields |= {"first": draw.pick(EDGES), "last": draw.pick([0, 5, 2**31 - 1, MASK])}
    settled, state = draw.pick([(True, True)] * 3 + [(False, True)] * 2 + [(True, False)])
    if settled:
        fields["settled"] = True
    if state:
        fields["state"] = state_of(peer, draw)
    return encode_frame("disposition", channel=session.ours or 0, role=True, **fields)


@action(2)
def receive(peer: Peer, draw: Draw) -> bytes:
    """Say how far deliveries came, without an end to them (part 3.4.1)."""
    session = having(peer, draw)
    if session is None:
        return b""
    state = composite("received", section_number=0, section_offset=draw.pick([0, 5]))
    return encode_frame(
        "disposition", channel=session.ours or 0, role=True, first=min(session.got),
        last=max(session.got), state=state,
    )  # fmt: skip


@action(2)
def forget(peer: Peer, draw: Draw) -> bytes:
    """Settle deliveries without a state."""
    session = having(peer, draw)
    if session is None:
        return b""
    return encode_frame(
        "disposition", channel=session.ours or 0, role=True, first=min(session.got),
        last=max(session.got), settled=True,
    )  # fmt: skip


def having(peer: Peer, draw: Draw) -> Session | None:
    """Return a session with deliveries whose ids do not wrap."""
    found = [s for s in sessions(peer) if s.got and max(s.got) - min(s.got) < 1000]
    return draw.pick(found) if found else None


@action(3)
def settle_ours(peer: Peer, draw: Draw) -> bytes:
    """A sender's word about its own deliveries."""
    found = [s for s in sessions(peer) if s.sent or draw.wrong()]
    if not found:
        return b""
    session = draw.pick(found)
    first = draw.pick(sorted(session.sent) or [0])
    fields: dict[str, Any] = {"settled": True} if draw.one_in(2) else {}
    if draw.one_in(2):
        fields["state"] = composite(draw.pick([*STATES, "received"])) if draw.wrong() else (
            composite("accepted"))  # fmt: skip
    last = first + draw.pick([0, 0, 3]) & MASK
    return encode_frame("disposition", channel=session.ours or 0, role=False, first=first,
                        last=last, **fields)  # fmt: skip


# -- transactions


@action(6)
def control(peer: Peer, draw: Draw) -> bytes:
    """Declare a transaction, or discharge one."""
    found = [(s, link) for s, link in links(peer, False) if link.kind == "coordinator"
             and link.usable and link.credit.left > 0 and s.window > 0]  # fmt: skip
    if not found:
        return b""
    session, link = draw.pick(found)
    known = peer.known.transactions
    body = composite("declare")
    if known and not draw.one_in(3):
        txn_id = draw.pick(known)
        known.remove(txn_id)
        body = composite("discharge", txn_id=txn_id, fail=draw.one_in(2))
    if draw.wrong():
        body = draw.pick([composite("discharge", txn_id=b"none"), composite("accepted"),
                          composite("declare", global_id="no")])  # fmt: skip
    section = encode(Value("described", (Value("ulong", 0x77), body)))
    return transfer(session, link, section, peer)
