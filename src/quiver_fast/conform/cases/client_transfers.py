"""Cases of clients that send and receive: windows, credit, deliveries, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quiver_fast.conform.case import MUST, SHOULD, Unobservable, check, client, rows
from quiver_fast.conform.cases.clients import BAD_FLOW, GOES_ON, first_flow, goes_on, several
from quiver_fast.conform.client import Client
from quiver_fast.conform.counterpart import ACCEPTED, Counterpart, contract_message
from quiver_fast.conform.mutation import Mutation, changed, dropped, twice
from quiver_fast.conform.server import preparing
from quiver_fast.conform.wire.client import ENDS
from quiver_fast.conform.wire.codec import CodecError, Value, decode_all, encode
from quiver_fast.conform.wire.frames import Frame, Unexpected, composite, message

# -- sending


@rows(client, MUST, twice("transfer"), table={
    "2.5.6/1": ("It sends no transfer beyond our incoming-window, also of one large message.",
                True),
    "2.5.6/2": ("A flow gives the window again.", False, dropped("transfer", nth=4)),
})  # fmt: skip
def within_the_window(client: Client, beyond: bool) -> None:
    several(client)
    # We tell an arrow alone how large its messages are.
    ways = ((1, 10), (3, 10), (1, 5000), (3, 5000))
    for window, size in ways if client.told else ways[:2]:
        says = {"begin": {"incoming_window": window}, "open": {"max_frame_size": 1000}}
        peer = client.meet("send", says=says, credit=0, keys={"body_size": size})
        next_id = peer.theirs["begin"]["next_outgoing_id"]
        while whole_messages(peer) < 5:
            peer.grant(10, incoming_window=window, next_incoming_id=next_id)
            for _ in range(window):
                if whole_messages(peer) < 5:
                    peer.take(1)
            if beyond:
                peer.nothing("transfer")
            next_id, peer.quiet = (next_id + window) % 2**32, 0.05


def whole_messages(peer: Counterpart) -> int:
    """Return how many messages have come."""
    return sum(each.name == "transfer" and not each.fields.get("more") for each in peer.frames)


@client("2.6.7/2", MUST, twice("transfer"))
def within_the_credit(client: Client) -> None:
    """It never sends more than the credit."""
    several(client)
    peer = client.meet("send", credit=0)
    for credit in (2, 3):
        peer.grant(credit)
        peer.take(2 if credit == 2 else 1)
        peer.nothing("transfer")


@rows(client, MUST, dropped("flow"), table={
    "2.6.7/7": ("A drain is answered by a flow.", 8, 8, False),
    "2.6.7/8": ("A drain uses up what credit is left, and the delivery-count has it.", 8, 8,
                True, changed("flow", delivery_count=0)),
    "2.6.7/9": ("A drain without credit is answered too.", 0, 0, False, SHOULD),
})  # fmt: skip
def drained(client: Client, credit: int, count: int, later: bool) -> None:
    several(client)
    peer = client.meet("send", credit=0, verdict=None)
    start = peer.link["initial_delivery_count"]

    def judge(found: Frame) -> bool | None:
        if found.name != "flow" or "handle" not in found.fields:
            return None if found.name not in ENDS else False
        said = found.fields
        return not said.get("link_credit") and said.get("delivery_count") == start + count

    if later:
        peer.grant(credit)
        with preparing("have a message of it"):
            peer.take(1)
    peer.grant(credit, drain=True)
    peer.find(f"flow delivery-count={start + count} link-credit=0", judge)


@client("2.7.1/2", MUST, changed("transfer", payload=lambda old: old + bytes(600)))
def within_our_frame_size(client: Client) -> None:
    """No frame is larger than our maximum of 512 bytes."""
    for operation in client.operations:
        peer = client.meet(operation, "begin", says={"open": {"max_frame_size": 512}},
                           keys={"body_size": 2000}, size=2000)  # fmt: skip
        peer.serve()
        check(peer.largest <= 512, "frames of at most 512 bytes", f"one of {peer.largest} bytes")


@client("2.7.3/10", SHOULD, Mutation("added", "attach", {"": "transfer", "handle": 0,
        "delivery_id": 0, "delivery_tag": b"x", "payload": bytes(2000)}, 1))  # fmt: skip
def within_our_message_size(client: Client) -> None:
    """No message above our max-message-size comes."""
    peer = client.meet("send", "begin", says={"attach": {"max_message_size": 1024}},
                       keys={"body_size": 2000})  # fmt: skip
    peer.serve()
    size = 0
    for each in peer.frames:
        size += len(each.payload) if each.name == "transfer" else 0
        check(size <= 1024, "messages of at most 1024 bytes", f"{size} bytes")
        size = size if each.fields.get("more") else 0


def settle(peer: Counterpart, first: int, last: int | None = None, **fields: Any) -> None:
    """Send a disposition of a receiver."""
    said = {"settled": True, "state": ACCEPTED, **fields}
    peer.send("disposition", role=True, first=first, last=last, **said)


@client("2.6.12/4", SHOULD, dropped("disposition"))
def settled_in_turn(client: Client) -> None:
    """An outcome that is not settled is answered by a settled one."""
    # A receiver of the mode first would settle it by itself.
    second = {"attach": {"rcv_settle_mode": 1}}
    peer = client.meet("send", "transfer", verdict=None, says=second)
    number = peer.frames[-1].fields["delivery_id"]
    settle(peer, number, settled=False)

    def judge(found: Frame) -> bool | None:
        if found.name != "disposition":
            return None if found.name not in ENDS else False
        return not found.fields.get("role") and bool(found.fields.get("settled"))

    peer.find("disposition role=sender settled=true", judge)


def all_at_once(peer: Counterpart, first: int) -> None:
    settle(peer, first, first + 4)


def in_reverse(peer: Counterpart, first: int) -> None:
    for number in reversed(range(first, first + 5)):
        settle(peer, number)


def in_parts_that_overlap(peer: Counterpart, first: int) -> None:
    settle(peer, first, first + 2)
    settle(peer, first + 1, first + 4)


def never_sent(peer: Counterpart, first: int) -> None:
    settle(peer, first + 1000, first + 2000)
    settle(peer, (first - 5) % 2**32, (first - 1) % 2**32)
    all_at_once(peer, first)


def settled_as_we_like(client: Client, *ways: Callable[[Counterpart, int], None]) -> None:
    several(client)
    for way in ways:
        peer = client.meet("send", verdict=None)
        first = peer.theirs["begin"]["next_outgoing_id"]
        with preparing("have five messages without an outcome"):
            peer.take(5)
        way(peer, first)
        goes_on(client, peer)


never_were = rows(client, MUST, GOES_ON, table={
    "2.7.6/1": ("A disposition for ids that never were is ignored.", never_sent),
}, doubt="the standard speaks of ids that are settled")(settled_as_we_like)  # fmt: skip
ranges = rows(client, MUST, GOES_ON, table={
    "2.7.6/2": ("A disposition settles all of its range, whatever its shape.", all_at_once,
                in_reverse, in_parts_that_overlap),
})(settled_as_we_like)  # fmt: skip


# -- receiving


@client("2.5.6/3", MUST, GOES_ON)
def ids_that_wrap(client: Client) -> None:
    """Windows and first ids may be any uint, and ids wrap."""
    firsts = (2**31 - 3, 2**32 - 3)
    for first in firsts:
        says = {"begin": {"next_outgoing_id": first}}
        goes_on(client, client.meet("receive", says=says, stock=5))
    for first in firsts:
        # A fault of its own: 2.7.4/7.
        if first_flow(client, first).fields.get("delivery_count", first) != first:
            raise Unobservable("its flows do not have our delivery-count")
        says = {"attach": {"initial_delivery_count": first}}
        goes_on(client, client.meet("receive", says=says, stock=5))


def any_credit(client: Client, *uints: int) -> None:
    several(client)
    for number in uints:
        window = {"incoming_window": number}
        says = {"begin": window, "flow": window}
        goes_on(client, client.meet("send", says=says, credit=number))


small_credit = rows(client, MUST, GOES_ON, table={
    "2.6.7/4": ("Credit and window may be large.", 1, 2**31 - 1),
})(any_credit)  # fmt: skip
large_credit = rows(client, MUST, GOES_ON, table={
    "2.6.7/10": ("Credit and window may be any uint.", 2**31, 2**32 - 1),
}, doubt="serial numbers of 32 bits do not add so much (RFC 1982)")(any_credit)  # fmt: skip


@client("2.7.1/13", MUST, GOES_ON)
def largest_limits(client: Client) -> None:
    """The limits in our open, begin and attach may be as large as their types."""
    most = 2**32 - 1
    says = {"open": {"max_frame_size": most, "channel_max": 65535, "idle_time_out": most},
            "begin": {"handle_max": most}, "attach": {"max_message_size": 2**64 - 1}}  # fmt: skip
    for operation in client.operations:
        goes_on(client, client.meet(operation, says=says))


def covered(peer: Counterpart, number: int) -> bool:
    """Say whether the client told an outcome of a delivery."""
    told = (each.fields for each in peer.frames if each.name == "disposition")
    return any(each["first"] <= number <= each.get("last", each["first"]) for each in told)


def in_parts(peer: Counterpart, payload: bytes, **last: Any) -> int:
    number = peer.deliver(payload[:20], more=True)
    fields = {"handle": peer.link["handle"], "delivery_id": number, **last}
    peer.send("transfer", payload=payload[20:], **fields)
    return number


@client("2.6.14/1", MUST, changed("disposition", nth=2, state=composite("rejected")))
def several_frames(client: Client) -> None:
    """A delivery of several frames is whole."""
    peer = client.meet("receive", "flow", stock=0)
    with preparing("have a message accepted"):
        peer.outcome(peer.deliver(), "accepted")
    peer.outcome(in_parts(peer, whole(peer)), "accepted")


def whole(peer: Counterpart) -> bytes:
    return contract_message(1, named=peer.named)


OUTCOMES = ("accepted", "rejected", "released", "modified")
OUTCOME = {"": "disposition", "role": True, "first": 0, "settled": True, "state": ACCEPTED}
# Of the first delivery, although it has none.
EXTRA = Mutation("added", "flow", OUTCOME, 1)


def without_an_outcome(client: Client, *ways: Callable[[Counterpart], int]) -> None:
    for deliver in ways:
        peer = client.meet("receive", "flow", stock=0)
        number = deliver(peer)
        peer.outcome(peer.deliver(), *OUTCOMES)
        check(not covered(peer, number), f"no disposition for delivery {number}", peer.frames[-1])


aborted = rows(client, MUST, EXTRA, table={
    "2.6.14/5": ("An aborted delivery never was, and its payload is ignored.",
                 lambda peer: in_parts(peer, whole(peer)[:20], aborted=True),
                 lambda peer: in_parts(peer, whole(peer), aborted=True, more=True)),
})(without_an_outcome)  # fmt: skip
settled = rows(client, MUST, EXTRA, table={
    "2.6.12/3": ("A settled delivery gets no outcome.",
                 lambda peer: peer.deliver(settled=True)),
    "2.7.5/7": ("A delivery is settled by any of its frames.",
                lambda peer: in_parts(peer, whole(peer), settled=True)),
}, doubt="no sentence forbids an outcome of what is settled")(without_an_outcome)  # fmt: skip


@client("2.6.12/2", MUST, dropped("disposition"))
def an_outcome(client: Client) -> None:
    """An unsettled delivery gets an outcome."""
    peer = client.meet("receive", "flow", stock=0)
    peer.outcome(peer.deliver(), *OUTCOMES)


@rows(client, MUST, dropped("close"), table={
    "2.7.1/7": ("A channel above its channel-max ends the connection.",),
    "2.7.1/8": ("A channel above its channel-max is a framing-error.",
                "amqp:connection:framing-error",
                changed("close", error__condition="amqp:internal-error")),
})  # fmt: skip
def above_the_channel_max(client: Client, *conditions: str) -> None:
    for operation in client.operations:
        peer = client.meet(operation, credit=0, stock=0)
        if peer.theirs["open"].get("channel_max", 65535) == 65535:
            raise Unobservable("its channel-max is 65535")
        peer.send("begin", channel=65535, **BAD_FLOW)
        peer.refused("close", *conditions)


@client("2.7.4/1", MUST, dropped("close"))
def flow_for_no_link(client: Client) -> None:
    """A flow for a handle without a link ends the session."""
    for operation in client.operations:
        peer = client.meet(operation, credit=0, stock=0)
        peer.flow(handle=9, delivery_count=0, link_credit=1)
        peer.refused("end")


# -- messages


def sections(client: Client) -> list[list[Value]]:
    """Return the sections of the messages that it sends in one frame."""
    sent = [each for each in client.course("send").all("transfer") if not each.fields.get("more")]
    try:
        return [decode_all(each.payload) for each in sent]
    except CodecError as error:
        raise Unexpected("a message", f"{error}") from None


def code_of(section: Value) -> int:
    return int(section.value[0].value)


def part(message: list[Value], code: int) -> Value:
    """Return the content of a section."""
    found = next((each.value[1] for each in message if code_of(each) == code), None)
    return found or Value("list", ())


def in_order(message: list[Value]) -> bool:
    codes = [code_of(each) for each in message]
    return codes == sorted(codes) and any(code in (0x75, 0x76, 0x77) for code in codes)


def legal_id(message: list[Value]) -> bool:
    found = part(message, 0x73).value[:1]
    return not found or found[0].kind in ("null", "ulong", "uuid", "binary", "string")


def simple(message: list[Value]) -> bool:
    pairs = part(message, 0x74).value
    return all(key.kind == "string" and value.kind not in ("list", "map", "array", "described")
               for key, value in pairs)  # fmt: skip


def with_properties(section: Value) -> Callable[[bytes], bytes]:
    """Return what puts a section in place of those before the body."""
    return lambda old: encode(section) + message(b"x")


def described(code: int, value: Value) -> Value:
    return Value("described", (Value("ulong", code), value))


LIST = Value("list", ())
BAD_ID = described(0x73, Value("list", (Value("symbol", "x"),)))
BAD_KEY = described(0x74, Value("map", ((Value("symbol", "x"), LIST),)))


@rows(client, MUST, changed("transfer", payload=lambda old: message(b"x") + old), table={
    "3.2/2": ("The sections of its messages are in order, and there is a body.", in_order),
    "3.2.4/4": ("A message-id is a ulong, a uuid, binary or a string.", legal_id,
                changed("transfer", payload=with_properties(BAD_ID))),
    "3.2.5/2": ("Keys of application-properties are strings, and their values simple.", simple,
                changed("transfer", payload=with_properties(BAD_KEY))),
})  # fmt: skip
def messages(client: Client, right: Callable[[list[Value]], bool]) -> None:
    for each in sections(client):
        check(right(each), "sections as the clause says", list(each))
