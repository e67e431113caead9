"""Cases of sessions: begin, end, windows (parts 2.5, 2.7.2)."""

from __future__ import annotations

from typing import Any

from quiver_fast.conform.case import MUST, NO_ANSWER, Unobservable, check, rows, server
from quiver_fast.conform.mutation import added, changed, dropped, twice
from quiver_fast.conform.server import ACCEPTED, BODY, OTHER, Server, preparing
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite, encode_frame, message

WINDOWS: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}
ERROR = composite("error", condition="amqp:internal-error")
# A larger window is not overrun.
WINDOW_MAX = 100_000
UINTS = (2**31 - 1, 2**31, 2**32 - 1)
UNKNOWN: dict[str, Any] = {"handle": 9, "delivery_count": 0, "link_credit": 1}


# -- begin


@server("2.5.1/1", MUST, changed("begin", remote_channel=1))
def begin_is_answered(server: Server) -> None:
    """A begin is answered by a begin that has its channel as remote-channel."""
    most = server.facts.open.get("channel_max", 65535)
    for channel in sorted({0, min(5, most), most}):
        peer = server.opened()
        peer.send("begin", channel=channel, **WINDOWS)
        peer.expect("begin", remote_channel=channel)


@server("2.5.1/2", MUST, changed("begin", incoming_window=None))
def begin_has_windows(server: Server) -> None:
    """Its begin has its next-outgoing-id and its windows."""
    said = server.session().theirs["begin"]
    wanted = ("next_outgoing_id", "incoming_window", "outgoing_window")
    check(all(type(said[name]) is int for name in wanted), "a begin with numbers", said)


@server("2.5.1/3", MUST, dropped("close"), doubt=NO_ANSWER)
def answer_to_no_begin(server: Server) -> None:
    """A begin that answers no begin is refused."""
    peer = server.opened()
    peer.send("begin", remote_channel=9, **WINDOWS)
    peer.refused("end")


# -- end


@server("2.5.2/1", MUST, dropped("end"))
def end_is_answered(server: Server) -> None:
    """An end is answered by an end, one with an error too."""
    for error in (None, ERROR):
        peer = server.session()
        peer.send("end", error=error)
        peer.expect("end", condition=None)


@rows(server, MUST, dropped("transfer", nth=2), "queue", table={
    "2.5.2/2": ("Messages of a session that ended are available again.", "end"),
    "2.5.2/3": ("Messages of a connection that ended or broke are available again.",
                "close", "break"),
})  # fmt: skip
def available_again(server: Server, *ways: str) -> None:
    server.filled()
    peer = server.receiver(credit=1)
    with preparing("receive a message"):
        peer.message()
    for way in ways:
        leave(peer, way)
        peer = server.receiver(credit=1)
        _, payload = peer.message()
        check(payload.endswith(BODY), "the message again", payload)


def leave(peer: FrameClient, way: str) -> None:
    """End the session or the connection, or break the latter."""
    if way == "break":
        peer.socket.close()
        return
    peer.send(way)
    with preparing(f"get an answer to {way}"):
        peer.until(way)
    if way == "close":
        peer.socket.close()


@server("2.5.3/1", MUST, twice("end"))
def crossing(server: Server) -> None:
    """An end that crosses ours gets no second end."""
    peer = server.session()
    begun = peer.theirs["begin"]["next_outgoing_id"]
    flow = encode_frame("flow", next_incoming_id=begun, **UNKNOWN, **WINDOWS)
    peer.send_bytes(flow + encode_frame("end"))
    with preparing("end a session"):
        peer.expect("end")
    peer.works()


@server("2.5.4/1", MUST, added("end", "attach", name="x", handle=0, role=True))
def behind_an_error(server: Server) -> None:
    """Behind an error that ends a session its frames are discarded, and other sessions go on."""
    peer = server.session()
    peer.flow(**UNKNOWN)
    with preparing("make it end a session"):
        peer.expect("end")
    peer.send("transfer", handle=9, delivery_id=0, delivery_tag=b"0", payload=BODY)
    peer.send("attach", name="late", handle=3, role=True)
    peer.send("end")
    peer.send("begin", channel=1, **WINDOWS)
    peer.expect("begin", remote_channel=1)


@server("2.5.5/1", MUST, dropped("begin", nth=2))
def channel_again(server: Server) -> None:
    """A channel serves again when both have ended its session."""
    peer = server.session()
    leave(peer, "end")
    peer.send("begin", **WINDOWS)
    peer.expect("begin", remote_channel=0)


# -- frames without a session

LINK: dict[str, Any] = {"handle": 0, "delivery_id": 0, "delivery_tag": b"0"}


@rows(server, MUST, dropped("close"), table={
    "2.5.5/2": ("An attach on a channel without a session is refused.",
                ("attach", {"name": "x", "handle": 0, "role": True})),
    "2.5.5/3": ("Another frame on a channel without a session is refused.", ("transfer", LINK),
                ("flow", WINDOWS), ("disposition", {"role": True, "first": 0}), ("end", {})),
}, doubt=NO_ANSWER)  # fmt: skip
def no_session(server: Server, *frames: tuple[str, dict[str, Any]]) -> None:
    for name, fields in frames:
        for ended in (False, True):
            peer = server.session()
            if ended:
                leave(peer, "end")
            peer.send(name, channel=0 if ended else 7, **fields)
            peer.refused("end")


@rows(server, MUST, dropped("close"), table={
    "2.7.2/1": ("A handle above its handle-max ends the connection.",),
    "2.7.2/2": ("A handle above its handle-max is a framing-error.",
                "amqp:connection:framing-error",
                changed("close", error__condition="amqp:internal-error")),
})  # fmt: skip
def handle_above(server: Server, *conditions: str) -> None:
    most = server.session().theirs["begin"].get("handle_max", UINTS[-1])
    if most == UINTS[-1]:
        raise Unobservable("it has no handle-max")
    for handle in (most + 1, UINTS[-1]):
        peer = server.session()
        peer.send("attach", name="x", handle=handle, role=True)
        peer.refused("close", *conditions)


@server("2.7.2/3", MUST, changed("attach", handle=1), "address")
def our_handle_max(server: Server) -> None:
    """No handle of its own is above our handle-max."""
    peer = server.session(handle_max=0)
    peer.send("attach", name="x", handle=0, role=True, source=composite(
        "source", address=server.queue()), target=composite("target"))  # fmt: skip
    peer.expect("attach", handle=0)


# -- the window


@rows(server, MUST, twice("transfer"), "queue", table={
    "2.5.6/1": ("It sends no transfer beyond our incoming-window, also of one large message.",
                True),
    "2.5.6/2": ("A flow gives the window again.", False, dropped("transfer", nth=3)),
})  # fmt: skip
def our_window(server: Server, beyond: bool) -> None:
    server.filled(BODY, BODY, message(bytes(3000)))
    peer = server.opened(max_frame_size=512)
    peer.begin(incoming_window=2)
    peer.attach_receiver(server.queue())
    begun = peer.theirs["begin"]["next_outgoing_id"]
    for number in range(0, 6, 2):
        peer.give_credit(10, incoming_window=2, next_incoming_id=(begun + number) % 2**32)
        peer.expect("transfer")
        peer.expect("transfer")
        if beyond:
            peer.nothing("transfer")


@server("2.5.6/3", MUST, dropped("transfer"), "queue")
def any_uint(server: Server) -> None:
    """Windows and first ids may be any uint, and ids wrap."""
    for number in UINTS:
        peer = server.opened()
        # A larger one cannot be added to an id (RFC 1982).
        window = min(number, 2**31 - 1)
        peer.begin(next_outgoing_id=number, incoming_window=window, outgoing_window=window)
        peer.attach_sender(server.queue(), initial_delivery_count=number)
        peer.wait_for_credit()
        for delivery in (number, (number + 1) % 2**32):
            peer.transfer(delivery, OTHER)
            peer.outcome(delivery, "accepted")
        peer.attach_receiver(server.queue(), handle=1)
        peer.give_credit(2, handle=1, incoming_window=window)
        for _ in range(2):
            first = peer.message()[0].fields["delivery_id"]
            peer.send("disposition", role=True, first=first, settled=True, state=ACCEPTED)


@rows(server, MUST, dropped("end"), "address", table={
    "2.5.6/5": ("A transfer beyond its incoming-window ends the session.",),
    "2.5.6/6": ("A transfer beyond its incoming-window is a window-violation.",
                "amqp:session:window-violation",
                changed("end", error__condition="amqp:internal-error")),
}, doubt="a peer may widen its window while it reads")  # fmt: skip
def their_window(server: Server, *conditions: str) -> None:
    peer = server.sender()
    window = peer.theirs["begin"]["incoming_window"]
    if window > WINDOW_MAX:
        raise Unobservable(f"its incoming-window is {window:,}")
    part = encode_frame("transfer", more=True, payload=b"\0", **LINK)
    peer.send_bytes(part * (window + 1))
    peer.refused("end", *conditions)
