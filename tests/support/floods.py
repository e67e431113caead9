"""Clients that send very much and only count the answers."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite, encode_frame
from support.remote import END_OF_STREAM

# Descriptors of performatives, part 2.7.
NAMES = {
    0x10: "open", 0x11: "begin", 0x12: "attach", 0x13: "flow", 0x14: "transfer",
    0x15: "disposition", 0x16: "detach", 0x17: "end", 0x18: "close",
}  # fmt: skip
DISPOSITION, TRANSFER, FLOW = 0x15, 0x14, 0x13
READ_SIZE = 1 << 18
ECHO_HANDLE = 9
WAIT_SECONDS = 100.0


def ready(
    sock: socket.socket, *, reads: bool = True, writes: bool = False, seconds: float = 1.0
) -> tuple[bool, bool]:
    """Wait until a socket can be read or written; say which of them.

    Its number may be beyond what select takes.
    """
    poll = select.poll()
    poll.register(sock, (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0))
    found = 0
    for _, events in poll.poll(seconds * 1000):
        found = events
    over = bool(found & (select.POLLERR | select.POLLHUP))
    return (
        reads and (over or bool(found & select.POLLIN)),
        writes and (over or bool(found & select.POLLOUT)),
    )


class Flood(FrameClient):
    """A client that sends very many frames, and counts the answers.

    Attributes:
        seen: how many frames of each performative have come.
        settled: number of deliveries in dispositions.
        frames: received frames of the performatives in `kept`, as bytes.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port, timeout=WAIT_SECONDS)
        self.seen: Counter[str] = Counter()
        self.settled = 0
        self.kept: set[str] = set()
        self.frames: list[bytes] = []
        self.input = b""
        self.ended = False
        self.last = b""

    def start(self, *, sessions: int = 1, window: int = 2**31 - 1, **opened: Any) -> Flood:
        """Open the connection and begin sessions with a window that never ends."""
        self.open(**opened)
        for channel in range(sessions):
            self.begin(channel=channel, incoming_window=window, outgoing_window=window)
        return self

    def take(self, data: bytes) -> None:
        """Count the received frames."""
        data = self.input + data
        at, end = 0, len(data)
        while end - at >= 8:
            size = int.from_bytes(data[at : at + 4], "big")
            if end - at < size:
                break
            if size > 10:
                code = data[at + 10]
                name = NAMES.get(code, "other")
                self.seen[name] += 1
                if code == DISPOSITION:
                    self.settled += deliveries(data, at + 11)
                if name == "close":
                    self.last = bytes(data[at : at + size])
                if name in self.kept:
                    self.frames.append(data[at : at + size])
            at += size
        self.input = data[at:]

    def pump(self, data: bytes, until: Callable[[], bool] = lambda: True) -> None:
        """Send all of ``data`` and read meanwhile, and then until a condition holds.

        Raises:
            TimeoutError: it never does.
        """
        self.socket.setblocking(False)
        view, deadline = memoryview(data), time.monotonic() + WAIT_SECONDS
        try:
            while view or not until():
                if self.ended:
                    raise EOFError(f"the server closed: {self.last!r}")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"saw {dict(self.seen)}, {self.settled} settled")
                readable, writable = ready(self.socket, writes=bool(view))
                if readable:
                    self.read_some()
                if writable and not self.ended:
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        view = view[self.socket.send(view[:READ_SIZE]) :]
        finally:
            self.socket.settimeout(WAIT_SECONDS)

    def read_some(self) -> None:
        """Read received bytes, if there are any."""
        try:
            data = self.socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        self.ended |= not data
        self.take(data)

    def pour(self, data: bytes, seconds: float = 3.0) -> int:
        """Send without reading, as long as the server reads; return the number of bytes."""
        self.socket.setblocking(False)
        view, deadline = memoryview(data), time.monotonic() + seconds
        while view and time.monotonic() < deadline:
            if not ready(self.socket, reads=False, writes=True, seconds=0.5)[1]:
                break
            try:
                view = view[self.socket.send(view[:READ_SIZE]) :]
            except BlockingIOError:
                continue
            except ConnectionError:
                break
        self.socket.settimeout(WAIT_SECONDS)
        return len(data) - len(view)

    def echo(self) -> None:
        """Wait until the server has read everything, which its answers show."""
        before = self.seen["detach"]
        attach = encode_frame(
            "attach", name="echo", handle=ECHO_HANDLE, role=False, initial_delivery_count=0,
            source=composite("source"), target=composite("target"),
        )  # fmt: skip
        detach = encode_frame("detach", handle=ECHO_HANDLE, closed=True)
        self.pump(attach + detach, lambda: self.seen["detach"] > before)


def deliveries(data: bytes, at: int) -> int:
    """Return the number of deliveries of a disposition, whose list begins at ``at``."""
    # After the list's size and count, and the role of one byte (parts 1.6.22 and 2.7.6).
    at += 1 + 2 * (1 if data[at] == 0xC0 else 4) + 1
    first, at = uint(data, at)
    last, _ = uint(data, at)
    return (first if last is None else last) - first + 1


def uint(data: bytes, at: int) -> tuple[Any, int]:
    """Return a uint or null (part 1.6.5), and the offset of the next value."""
    code = data[at]
    if code == 0x70:
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    return {0x43: (0, at + 1), 0x52: (data[at + 1], at + 2)}.get(code, (None, at + 1))


class TextFlood:
    """A client of the queue protocol that sends much, and counts the bytes of its answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        self.received = 0
        self.tail = b""

    def pump(self, data: bytes, until: bytes) -> None:
        """Send all and read until an answer holds ``until``."""
        self.socket.setblocking(False)
        view, deadline = memoryview(data), time.monotonic() + WAIT_SECONDS
        while until not in self.tail:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{until!r} did not come, {self.tail[-200:]!r} did")
            readable, writable = ready(self.socket, writes=bool(view))
            if readable:
                found = self.socket.recv(READ_SIZE)
                if not found:
                    raise EOFError(f"the server closed: {self.tail[-200:]!r}")
                self.received += len(found)
                self.tail = (self.tail + found)[-4096:]
            if writable:
                with contextlib.suppress(BlockingIOError):
                    view = view[self.socket.send(view[:READ_SIZE]) :]
        self.socket.settimeout(WAIT_SECONDS)
        self.tail = b""

    def close(self) -> None:
        """End the output, and go."""
        with contextlib.suppress(OSError):
            self.socket.sendall(END_OF_STREAM)
        self.socket.close()
