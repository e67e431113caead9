"""Cases of messages: sections and outcomes (parts 3.2 to 3.4)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from quiver_fast.conform.case import MUST, SHOULD, Unobservable, check, rows, server
from quiver_fast.conform.mutation import Mutation, added, changed, dropped
from quiver_fast.conform.server import ACCEPTED, BODY, OTHER, Server, preparing
from quiver_fast.conform.wire.client import ENDS, FrameClient
from quiver_fast.conform.wire.codec import Value, decode, encode
from quiver_fast.conform.wire.frames import Composite, Frame, Unexpected, composite, message, plain
from quiver_fast.conform.wire.trace import sections, text

HEADER, ANNOTATIONS, PROPERTIES, APPLICATION = 0x70, 0x72, 0x73, 0x74
DATA, SEQUENCE, VALUE, FOOTER = 0x75, 0x76, 0x77, 0x78
NULL, YES = Value("null", None), Value("boolean", True)
END = "the end of the connection"


def intruder(receiver: int) -> Mutation:
    """Add a message to the first frames of the nth link."""
    fields = {"handle": 0, "delivery_id": 0, "delivery_tag": b"x", "payload": message(b"X")}
    return added("attach", "transfer", nth=receiver, **fields)


def section(code: int, body: Value) -> bytes:
    return encode(Value("described", (Value("ulong", code), body)))


def parts(payload: bytes) -> Iterator[tuple[int, bytes, Value]]:
    """Yield of each section its code, its bytes and its value."""
    while payload:
        value, rest = decode(payload)
        code, inner = value.value
        yield code.value, payload[: len(payload) - len(rest)], inner
        payload = rest


def body(payload: bytes) -> bytes:
    """Return the data sections of a message: all else may change on its way."""
    return b"".join(inner.value for code, _, inner in parts(payload) if code == DATA)


def head(payload: bytes) -> dict[str, Any]:
    """Return the fields of a header, with the values of those that are not there."""
    names = ("durable", "priority", "ttl", "first_acquirer", "delivery_count")
    found = [inner.value for code, _, inner in parts(payload) if code == HEADER]
    told = dict(zip(names, (value.value for fields in found for value in fields), strict=False))
    defaults = {"durable": False, "priority": 4, "first_acquirer": False, "delivery_count": 0}
    return defaults | {name: value for name, value in told.items() if value is not None}


def header(**fields: Value) -> bytes:
    """Return a header section."""
    names = ("durable", "priority", "ttl", "first_acquirer", "delivery_count")
    values = [fields.get(name, NULL) for name in names]
    return section(HEADER, Value("list", tuple(values)))


def next_of(peer: FrameClient, *names: str) -> Frame:
    """Expect a frame with one of these names, whatever comes before it."""
    due = " or ".join(names)
    try:
        while (found := peer.read()).name not in names:
            pass
    except TimeoutError:
        raise Unexpected(due, "silence") from None
    except (EOFError, OSError):
        raise Unexpected(due, END) from None
    return found


def next_or_end(peer: FrameClient, *names: str) -> Frame | None:
    """Expect a frame with one of these names, or the end of the connection: None."""
    try:
        return next_of(peer, *names)
    except Unexpected as error:
        if error.found != END:
            raise
        return None


def delivered(peer: FrameClient) -> tuple[Frame, bytes]:
    """Expect a delivery, whatever comes before it; return its first frame, and its payload."""
    first = found = next_of(peer, "transfer", *ENDS)
    check(found.name == "transfer", "transfer", found)
    payload = found.payload
    while found.fields.get("more"):
        found = next_of(peer, "transfer", *ENDS)
        payload += found.payload
    return first, payload


def settle(peer: FrameClient, number: int, state: Value = ACCEPTED, settled: bool = True) -> None:
    """Give a delivery an outcome."""
    peer.send("disposition", role=True, first=number, settled=settled, state=state)


def outcome_of(found: Frame) -> Composite | None:
    """Return the outcome in a disposition, within a transaction or not."""
    state: Composite | None = found.fields.get("state")
    if state is not None and state.name == "transactional_state":
        state = state.fields.get("outcome")
    return state


def fails(peer: FrameClient, *conditions: str) -> None:
    """Expect an outcome that is not accepted, or the end of the link, session or connection.

    With ``conditions`` either has an error, with one of them.
    """
    while True:
        found = next_of(peer, "disposition", *ENDS)
        outcome = outcome_of(found)
        taken = outcome is not None and outcome.name in ("accepted", "declared")
        check(not taken, "a refusal", found)
        error = (outcome or found).fields.get("error")
        if error is not None or not conditions:
            break
    told = error.fields["condition"] if error is not None else ""
    check(not conditions or told in conditions, " or ".join(conditions), found)


def cut(peer: FrameClient) -> None:
    """End the connection without a close."""
    peer.socket.shutdown(socket.SHUT_WR)
    with preparing("end a connection"):
        peer.read_to_end()
    peer.socket.close()


def comes(server: Server, *bodies: bytes) -> list[bytes]:
    """Expect that the queue has these messages, and no other; take them, return their payloads."""
    peer, found = server.receiver(credit=len(bodies)), list[bytes]()
    for _ in bodies:
        first, payload = delivered(peer)
        found.append(payload)
        settle(peer, first.fields["delivery_id"])
    check(sorted(map(body, found)) == sorted(bodies), f"{bodies}", [*map(body, found)])
    more = [*map(body, server.left())]
    check(more == [], "no other message", more)
    return found


# -- sections


SIMPLE = {
    "null": None, "boolean": True, "ubyte": 1, "ushort": 2, "uint": 3, "ulong": 4, "byte": -1,
    "short": -2, "int": -3, "long": -4, "float": 0.5, "double": 0.25, "char": "c",
    "timestamp": 1_400_000_000_000, "uuid": bytes(range(16)), "binary": b"b", "string": "s",
    "symbol": "y",
}  # fmt: skip
VALUES = [Value(kind, value) for kind, value in SIMPLE.items()]
ID = Value("string", "the id")
ALL = (
    # No user-id: a broker may check it.
    ID, NULL, Value("string", "elsewhere"), Value("string", "subject"),
    Value("string", "reply"), Value("ulong", 7), Value("symbol", "text/plain"),
    Value("symbol", "utf-8"), Value("timestamp", 2_500_000_000_000),
    Value("timestamp", 1_400_000_000_000), Value("string", "group"), Value("uint", 3),
    Value("string", "reply group"),
)  # fmt: skip
IDS = (ID, Value("ulong", 7), Value("uuid", bytes(range(16))), Value("binary", b"id"))


def pairs(kind: str, *values: Value) -> Value:
    """Return a map of these values with keys of their own."""
    return Value("map", tuple((Value(kind, f"x-opt-{n}"), each) for n, each in enumerate(values)))


def properties(*values: Value) -> bytes:
    return section(PROPERTIES, Value("list", values))


def arrived(server: Server, *payloads: bytes) -> list[bytes]:
    """Send messages to the queue, and take them."""
    server.filled(*payloads)
    peer = server.receiver(credit=len(payloads))
    return [delivered(peer)[1] for _ in payloads]


def bare(payload: bytes) -> bytes:
    """Return the bare message (part 3.2)."""
    return b"".join(data for code, data, _ in parts(payload) if PROPERTIES <= code <= VALUE)


WHOLE = properties(*ALL) + section(APPLICATION, pairs("string", ID)) + BODY + OTHER


@server("3.2/1", MUST, changed("transfer", payload=BODY), "queue")
def unchanged(server: Server) -> None:
    """The bare message comes byte for byte as it was sent."""
    (found,) = arrived(server, WHOLE)
    check(bare(found) == WHOLE, sections(WHOLE), sections(found))


@rows(server, MUST, changed("transfer", payload=OTHER), "queue", table={
    "3.2.4/1": ("Ids of messages come in the type that they have.",
                *[properties(each, NULL, NULL, NULL, NULL, each) + BODY for each in IDS]),
    "3.2.5/1": ("Application properties of each simple type come as they are.",
                section(APPLICATION, pairs("string", *VALUES)) + BODY),
    "3.2.6/1": ("Several data sections come as they are.", BODY + OTHER + OTHER),
    "3.2.7/1": ("Sequences come as they are.",
                section(SEQUENCE, Value("list", tuple(VALUES))) * 2),
    "3.2.8/1": ("A value of each type comes as it is.",
                *[section(VALUE, each) for each in (*VALUES, pairs("string", ID))]),
    "3.2.9/1": ("A footer comes as it is.", BODY + section(FOOTER, pairs("symbol", ID)), SHOULD),
})  # fmt: skip
def passed(server: Server, *payloads: bytes) -> None:
    for payload, found in zip(payloads, arrived(server, *payloads), strict=True):
        wanted = [(code, value) for code, _, value in parts(payload)]
        codes = {code for code, _ in wanted}
        told = [(code, value) for code, _, value in parts(found) if code in codes]
        check(told == wanted, sections(payload), sections(found))


@server("3.2.3/1", MUST, changed("transfer", payload=BODY), "queue")
def annotated(server: Server) -> None:
    """Message annotations come with the message."""
    sent = pairs("symbol", ID, YES)
    (found,) = arrived(server, section(ANNOTATIONS, sent) + BODY)
    told = {pair for code, _, inner in parts(found) if code == ANNOTATIONS for pair in inner.value}
    check({*sent.value} <= told, text(plain(sent)), sections(found))


@server("3.2.10/1", MUST, dropped("detach"), "queue", doubt="no known node does so")
def unknown_annotation(server: Server) -> None:
    """A message with an unknown annotation that is not x-opt- ends the link."""
    peer = server.sender()
    key = Value("symbol", "x-quiver-none")
    peer.transfer(0, section(ANNOTATIONS, Value("map", ((key, ID),))) + BODY)
    peer.refused("detach")


# -- the header


COUNTED = header(delivery_count=Value("uint", 1)) + BODY


@rows(server, MUST, changed("transfer", payload=OTHER), "queue", table={
    "3.2.1/1": ("A durable message comes as a durable one.", "durable", YES),
    "3.2.1/6": ("The priority comes with the message.", "priority", Value("ubyte", 7), SHOULD),
    "3.2.1/5": ("The delivery-count of a first delivery is 0.", "delivery_count", Value("uint", 0),
                SHOULD, changed("transfer", payload=COUNTED)),
})  # fmt: skip
def told_in_header(server: Server, name: str, value: Value) -> None:
    (found,) = arrived(server, header(**{name: value}) + BODY)
    check(head(found)[name] == value.value, f"header {name}={value.value}", sections(found))


@rows(server, SHOULD, intruder(2), "queue", table={
    "3.2.1/2": ("A message whose ttl is over does not come.", header(ttl=Value("uint", 100))),
    "3.2.4/2": ("A message whose absolute-expiry-time has passed does not come.",
                properties(*[NULL] * 8, Value("timestamp", 1_400_000_000_000))),
})  # fmt: skip
def expired(server: Server, head: bytes) -> None:
    peer = server.sender()
    peer.transfer(0, head + BODY)
    with preparing("send a message"):
        peer.outcome(0, "accepted", "rejected", "released", "modified")
    server.session().nothing()
    found = [*map(body, server.left())]
    check(found == [], "no message", found)


LIVING = header(ttl=Value("uint", 60_000)) + BODY


@server("3.2.1/3", SHOULD, changed("transfer", payload=LIVING), "queue")
def ttl_left(server: Server) -> None:
    """The ttl of a message that goes out is what is left of it."""
    address = server.filled(LIVING)
    server.session().nothing()
    _, found = delivered(server.receiver(address, credit=1))
    check(0 < head(found).get("ttl", 0) <= 59_900, "a ttl of 59,900 or less", sections(found))


# -- outcomes


def given(server: Server, *states: Value, settled: bool = True) -> FrameClient:
    """Take the message BODY, and give it an outcome; the link has credit for one more."""
    server.filled(BODY)
    peer = server.receiver(credit=2)
    for state in states:
        demand_outcome(peer, state)
    with preparing("receive a message"):
        first, _ = delivered(peer)
    for state in states:
        settle(peer, first.fields["delivery_id"], state, settled)
    return peer


def demand_outcome(peer: FrameClient, state: Value) -> None:
    """Give the case up if the source names its outcomes, and not this one."""
    source: Composite = peer.theirs["attach"]["source"]
    outcomes, name = source.fields.get("outcomes"), plain(state).name
    if outcomes and name != "received" and f"amqp:{name}:list" not in outcomes:
        raise Unobservable(f"its source does not take the outcome {name}")


FAILED = composite("modified", delivery_failed=True)
UNDELIVERABLE = composite("modified", undeliverable_here=True)


@server("3.3/1", MUST, intruder(3), "queue")
def acquired(server: Server) -> None:
    """A message that a receiver has acquired goes to no other."""
    server.filled(BODY)
    peer = server.receiver(credit=1)
    delivered(peer)
    found = [*map(body, server.left())]
    check(found == [], "no message", found)


@server("3.3/2", SHOULD, dropped("transfer", nth=2), "queue")
def available_again(server: Server) -> None:
    """A message without an outcome is available again when its link was closed."""
    server.filled(BODY)
    peer = server.receiver(credit=1)
    delivered(peer)
    peer.send("detach", handle=0, closed=True)
    next_of(peer, "detach")
    comes(server, b"conform")


def gone(server: Server, *states: Value) -> None:
    for settled in (True, False):
        cut(given(server, *states, settled=settled))
        found = [*map(body, server.left())]
        check(found == [], "no message", found)


not_again = rows(server, MUST, intruder(3), "queue", table={
    "3.4.2/1": ("An accepted message does not come again.", ACCEPTED),
    "3.4.3/1": ("A rejected message does not come again.", composite("rejected")),
})(gone)  # fmt: skip
final = rows(server, SHOULD, intruder(3), "queue", table={
    "3.4/1": ("An outcome is final: another one behind it changes nothing.", ACCEPTED,
              composite("released"), FAILED),
}, doubt="it binds also who gives the outcome; no sentence names the answer")(gone)  # fmt: skip


@server("3.4.1/1", MUST, dropped("transfer", nth=2), "queue")
def no_outcome(server: Server) -> None:
    """A delivery that was received only comes again when its link is gone."""
    cut(given(server, composite("received", section_number=0, section_offset=0), settled=False))
    comes(server, b"conform")


@rows(server, MUST, dropped("transfer", nth=2), "queue", table={
    "3.4.4/1": ("A released message comes again.", composite("released"), {}),
    "3.4.4/2": ("The delivery-count of a released message did not grow.", composite("released"),
                {"delivery_count": 0}, changed("transfer", nth=2, payload=COUNTED)),
    "3.2.1/4": ("A released message does not come as the first-acquirer's.", composite("released"),
                {"first_acquirer": False}, SHOULD,
                changed("transfer", nth=2, payload=header(first_acquirer=YES) + BODY)),
    "3.4.5/1": ("The delivery-count of a message that is modified, delivery-failed, grew by 1.",
                FAILED, {"delivery_count": 1}, changed("transfer", nth=2, payload=BODY)),
    "3.4.5/4": ("A message that is modified, not delivery-failed, comes again as it is.",
                composite("modified"), {"delivery_count": 0},
                changed("transfer", nth=2, payload=COUNTED)),
})  # fmt: skip
def once_more(server: Server, state: Value, fields: dict[str, Any]) -> None:
    for settled in (True, False):
        peer = given(server, state, settled=settled)
        _, found = delivered(peer)
        check(body(found) == b"conform", "the message", sections(found))
        for name, value in fields.items():
            check(head(found)[name] == value, f"header {name}={value}", sections(found))
        # A server may keep it for this link, and fetch the next one for it, too.
        cut(peer)
        server.left()


@server("3.4.5/2", MUST, added("transfer", "transfer", handle=0, delivery_id=1, delivery_tag=b"x",
        payload=BODY), "queue")  # fmt: skip
def not_here(server: Server) -> None:
    """A message that is modified, undeliverable-here, does not come to this link again."""
    given(server, UNDELIVERABLE).nothing("transfer")


@server("3.4.5/3", SHOULD, changed("transfer", nth=2, payload=BODY), "queue")
def modified_annotations(server: Server) -> None:
    """Annotations of modified come with the next delivery, and replace those of its keys."""
    kept, seen, new = (Value("symbol", f"x-opt-{name}") for name in ("kept", "seen", "new"))
    # Texts: a broker may keep numbers as another type.
    first, second = Value("string", "first"), Value("string", "second")
    before = Value("map", ((kept, ID), (seen, first)))
    change = ((seen, second), (new, YES))
    for failed in (False, True):
        state = composite("modified", delivery_failed=failed, annotations=Value("map", change))
        server.filled(section(ANNOTATIONS, before) + BODY)
        peer = server.receiver(credit=2)
        demand_outcome(peer, state)
        settle(peer, delivered(peer)[0].fields["delivery_id"], state)
        again, found = delivered(peer)
        told = {pair for code, _, value in parts(found) if code == ANNOTATIONS
                for pair in value.value}  # fmt: skip
        check({(kept, ID), *change} <= told and (seen, first) not in told,
              "the annotations together", sections(found))  # fmt: skip
        settle(peer, again.fields["delivery_id"])
