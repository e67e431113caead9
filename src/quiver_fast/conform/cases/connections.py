"""Cases of connections: headers, framing, open and close (parts 2.2 to 2.4, 2.7.1)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from quiver_fast.conform.case import (
    MUST,
    NO_ANSWER,
    SHOULD,
    Unobservable,
    check,
    rows,
    server,
)
from quiver_fast.conform.cases.messages import next_of
from quiver_fast.conform.mutation import (
    added,
    changed,
    cut,
    dropped,
    header,
    held,
    late,
    silenced,
    swapped,
)
from quiver_fast.conform.server import Server, preparing
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    FIELDS,
    SASL_HEADER,
    Fields,
    Frame,
    by_symbols,
    composite,
    encode_frame,
    frame,
    message,
)

# Of AMQP, SASL, TLS, and of the protocol that brokers answer to what they cannot read.
KNOWN = (AMQP_HEADER, SASL_HEADER, b"AMQP\x02\x01\x00\x00", b"AMQP\x00\x00\x09\x01")
WINDOWS: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}
UNLIMITED = 2**32 - 1
NO_FRAMES = (*FIELDS, "empty")
# A larger frame is not sent to find out whether it is refused.
FRAME_MAX = 1 << 20


def authenticated(server: Server) -> FrameClient:
    return server.authenticated() if server.facts.mechanisms else server.connect()


def greeted(server: Server) -> FrameClient:
    """Connect, and exchange the headers of AMQP."""
    peer = authenticated(server)
    with preparing("exchange headers"):
        peer.exchange_header()
    return peer


# -- headers


@server("2.2/1", MUST, header(b"AMQP\x00\x00\x09\x01"))
def same_version(server: Server) -> None:
    """The header of AMQP 1.0.0 is answered by the same header."""
    peer = authenticated(server)
    peer.send_bytes(AMQP_HEADER)
    peer.header(AMQP_HEADER)


@server("2.2/2", MUST, header(b"AMQP\x00\x00\x09\x01"))
def byte_by_byte(server: Server) -> None:
    """A header and a frame may come byte by byte."""
    peer = authenticated(server)
    for byte in AMQP_HEADER + encode_frame("open", container_id="slow"):
        peer.send_bytes(bytes([byte]))
    peer.header(AMQP_HEADER)
    peer.expect("open", container_id=bool)


@rows(server, MUST, held(), table={
    "2.2/3": ("Another version is answered by a supported header, then the end.",
              b"AMQP\x00\x02\x00\x00", b"AMQP\x00\x01\x01\x00"),
    "2.2/4": ("Bytes that are no header are answered by a supported header, then the end.",
              b"GET / HTTP/1.1\r\nHost: queue\r\n\r\n", bytes(8)),
    "2.2/5": ("An unknown protocol id is answered by a supported header, then the end.",
              *(b"AMQP%c\x01\x00\x00" % protocol for protocol in (1, 4, 7, 255))),
})  # fmt: skip
def another_protocol(server: Server, *greetings: bytes) -> None:
    for greeting in greetings:
        peer = server.connect()
        peer.send_bytes(greeting)
        peer.header(*KNOWN)
        peer.ended()


# -- frames


def head(size: int, offset: int = 2, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", size, offset, kind, 0)


def performative(code: int, kind: str) -> bytes:
    return frame(encode(Value("described", (Value("ulong", code), Value(kind, ())))))


def malformed(server: Server, *wrong: bytes) -> None:
    for data in wrong:
        peer = server.opened()
        peer.send_bytes(data)
        peer.over()


framing = rows(server, MUST, silenced("close"), table={
    "2.3.1/1": ("A frame of fewer than 8 bytes ends the connection.", head(7), head(0)),
    "2.3.1/2": ("A data offset below 2 ends the connection.", head(8, 1)),
    "2.3.1/3": ("A data offset beyond the frame ends the connection.", head(8, 3), SHOULD),
    "2.3.1/5": ("A frame of an unknown type ends the connection.", head(8, kind=5),
                frame(encode(composite("end")), kind=5), SHOULD),
})(malformed)  # fmt: skip
no_performative = rows(server, MUST, silenced("close"), table={
    "2.3.2/1": ("A body that is no performative ends the connection.",
                frame(encode(Value("string", "x"))), performative(0x11, "map"), SHOULD),
    "2.3.2/2": ("An unknown performative ends the connection.", performative(0x99, "list")),
    "2.3.2/3": ("Half a performative ends the connection.", frame(b"\0\x53"), frame(b"\xff" * 16)),
    "2.4.6/2": ("A second open ends the connection.", encode_frame("open", container_id="again")),
}, doubt=NO_ANSWER)(malformed)  # fmt: skip


@server("2.8.14/1", MUST, changed("close", error__condition=None))
def condition(server: Server) -> None:
    """An error has a condition."""
    peer = server.opened()
    peer.send_bytes(head(7))
    with preparing("make it close"):
        found = peer.expect("close", error=bool)
    check("condition" in found.fields["error"].fields, "an error with a condition", found)


OPENING = composite("begin", **WINDOWS)
BEGIN = encode(OPENING)
CODE, PRESENT = OPENING.value
ABSENT = (Value("null", None),) * (len(FIELDS["begin"]) - len(PRESENT.value))
NULLS = Value("described", (CODE, Value("list", PRESENT.value + ABSENT)))


@rows(server, MUST, dropped("begin"), table={
    "2.3.1/4": ("The bytes between a frame's header and its data offset are skipped.",
                head(16 + len(BEGIN), 4) + b"extended" + BEGIN),
    "2.4.5/4": ("Empty frames are taken.", frame(b"") * 100 + frame(BEGIN)),
    "1.2/1": ("A field may have any encoding of its type.", frame(encode(OPENING, wide=True))),
    "1.4/1": ("Fields that are null may be there at the end of a list.", frame(encode(NULLS))),
})  # fmt: skip
def taken(server: Server, data: bytes) -> None:
    peer = server.opened()
    peer.send_bytes(data)
    peer.expect("begin", remote_channel=0)


def say(peer: FrameClient, name: str, /, payload: bytes = b"", **fields: Any) -> None:
    """Send a frame whose composites are described by symbols."""
    peer.send_bytes(frame(encode(by_symbols(composite(name, **fields))) + payload))


LAST: dict[str, dict[str, Any]] = {"detach": {"handle": 1}, "end": {}, "close": {}}


@server("2.3.2/4", SHOULD, dropped("begin"), "queue")
def by_symbol(server: Server) -> None:
    """The descriptor of a frame, a section or an outcome may be its symbol."""
    peer = greeted(server)
    say(peer, "open", container_id="quiver-conform")
    peer.expect("open")
    say(peer, "begin", **WINDOWS)
    peer.expect("begin", remote_channel=0)
    peer = server.both()
    data = encode(Value("described", (Value("symbol", "amqp:data:binary"), Value("binary", b"x"))))
    say(peer, "transfer", data, handle=0, delivery_id=0, delivery_tag=b"0", message_format=0)
    peer.outcome(0, "accepted")
    peer.give_credit(1, handle=1, next_outgoing_id=1)
    first = peer.message()[0].fields["delivery_id"]
    say(peer, "disposition", role=True, first=first, settled=True, state=composite("accepted"))
    for name, fields in LAST.items():
        say(peer, name, **fields)
        next_of(peer, name)
    check(not (left := server.left()), "an empty queue", left)


# -- open


@server("2.4.1/1", MUST, swapped("open", "begin"))
def open_comes_first(server: Server) -> None:
    """Its first frame is open, on channel 0."""
    peer = greeted(server)
    peer.send("open", container_id="quiver-conform")
    peer.send("begin", **WINDOWS)
    check(peer.expect("open").channel == 0, "open on channel 0", "another channel")


FRAMES: dict[str, dict[str, Any]] = {
    "begin": WINDOWS, "attach": {"name": "x", "handle": 0, "role": False},
    "transfer": {"handle": 0}, "flow": WINDOWS, "end": {},
}  # fmt: skip


@server("2.4.1/2", MUST, silenced("close"), doubt=NO_ANSWER)
def before_open(server: Server) -> None:
    """Another frame before open ends the connection."""
    for name, fields in FRAMES.items():
        peer = greeted(server)
        peer.send(name, **fields)
        peer.over()


@server("2.4.2/1", MUST, dropped("begin"))
def pipelined(server: Server) -> None:
    """Frames may follow our open before its open came."""
    peer = greeted(server)
    peer.send_bytes(encode_frame("open", container_id="quiver-conform") + frame(BEGIN))
    peer.expect("open")
    peer.expect("begin", remote_channel=0)


@rows(server, MUST, changed("open", container_id=None), table={
    "2.7.1/1": ("Its open names the container.", lambda said: bool(said["container_id"])),
    "2.7.1/6": ("Its maximum of a frame is at least 512 bytes.",
                lambda said: said.get("max_frame_size", 512) >= 512,
                changed("open", max_frame_size=256)),
})  # fmt: skip
def open_says(server: Server, right: Callable[[Fields], bool]) -> None:
    said = server.opened().theirs["open"]
    check(right(said), "an open as the clause says", Frame(0, 0, "open", said, b""))


# -- limits


@server("2.7.1/2", MUST, changed("transfer", payload=lambda old: old + bytes(600)), "queue")
def our_frame_size(server: Server) -> None:
    """No frame is larger than our maximum of 512 bytes."""
    server.filled(message(b"0123456789" * 300))
    peer = server.opened(max_frame_size=512)
    peer.largest = 0
    peer.begin()
    peer.attach_receiver(server.queue())
    peer.give_credit(1)
    peer.message()
    check(peer.largest <= 512, "frames of at most 512 bytes", f"one of {peer.largest}")


@server("2.7.1/13", MUST, dropped("transfer"), "queue")
def largest_limits(server: Server) -> None:
    """The limits in our open, begin and attach may be as large as their types."""
    address = server.filled()
    peer = greeted(server)
    peer.send("open", container_id="quiver-conform", max_frame_size=UNLIMITED,
              channel_max=65535, idle_time_out=UNLIMITED)  # fmt: skip
    peer.expect("open")
    peer.send("begin", handle_max=UNLIMITED, **WINDOWS)
    peer.expect("begin")
    peer.send("attach", name="x", handle=0, role=True, target=composite("target"),
              source=composite("source", address=address), max_message_size=2**64 - 1)  # fmt: skip
    peer.expect("attach")
    peer.give_credit(1)
    peer.message()


@rows(server, MUST, dropped("close"), table={
    "2.7.1/3": ("A frame above its maximum ends the connection.",),
    "2.7.1/4": ("A frame above its maximum is a framing-error.", "amqp:connection:framing-error",
                changed("close", error__condition="amqp:internal-error")),
})  # fmt: skip
def above_the_maximum(server: Server, *conditions: str) -> None:
    peer = server.opened()
    size = peer.theirs["open"].get("max_frame_size", UNLIMITED) + 1
    if size > FRAME_MAX:
        raise Unobservable(f"its max-frame-size is {size - 1:,}")
    peer.send_bytes(frame(BEGIN + bytes(size - 8 - len(BEGIN))))
    peer.refused("close", *conditions)


@server("2.7.1/5", MUST, changed("disposition", state=composite("rejected")), "queue")
def of_the_maximum(server: Server) -> None:
    """A frame of its maximum is taken."""
    peer = server.sender()
    size = peer.theirs["open"].get("max_frame_size", UNLIMITED)
    if size > FRAME_MAX:
        raise Unobservable(f"its max-frame-size is {size:,}")
    first = {"delivery_id": 0, "delivery_tag": b"0", "message_format": 0}
    begun: dict[str, Any] = {"handle": 0, "more": True, **first}
    data = b"\0\x53\x75\xb0" + struct.pack(">I", size - len(encode_frame("transfer", **begun)) - 8)
    peer.send("transfer", payload=data.ljust(len(data) + int.from_bytes(data[4:], "big")), **begun)
    peer.send("transfer", handle=0)
    peer.outcome(0, "accepted")


@rows(server, MUST, dropped("close"), table={
    "2.7.1/7": ("A channel above its channel-max ends the connection.",),
    "2.7.1/8": ("A channel above its channel-max is a framing-error.",
                "amqp:connection:framing-error",
                changed("close", error__condition="amqp:internal-error")),
})  # fmt: skip
def channel_above(server: Server, *conditions: str) -> None:
    peer = server.opened()
    most = peer.theirs["open"].get("channel_max", 65535)
    if most == 65535:
        raise Unobservable("its channel-max is 65,535")
    for channel in (most + 1, 65535):
        peer = server.opened()
        peer.send("begin", channel=channel, **WINDOWS)
        peer.refused("close", *conditions)


# -- silence


@server("2.4.5/1", MUST, late("empty", 3))
def heartbeats(server: Server) -> None:
    """It sends a frame before our idle-time-out of 2 s is over, or closes."""
    peer = server.opened(idle_time_out=2000)
    # We should wait for twice the time (part 2.4.5): a timer that is a little late is no break.
    peer.socket.settimeout(3.0)
    for _ in range(2):
        peer.any_frame()


@server("2.4.5/2", SHOULD, cut("close"), "idle")
def silence(server: Server) -> None:
    """Our silence, longer than its idle-time-out, ends the connection by a close with an error."""
    peer = server.opened()
    # It may wait for twice as long as it says.
    peer.socket.settimeout(2 * peer.theirs["open"]["idle_time_out"] / 1000 + 1)
    peer.refused("close")


# -- close


@server("2.4.3/1", MUST, dropped("close"))
def close_is_answered(server: Server) -> None:
    """A close is answered by a close."""
    for error in (None, composite("error", condition="amqp:internal-error")):
        peer = server.opened()
        peer.send("close", error=error)
        peer.expect("close")


@rows(server, MUST, added("close", "begin"), table={
    "2.4.3/2": ("Nothing follows its close.", 0),
    "2.4.3/4": ("A close is taken on any channel.", 7, dropped("close")),
})  # fmt: skip
def close_is_the_end(server: Server, channel: int) -> None:
    peer = server.opened()
    peer.send("close", channel=min(channel, peer.theirs["open"].get("channel_max", 65535)))
    peer.expect("close")
    peer.nothing(*NO_FRAMES)


@server("2.4.3/5", SHOULD, held(), doubt="it may end it then, and no time is named")
def end_of_tcp(server: Server) -> None:
    """After both have closed it ends the TCP connection."""
    peer = server.opened()
    peer.send("close")
    peer.expect("close")
    peer.ended()


@server("2.4.3/6", MUST, cut("close"))
def close_before_the_end(server: Server) -> None:
    """Before it ends the connection for an error it writes a close."""
    peer = server.opened()
    peer.send_bytes(head(7))
    peer.refused("close")


@server("2.4.3/3", SHOULD, changed("close", channel=1))
def close_is_on_the_first(server: Server) -> None:
    """Its close is on channel 0."""
    peer = server.opened()
    peer.send("close")
    check(peer.expect("close").channel == 0, "close on channel 0", "another channel")


@server("2.4.6/1", MUST, added("close", "begin"))
def behind_an_error(server: Server) -> None:
    """Behind an error that ends the connection, frames are not answered."""
    peer = server.opened()
    peer.send_bytes(frame(encode(Value("string", "x"))) + frame(BEGIN))
    with preparing("make it close"):
        peer.expect("close")
    peer.send("begin", channel=1, **WINDOWS)
    peer.send("close")
    peer.nothing(*NO_FRAMES)
