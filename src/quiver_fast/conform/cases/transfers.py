"""Cases of transfers: credit, deliveries, settlement (parts 2.6.7 to 2.7.7)."""

from __future__ import annotations

from typing import Any

from quiver_fast.conform.case import MUST, NO_ANSWER, SHOULD, check, rows, server
from quiver_fast.conform.cases.messages import next_of
from quiver_fast.conform.mutation import added, changed, dropped, twice
from quiver_fast.conform.server import ACCEPTED, BODY, OTHER, Server, preparing
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import Composite, Frame, composite, message

UINTS = (1, 2**31 - 1)
# They cannot be added to a number (RFC 1982).
LARGER = (2**31, 2**32 - 1)
FIRST: dict[str, Any] = {"delivery_id": 0, "delivery_tag": b"0", "message_format": 0}
LARGE = message(b"0123456789" * 300)
HALVES = (BODY[:4], BODY[4:])
FOREIGN: dict[str, Any] = {"handle": 0, "delivery_id": 0, "delivery_tag": b"f", "payload": OTHER}


# -- credit


@server("2.6.7/1", MUST, added("attach", "transfer", **FOREIGN), "queue")
def no_credit(server: Server) -> None:
    """Nothing comes before credit."""
    address = server.queue()
    peer = server.receiver(address)
    server.filled()
    peer.nothing("transfer")


@rows(server, MUST, twice("transfer"), "queue", table={
    "2.6.7/2": ("It never sends more than the credit.", 2, False),
    "2.6.7/3": ("A flow that repeats count and credit gives no more.", 1, True),
})  # fmt: skip
def no_more_than_credit(server: Server, credit: int, again: bool) -> None:
    server.filled(BODY, BODY, BODY, BODY)
    peer = server.receiver(credit=credit)
    for _ in range(credit):
        peer.message()
    if again:
        peer.give_credit(credit)
    peer.nothing("transfer")


@server("2.6.7/6", MUST, added("flow", "transfer", nth=2, **FOREIGN), "queue")
def stopped(server: Server) -> None:
    """Credit 0 stops the link."""
    peer = server.receiver(credit=5)
    peer.give_credit(0, echo=True)
    with preparing("get an answer to echo"):
        peer.until("flow")
    server.filled()
    peer.nothing("transfer")


def any_credit(server: Server, *uints: int) -> None:
    for credit in uints:
        for window in uints:
            server.filled()
            peer = server.receiver()
            peer.give_credit(credit, incoming_window=window)
            number = peer.message()[0].fields["delivery_id"]
            peer.send("disposition", role=True, first=number, settled=True, state=ACCEPTED)
            # The next message is for the next link.
            peer.send("detach", handle=0, closed=True)
            peer.expect("detach")


small_credit = rows(server, MUST, dropped("transfer"), "queue", table={
    "2.6.7/4": ("Credit and window may be large.", *UINTS),
})(any_credit)  # fmt: skip
large_credit = rows(server, MUST, dropped("transfer"), "queue", table={
    "2.6.7/10": ("Credit and window may be any uint.", *LARGER),
}, doubt="serial numbers of 32 bits do not add so much (RFC 1982)")(any_credit)  # fmt: skip


@rows(server, MUST, dropped("flow"), "queue", table={
    "2.6.7/7": ("A drain is answered by a flow.", (0, 10)),
    "2.6.7/8": ("A drain uses up what credit is left, and the delivery-count has it.",
                (2, 3), (2, UINTS[-1]), changed("flow", delivery_count=0)),
    "2.6.7/9": ("A drain without credit is answered too.",
                (0, 0), (2, 2), (2, 1), SHOULD),
})  # fmt: skip
def drained(server: Server, *ways: tuple[int, int]) -> None:
    for there, credit in ways:
        if there:
            server.filled(*[BODY] * there)
        peer = server.receiver()
        peer.give_credit(credit, drain=True)
        for _ in range(min(there, credit)):
            number = peer.message()[0].fields["delivery_id"]
            peer.send("disposition", role=True, first=number, settled=True, state=ACCEPTED)
        # It may tell its credit before it has used it up.
        while (found := link_flow(peer)).fields.get("link_credit"):
            pass
        due = (peer.theirs["attach"]["initial_delivery_count"] + credit) % 2**32
        said = found.fields.get("delivery_count", 0), found.fields.get("link_credit", 0)
        check(said == (due, 0), f"flow delivery-count={due} link-credit=0", found)


# -- deliveries and their settlement


@server("2.6.12/1", MUST, changed("transfer", delivery_tag=b"same"), "queue")
def tags(server: Server) -> None:
    """Delivery-tags differ while unsettled, and delivery-ids follow one another."""
    server.filled(BODY, BODY, BODY)
    peer = server.receiver(credit=3)
    said = [peer.message()[0].fields for _ in range(3)]
    check(len({one["delivery_tag"] for one in said}) == 3, "tags that differ", said)
    first = said[0]["delivery_id"]
    ids = [one["delivery_id"] for one in said]
    check(ids == [(first + n) % 2**32 for n in range(3)], "ids that follow one another", ids)
    check(all("message_format" in one for one in said), "a message-format", said)


def accepted(state: Composite | None) -> bool:
    return state is not None and state.name == "accepted"


@rows(server, MUST, changed("disposition", first=0), "queue", table={
    "2.6.12/2": ("An unsettled delivery gets an outcome.", [{}], dropped("disposition")),
    "2.6.12/3": ("A settled delivery gets no outcome.", [{"settled": True}]),
    "2.7.5/7": ("A delivery is settled by any of its frames.",
                [{"settled": True}, {}], [{}, {"settled": True}], [{"settled": True}] * 2),
    "2.7.5/5": ("A later transfer without id, tag and format is taken.", [{}, {}, {}],
                changed("disposition", state=composite("rejected"))),
})  # fmt: skip
def settlement(server: Server, *deliveries: list[dict[str, Any]]) -> None:
    for frames in deliveries:
        peer = server.sender()
        for at, fields in enumerate(frames, 1):
            own = {**FIRST, **fields} if at == 1 else fields
            payload = BODY[4 * at - 4 : 4 * at] if at < len(frames) else BODY[4 * at - 4 :]
            peer.send("transfer", handle=0, more=at < len(frames), payload=payload, **own)
        peer.transfer(1, OTHER)
        due = 1 if any(one.get("settled") for one in frames) else 0
        found = peer.expect("disposition", role=True, state=accepted)
        first = found.fields["first"]
        covers = first <= due <= found.fields.get("last", first)
        check(covers, f"an outcome for delivery {due} first", found)
    whole = [payload for payload in server.left() if payload.endswith((BODY, OTHER))]
    check(len(whole) == 2 * len(deliveries), "all messages, whole", whole)


def outcome_given(server: Server, settled: bool | None) -> tuple[FrameClient, int]:
    """Take a message, and accept it; return the connection and the delivery-id."""
    server.filled()
    peer = server.receiver(credit=1)
    number = peer.message()[0].fields["delivery_id"]
    peer.send("disposition", role=True, first=number, settled=settled, state=ACCEPTED)
    return peer, number


@server("2.6.12/4", SHOULD, dropped("disposition", nth=2), "queue",
        doubt="with rcv-settle-mode first the receiver has to settle")  # fmt: skip
def settled_in_turn(server: Server) -> None:
    """An outcome that is not settled is answered by a settled one."""
    peer, number = outcome_given(server, False)
    peer.expect("disposition", role=False, first=number, settled=True)


@server("2.7.6/5", MUST, dropped("end"), "queue")
def settled_by_default(server: Server) -> None:
    """A disposition that does not say settled is taken: it is not settled."""
    peer, _ = outcome_given(server, None)
    peer.send("end")
    found = next_of(peer, "end", "close")
    check(found.name == "end" and found.condition is None, "end without an error", found)


# -- deliveries of several frames


@rows(server, MUST, changed("transfer", payload=lambda old: old[1:]), "queue", table={
    "2.6.14/1": ("A delivery of several frames is whole.", 65536),
    "2.6.14/2": ("All frames but the last of a delivery that it sends say more.", 512,
                 changed("transfer", nth=2, more=None)),
})  # fmt: skip
def several_frames(server: Server, size: int) -> None:
    peer = server.sender()
    for at in range(0, len(LARGE), 400):
        own = {0: FIRST, 400: {"delivery_id": 0}}.get(at, {})
        part, more = LARGE[at : at + 400], at + 400 < len(LARGE)
        peer.send("transfer", handle=0, more=more, payload=part, **own)
    peer.outcome(0, "accepted")
    other = server.opened(max_frame_size=size)
    other.begin()
    other.attach_receiver(server.queue())
    other.give_credit(1)
    _, payload = other.message()
    check(payload.endswith(LARGE), f"{len(LARGE)} bytes as they were", f"{len(payload)} bytes")


@server("2.6.14/4", MUST, changed("disposition", state=composite("rejected")), "queue")
def interleaved(server: Server) -> None:
    """Deliveries of two links may interleave."""
    peer = server.sender()
    peer.attach_sender(server.queue(), handle=1)
    for handle in (0, 1):
        peer.transfer(handle, HALVES[0], more=True, handle=handle)
    for handle in (0, 1):
        peer.send("transfer", handle=handle, payload=HALVES[1])
        peer.outcome(handle, "accepted")


@server("2.6.14/5", MUST, twice("transfer"), "queue")
def aborted(server: Server) -> None:
    """An aborted delivery never was, and its payload is ignored."""
    for fields in ({}, {"more": True, "payload": HALVES[1]}):
        peer = server.sender()
        peer.transfer(0, HALVES[0], more=True)
        peer.send("transfer", handle=0, aborted=True, **fields)
        peer.transfer(1, OTHER)
        peer.outcome(1, "accepted")
        left = server.left()
        check(len(left) == 1 and left[0].endswith(OTHER), "the message behind it alone", left)


@server("2.6.13/2", MUST, changed("disposition", state=composite("rejected")), "queue")
def resumed(server: Server) -> None:
    """A resumed delivery that it does not know is ignored."""
    unsettled = Value("map", ((Value("binary", b"r"), composite("accepted")),))
    peer = server.sender(unsettled=unsettled)
    peer.transfer(0, BODY, delivery_tag=b"r", resume=True, state=ACCEPTED)
    peer.nothing("detach", "end", "close")
    peer.transfer(1, OTHER)
    peer.outcome(1, "accepted")
    left = server.left()
    check(not any(one.endswith(BODY) for one in left), "no resumed message", left)


# -- transfers that are refused


def refused_transfer(server: Server, *deliveries: list[dict[str, Any]]) -> None:
    for transfers in deliveries:
        peer = server.sender()
        for fields in transfers:
            peer.send("transfer", handle=0, payload=BODY, **fields)
        peer.refused("detach")


other_delivery = rows(server, MUST, dropped("close"), "address", table={
    "2.6.14/3": ("Another delivery inside one is refused.",
                 [{**FIRST, "more": True}, {**FIRST, "delivery_id": 1, "delivery_tag": b"1"}]),
    "2.7.5/4": ("A later transfer with another delivery-id is refused.",
                [{**FIRST, "more": True}, {"delivery_id": 1}]),
})(refused_transfer)  # fmt: skip
first_transfer = rows(server, MUST, dropped("close"), "address", table={
    "2.7.5/1": ("The first transfer of a delivery without a delivery-id is refused.",
                [{"delivery_tag": b"0"}]),
    "2.7.5/2": ("The first transfer without a delivery-tag, or with a long one, is refused.",
                [{"delivery_id": 0}], [{"delivery_id": 0, "delivery_tag": bytes(33)}]),
}, doubt=NO_ANSWER)(refused_transfer)  # fmt: skip


# -- flows


@rows(server, MUST, dropped("end"), table={
    "2.7.4/1": ("A flow for a handle without a link ends the session.",),
    "2.7.4/2": ("A flow for a handle without a link is unattached-handle.",
                "amqp:session:unattached-handle",
                changed("end", error__condition="amqp:internal-error")),
})  # fmt: skip
def flow_for_no_link(server: Server, *conditions: str) -> None:
    peer = server.session()
    peer.flow(handle=9, delivery_count=0, link_credit=1)
    peer.refused("end", *conditions)


@server("2.7.4/3", SHOULD, dropped("flow"))
def session_echo(server: Server) -> None:
    """A flow of the session that says echo is answered by a flow."""
    peer = server.session()
    peer.flow(echo=True)
    peer.expect("flow")


@rows(server, MUST, changed("flow", next_incoming_id=None), table={
    "2.7.4/5": ("Its flows have next-incoming-id and the windows of the session.",
                ("next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window"), ()),
    "2.7.4/6": ("A flow without a handle has no field of a link.",
                (), ("delivery_count", "link_credit", "available"), changed("flow", link_credit=1)),
})  # fmt: skip
def flow_says(server: Server, there: tuple[str, ...], absent: tuple[str, ...]) -> None:
    peer = server.session()
    peer.flow(echo=True)
    with preparing("get a flow"):
        found = peer.expect("flow")
    right = all(name in found.fields for name in there)
    if "handle" not in found.fields:
        right = right and not any(name in found.fields for name in absent)
    check(right, "a flow as the clause says", found)


@server("2.7.4/4", SHOULD, dropped("flow"), "address")
def link_echo(server: Server) -> None:
    """A flow of a link that says echo is answered by a flow of that link."""
    for role in (True, False):
        peer = server.receiver() if role else server.sender()
        if role:
            peer.give_credit(7, echo=True)
        else:
            peer.flow(echo=True, handle=0, delivery_count=0, available=3)
        found = link_flow(peer)
        if role:
            check(found.fields.get("link_credit") == 7, "flow link-credit=7", found)


def link_flow(peer: FrameClient) -> Frame:
    """Return the next flow of the link that was attached last; others' may come before."""
    handle = peer.theirs["attach"]["handle"]
    while (found := peer.expect("flow")).fields.get("handle") != handle:
        pass
    return found


# -- dispositions, and the format of messages


@server("2.7.5/10", SHOULD, changed("transfer", message_format=1), "queue",
        doubt="no sentence says that a node keeps it")  # fmt: skip
def message_format(server: Server) -> None:
    """The message-format passes."""
    for number in (0, 7, 2**32 - 1):
        peer = server.both()
        peer.transfer(0, BODY, message_format=number)
        peer.outcome(0, "accepted")
        peer.give_credit(1, handle=1)
        found, _ = peer.message()
        check(found.fields["message_format"] == number, f"message-format={number}", found)
        first = found.fields["delivery_id"]
        peer.send("disposition", role=True, first=first, settled=True, state=ACCEPTED)


@server("2.7.6/1", MUST, added("flow", "end", nth=2), "queue",
        doubt="the standard speaks of ids that are settled")  # fmt: skip
def never_was(server: Server) -> None:
    """A disposition for ids that never were is ignored."""
    peer = server.sender()
    for role in (True, False):
        peer.send("disposition", role=role, first=77, last=70_000, state=ACCEPTED)
    peer.transfer(0, BODY)
    peer.outcome(0, "accepted")


@server("2.7.6/2", MUST, added("attach", "transfer", nth=3, **FOREIGN), "queue")
def a_range(server: Server) -> None:
    """A disposition settles all of its range, whatever its shape."""
    server.filled(BODY, BODY, BODY)
    peer = server.receiver(credit=3)
    first = peer.message()[0].fields["delivery_id"]
    for _ in range(2):
        peer.message()
    peer.send("disposition", role=True, first=first, last=first + 2, settled=True, state=ACCEPTED)
    # What is not settled is available again then.
    peer.send("end")
    with preparing("end a session"):
        peer.until("end")
    check(not (left := server.left()), "an empty queue", left)


@server("2.7.7/1", SHOULD, dropped("close"), "address", doubt=NO_ANSWER)
def no_link(server: Server) -> None:
    """A frame for a handle without a link is refused."""
    for name, fields in (("detach", {}), ("transfer", FIRST)):
        for handle in (5, 0):
            peer = server.sender()
            if handle == 0:
                peer.send("detach", handle=0, closed=True)
                with preparing("detach a link"):
                    peer.until("detach")
            peer.send(name, handle=handle, **fields)
            peer.refused("end")
