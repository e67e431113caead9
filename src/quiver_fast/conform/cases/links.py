"""Cases of links: names, attach and detach (parts 2.6, 2.7.3)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from quiver_fast.conform.case import MUST, SHOULD, Unobservable, check, rows, server
from quiver_fast.conform.cases.messages import next_of
from quiver_fast.conform.mutation import added, changed, dropped
from quiver_fast.conform.server import ACCEPTED, BODY, Server, preparing
from quiver_fast.conform.wire.client import ENDS, FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import Fields, composite, encode_frame, message
from quiver_fast.conform.wire.trace import shown

ROLES = (False, True)
RECEIVED = composite("received", section_number=0, section_offset=0)
UNSETTLED = Value("map", ((Value("binary", b"tag"), RECEIVED),))
# A larger message is not sent to find out whether it is refused.
MESSAGE_MAX = 64 << 20
PART = 60_000


def attach(role: bool, address: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of an attach as a sender or a receiver (role true) of a node."""
    source = composite("source", address=address if role else None)
    target = composite("target", address=None if role else address)
    ours = {"name": "x", "handle": 0, "role": role, "source": source, "target": target}
    return {**ours, **({} if role else {"initial_delivery_count": 0}), **fields}


# -- names


@rows(server, MUST, dropped("detach"), "address", table={
    "2.6.1/1": ("A name that is attached again ends the first link.",),
    "2.6.1/2": ("A name that is attached again is link:stolen.", "amqp:link:stolen",
                changed("detach", error__condition="amqp:internal-error")),
})  # fmt: skip
def stolen(server: Server, *conditions: str) -> None:
    answers = []
    for connections, channel, handle in ((2, 0, 0), (1, 1, 0), (1, 0, 1)):
        for role in ROLES:
            again = attach(role, server.queue(), handle=handle, channel=channel)
            try:
                attached_twice(server, connections, again, conditions)
                answers.append("")
            except Unobservable as reason:
                answers.append(str(reason))
    if all(answers):
        raise Unobservable(answers[0])


def attached_twice(
    server: Server, connections: int, again: dict[str, Any], conditions: tuple[str, ...]
) -> None:
    """Attach a link again; if the server takes the second one, judge the end of the first one."""
    container = secrets.token_hex(4)
    peers = [server.opened(container_id=container) for _ in range(connections)]
    for peer in peers:
        peer.begin()
    if again["channel"]:
        peers[0].begin(again["channel"])
    peers[0].send("attach", **{**again, "channel": 0, "handle": 0})
    with preparing("attach a link"):
        first = peers[0].expect("attach")
    # A server that does not answer may not cost the time of the other ways.
    peers[-1].socket.settimeout(server.target.patience / 2)
    peers[-1].send("attach", **again)
    with preparing("attach the link again"):
        found = next_of(peers[-1], "attach", *ENDS)
    peers[-1].socket.settimeout(server.target.patience)
    taken = found.fields.get("source" if again["role"] else "target") is not None
    if taken:
        found = peers[0].refused("detach", *conditions)
    place = (found.channel, found.fields.get("handle"))
    if found.name == "detach" and place == (first.channel, first.fields["handle"]):
        right = not conditions or found.condition in conditions
        check(right, f"detach with {' or '.join(conditions)}", found)
    elif found.name == "detach" or not taken:
        raise Unobservable(f"it refuses the second link: {shown(found)}")


@server("2.6.1/3", MUST, added("attach", "detach", nth=2, handle=0), "address")
def other_links(server: Server) -> None:
    """A name in the other direction, or of another container, is another link."""
    peer, other = server.session(), server.session()
    for role in ROLES:
        peer.send("attach", **attach(role, server.queue(), handle=int(role)))
        peer.expect("attach", name="x")
    other.send("attach", **attach(False, server.queue()))
    other.expect("attach", name="x")
    peer.nothing("detach", "end", "close")


# -- attach and detach


@server("2.6.2/1", MUST, dropped("attach", nth=2), "address")
def handle_again(server: Server) -> None:
    """A handle serves again when its link is detached."""
    for role in ROLES:
        peer = server.receiver() if role else server.sender()
        peer.send("detach", handle=0, closed=True)
        peer.expect("detach")
        peer.send("attach", **attach(role, server.queue(), name="another"))
        peer.expect("attach", name="another")


@server("2.6.2/2", MUST, changed("attach", handle=0), "address")
def two_handles(server: Server) -> None:
    """Two links of a session have different handles of its own."""
    peer = server.session()
    for role in ROLES:
        peer.send("attach", **attach(role, server.queue(), handle=int(role)))
    handles = [peer.expect("attach").fields["handle"] for _ in ROLES]
    check(handles[0] != handles[1], "handles that differ", handles)


@server("2.6.3/1", MUST, changed("attach", name="other"), "address")
def attach_is_answered(server: Server) -> None:
    """An attach is answered by an attach of the same name and the other role."""
    for role in ROLES:
        for name in ("x", "ünïcode", "x" * 300):
            peer = server.session()
            peer.send("attach", **attach(role, server.queue(), name=name))
            peer.expect("attach", name=name, role=not role)


@rows(server, MUST, dropped("detach"), "pinned", table={
    "2.6.3/3": ("The attach that refuses a link has no terminus, and a detach follows.", False),
    "2.6.3/4": ("The detach that refuses a link has an error.", True, SHOULD,
                changed("detach", error=None)),
})  # fmt: skip
def refused_link(server: Server, reason: bool) -> None:
    for role in ROLES:
        peer = server.session()
        peer.send("attach", **attach(role, f"quiver-conform-{secrets.token_hex(8)}"))
        peer.expect("attach", **{"source" if role else "target": None})
        found = peer.expect("detach")
        check(not reason or found.condition is not None, "detach with an error", found)


@server("2.6.3/5", SHOULD, added("detach", "end"), "pinned", "address")
def session_of_a_refused_link(server: Server) -> None:
    """The session of a refused link goes on."""
    peer = server.session()
    peer.send("attach", **attach(False, f"quiver-conform-{secrets.token_hex(8)}"))
    with preparing("be refused"):
        peer.until("detach")
    peer.send("detach", handle=0, closed=True)
    peer.send("attach", **attach(False, server.queue(), name="y", handle=1))
    peer.expect("attach", name="y")


def detached(server: Server, closed: bool) -> None:
    for attached in (server.sender, server.receiver):
        peer = attached()
        peer.send("detach", handle=0, closed=closed)
        peer.expect("detach", condition=None, closed=closed)


# Known breaks: rabbitmq-server 2594, go-amqp 310.
closed_links = rows(server, MUST, changed("detach", closed=None), "address", table={
    "2.6.6/1": ("A detach that says closed is answered by one that says closed.", True),
})(detached)  # fmt: skip
detached_links = rows(server, SHOULD, changed("detach", closed=True), "address", table={
    "2.6.4/1": ("A detach without closed is answered by one without closed.", False),
}, doubt="a peer may close the link at the same time (2.6.6)")(detached)  # fmt: skip


@server("2.6.4/2", SHOULD, dropped("attach", nth=2), "address")
def attached_again(server: Server) -> None:
    """A detached link may be attached again."""
    for role in ROLES:
        peer = server.session()
        for _ in range(2):
            peer.send("attach", **attach(role, server.queue()))
            peer.expect("attach", name="x")
            peer.send("detach", handle=0)
            with preparing("detach a link"):
                peer.expect("detach")


@rows(server, MUST, dropped("close"), "address", table={
    "2.7.3/1": ("A handle that is in use is refused.",),
    "2.7.3/2": ("A handle that is in use is session:handle-in-use.",
                "amqp:session:handle-in-use",
                changed("close", error__condition="amqp:internal-error")),
})  # fmt: skip
def handle_in_use(server: Server, *conditions: str) -> None:
    for role in ROLES:
        peer = server.receiver() if role else server.sender()
        peer.send("attach", **attach(role, server.queue(), name="another"))
        peer.refused("end", *conditions)


# -- what an attach says


def no_unsettled(said: Fields) -> bool:
    return not said.get("unsettled")


@rows(server, MUST, changed("attach", unsettled=UNSETTLED), "address", table={
    "2.7.3/3": ("The attach of a sender has an initial-delivery-count.", {},
                lambda said: isinstance(said["initial_delivery_count"], int),
                changed("attach", initial_delivery_count=None)),
    "2.7.3/8": ("The attach of a new link has no unsettled deliveries.", {}, no_unsettled),
    "2.6.13/1": ("A delivery that only our map has is not in its map.", {"unsettled": UNSETTLED},
                 no_unsettled),
})  # fmt: skip
def attach_says(server: Server, ours: dict[str, Any], right: Callable[[Fields], bool]) -> None:
    peer = server.session()
    peer.send("attach", **attach(True, server.queue(), **ours))
    with preparing("attach a receiver"):
        said = peer.expect("attach")
    check(right(said.fields), "an attach as the clause says", said)


@rows(server, MUST, changed("transfer", settled=False), "queue", table={
    "2.7.3/4": ("With snd-settle-mode settled its transfers are settled.", 1),
    "2.7.3/5": ("With snd-settle-mode unsettled none of its transfers is settled.", 0,
                changed("transfer", settled=True)),
})  # fmt: skip
def sender_mode(server: Server, mode: int) -> None:
    server.filled()
    peer = server.receiver(credit=1, snd_settle_mode=mode)
    if peer.theirs["attach"].get("snd_settle_mode", 2) != mode:
        raise Unobservable("it does not take that mode")
    peer.expect("transfer", settled=mode == 1)


@server("2.7.3/7", MUST, changed("disposition", settled=False), "queue")
def second(server: Server) -> None:
    """With rcv-settle-mode second it settles before us, or its attach says first."""
    server.filled()
    peer = server.receiver(credit=1, rcv_settle_mode=1)
    number = peer.expect("transfer").fields["delivery_id"]
    if peer.theirs["attach"].get("rcv_settle_mode") == 1:
        peer.send("disposition", role=True, first=number, state=ACCEPTED)
        peer.expect("disposition", role=False, first=number, settled=True)


@server("2.7.3/9", MUST, added("attach", "transfer", handle=0, delivery_id=0, delivery_tag=b"0",
                               payload=BODY), "queue")  # fmt: skip
def incomplete(server: Server) -> None:
    """No new delivery goes to a link with an incomplete map of unsettled deliveries."""
    address = server.queue()
    peer = server.session()
    peer.send("attach", **attach(True, address, unsettled=UNSETTLED, incomplete_unsettled=True))
    with preparing("attach with such a map"):
        peer.expect("attach")
    peer.give_credit(1)
    server.filled()
    peer.nothing("transfer")


# -- the size of a message


@server("2.7.3/10", SHOULD, changed("transfer", payload=lambda old: old + bytes(200)), "queue")
def too_large_for_us(server: Server) -> None:
    """No message above our max-message-size comes."""
    server.filled(BODY, message(bytes(200)))
    peer = server.receiver(credit=10, max_message_size=100)
    _, payload = peer.message()
    check(len(payload) <= 100, "at most 100 bytes", len(payload))
    peer.nothing("transfer")


@rows(server, MUST, dropped("detach"), "address", table={
    "2.7.3/11": ("A message above its max-message-size is refused.",),
    "2.7.3/12": ("A message above its max-message-size is link:message-size-exceeded.",
                 "amqp:link:message-size-exceeded", SHOULD,
                 changed("detach", error__condition="amqp:internal-error")),
})  # fmt: skip
def too_large_for_it(server: Server, *conditions: str) -> None:
    peer = server.sender()
    limit = peer.theirs["attach"].get("max_message_size") or 0
    if not 0 < limit <= MESSAGE_MAX:
        raise Unobservable(f"its max-message-size is {limit:,}" if limit else "it has none")
    parts(peer, limit + 1)
    peer.refused("detach", *conditions)


@server("2.6.5/1", MUST, changed("end", error__condition="amqp:internal-error"), "queue",
        doubt="the frames may be under way, and then other links would suffer")  # fmt: skip
def errant(server: Server) -> None:
    """Input behind its detach with an error ends the session, errant-link."""
    peer = server.sender()
    limit = peer.theirs["attach"].get("max_message_size") or 0
    if not 0 < limit <= MESSAGE_MAX:
        raise Unobservable("no error of a link can be made: it has no max-message-size")
    parts(peer, limit + 1)
    with preparing("make an error of the link"):
        if next_of(peer, *ENDS).name != "detach":
            raise Unobservable("it ends more than the link for an error")
    peer.transfer(1, BODY)
    peer.refused("end", "amqp:session:errant-link")


def parts(peer: FrameClient, size: int) -> None:
    """Send a message in parts, at most as many as its window has."""
    part = min(PART, peer.theirs["open"].get("max_frame_size", PART) - 100)
    count, window = -(-size // part), peer.theirs["begin"]["incoming_window"]
    if count > window:
        raise Unobservable(f"its incoming-window of {window:,} is too small for such a message")
    first: dict[str, Any] = {"delivery_id": 0, "delivery_tag": b"0", "message_format": 0}
    for number in range(count):
        fields = {} if number else first
        data = b"\0\x53\x75\xb0" + size.to_bytes(4, "big") if not number else b""
        payload, more = data.ljust(part, b"x"), number < count - 1
        peer.send_bytes(encode_frame("transfer", handle=0, more=more, payload=payload, **fields))
