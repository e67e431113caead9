"""Cases of messages: sections and outcomes (parts 3.2 to 3.4)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from quiver_fast.conform.case import check
from quiver_fast.conform.server import ACCEPTED, Server, preparing
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, decode, encode
from quiver_fast.conform.wire.frames import Frame, Unexpected
from quiver_fast.conform.wire.trace import shown

DATA, VALUE = 0x75, 0x77
ENDS = ("detach", "end", "close")
END = "the end of the connection"


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
    if peer.trace is not None:
        peer.trace.answer = shown(found)
    return found


def next_or_end(peer: FrameClient, *names: str) -> Frame | None:
    """Expect a frame with one of these names, or the end of the connection: None."""
    try:
        return next_of(peer, *names)
    except Unexpected as error:
        if error.found != END:
            raise
        return None


def settle(peer: FrameClient, number: int, state: Value = ACCEPTED, settled: bool = True) -> None:
    """Give a delivery an outcome."""
    peer.send("disposition", role=True, first=number, settled=settled, state=state)


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
        first, payload = peer.message()
        found.append(payload)
        settle(peer, first.fields["delivery_id"])
    check(sorted(map(body, found)) == sorted(bodies), f"{bodies}", [*map(body, found)])
    more = [*map(body, server.left())]
    check(more == [], "no other message", more)
    return found
