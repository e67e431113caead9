"""A client that sends any frames, well-formed or not, and reads those of its peer."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
from types import TracebackType
from typing import Any

from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    PASSING,
    SASL_HEADER,
    Frame,
    composite,
    decode_frame,
    encode_frame,
)

_containers = itertools.count()


class Unexpected(AssertionError):  # noqa: N818 (a verdict on the peer)
    """The peer did something else than was due.

    Attributes:
        expected: one line, in named fields.
        found: the same of what the peer did.
    """

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}; found {found}")
        self.expected, self.found = expected, found


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes.

    Raises:
        EOFError: The peer closed first.
    """
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


class FrameClient:
    """One TCP connection to a server, spoken to frame by frame.

    Args:
        port: The server's port.
        host: The server's address.
        timeout: The most seconds of a read or write.
        source: The client's own address; empty for the system's choice.
    """

    def __init__(
        self, port: int, host: str = "127.0.0.1", timeout: float = 5.0, source: str = ""
    ) -> None:
        own = (source, 0) if source else None
        self.socket = socket.create_connection((host, port), timeout, own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> FrameClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Write any bytes; a server that has closed already gets none."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def send(self, name: str, /, **fields: Any) -> None:
        """Write one frame; see `encode_frame`."""
        self.send_bytes(encode_frame(name, **fields))

    def read_header(self) -> bytes:
        """Read a protocol header."""
        return read_exactly(self.socket, 8)

    def read(self) -> Frame:
        """Read one frame.

        Raises:
            EOFError: The server closed the connection.
        """
        size = read_exactly(self.socket, 4)
        return decode_frame(size + read_exactly(self.socket, struct.unpack(">I", size)[0] - 4))

    def expect(self, name: str) -> Frame:
        """Read until a performative of this name; only flows may come before it."""
        while True:
            found = self.read()
            if found.name == name:
                return found
            if found.name not in PASSING:
                raise Unexpected(name, str(found))

    def until(self, name: str) -> Frame:
        """Read until a frame of this name, whatever comes before it."""
        while (found := self.read()).name != name:
            pass
        return found

    def read_to_end(self) -> list[Frame]:
        """Read all frames until the server has closed the connection.

        Raises:
            TimeoutError: It does not.
        """
        frames = []
        # If the server closes with unread input, its kernel sends RST.
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                frames.append(self.read())
        return frames

    def exchange_header(self, header: bytes = AMQP_HEADER) -> None:
        """Send a protocol header and check that the server answers with the same."""
        self.send_bytes(header)
        if (found := self.read_header()) != header:
            raise Unexpected(f"the protocol header {header!r}", repr(found))

    def authenticate(self, mechanism: str, response: bytes = b"") -> Frame:
        """Speak SASL to its end with one response; return the outcome."""
        self.exchange_header(SASL_HEADER)
        self.expect("sasl_mechanisms")
        self.send("sasl_init", mechanism=mechanism, initial_response=response)
        return self.expect("sasl_outcome")

    def open(self, **fields: Any) -> Frame:
        """Exchange AMQP headers and open frames; return the server's.

        Each client is a container of its own: two of one container share the names of links.
        """
        self.exchange_header()
        self.send("open", **{"container_id": f"frames-{next(_containers)}", **fields})
        return self.expect("open")

    def begin(self, channel: int = 0, **fields: Any) -> Frame:
        """Begin a session; return the server's begin."""
        windows = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000}
        self.send("begin", channel=channel, **{**windows, **fields})
        return self.expect("begin")

    def attach_sender(self, address: str, *, handle: int = 0, **fields: Any) -> Frame:
        """Attach a link that we send on; return the server's attach."""
        ours = {"name": f"to-{handle}", "role": False, "initial_delivery_count": 0}
        termini = {"source": composite("source"), "target": composite("target", address=address)}
        self.send("attach", handle=handle, **{**ours, **termini, **fields})
        return self.expect("attach")

    def attach_receiver(self, address: str, *, handle: int = 0, **fields: Any) -> Frame:
        """Attach a link that we receive on; return the server's attach."""
        ours = {"name": f"from-{handle}", "role": True}
        termini = {"source": composite("source", address=address), "target": composite("target")}
        self.send("attach", handle=handle, **{**ours, **termini, **fields})
        return self.expect("attach")

    def wait_for_credit(self) -> int:
        """Read until the server gives credit on a link; return how much."""
        while True:
            credit = self.expect("flow").fields.get("link_credit", 0)
            if credit:
                return int(credit)

    def give_credit(self, credit: int, *, handle: int = 0, **fields: Any) -> None:
        """Give the server credit on a receiving link that has had no delivery yet."""
        session = {"incoming_window": 1000, "next_outgoing_id": 0, "outgoing_window": 1000}
        link = {"handle": handle, "delivery_count": 0, "link_credit": credit}
        self.send("flow", **{"next_incoming_id": 0, **session, **link, **fields})

    def transfer(self, number: int, payload: bytes, *, handle: int = 0, **fields: Any) -> None:
        """Send one transfer of the session's delivery ``number``."""
        ours = {"delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0}
        self.send("transfer", handle=handle, payload=payload, **{**ours, **fields})
