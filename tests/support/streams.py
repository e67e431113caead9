"""Helpers of the tests of streams: beginnings of messages, and figures of a server."""

from __future__ import annotations

import contextlib
import struct
import time
import zlib
from collections.abc import Callable, Iterator

import pytest
from proton import Endpoint, Link, Receiver, Sender

from support.departures import wait_until_gone
from support.engine_client import TIMEOUT, EngineClient
from support.network import reset
from support.server import Server

HEAD = b"\x00\x53\x75\xb0"
PIECE = 65536
BLOCK = b"x" * PIECE
# Ends of a client (SIGKILL: test_streaming_more); `abort` ends only a sender's delivery.
WAYS = ["detach", "end", "close", "fin", "reset"]

# A test of behaviour, and the same test with figures: see `judged`.
BOTH = pytest.mark.parametrize(
    "measures",
    [False, pytest.param(True, marks=pytest.mark.measured)],
    ids=["behaviour", "measured"],
)


def judged(request: pytest.FixtureRequest, measures: bool) -> Callable[..., None]:
    """Return the fixture `figure`, or a function that ignores figures."""
    return request.getfixturevalue("figure") if measures else unjudged


def unjudged(*_: object, **__: object) -> None:
    """Ignore a figure."""


def head(size: int) -> bytes:
    """Return the beginning of a message of one data section with ``size`` bytes."""
    return HEAD + struct.pack(">I", size)


def route(address: str, flags: int = 1) -> bytes:
    """Return the section by which one server tells another where a stream goes."""
    to = address.encode()
    entries = b"\xa3\x12x-opt-quiver-flags\x52" + bytes([flags])
    entries += b"\xa3\x0fx-opt-quiver-to\xb1" + struct.pack(">I", len(to)) + to
    return b"\x00\x53\x71\xd1" + struct.pack(">II", len(entries) + 4, 4) + entries


def rss(server: Server) -> int:
    """Return the bytes of memory that a server has."""
    size: int = server.process.memory_info().rss
    return size


def cpu_seconds(server: Server) -> float:
    """Return the time that a server has spent, in user and kernel mode."""
    return sum(server.process.cpu_times()[:2])


@contextlib.contextmanager
def pair(
    server: Server, *, streaming_links: bool, max_frame: int | None = None
) -> Iterator[tuple[EngineClient, EngineClient]]:
    """Connect a producer and a consumer, which may take frames of so many bytes only."""
    with (
        EngineClient(server.port) as producer,
        EngineClient(server.port, streaming_links=streaming_links, max_frame=max_frame) as consumer,
    ):
        yield producer, consumer


def received(consumer: EngineClient, receiver: Receiver, size: int, *others: EngineClient) -> bytes:
    """Read a message to its end, of which ``size`` bytes are left, and accept it.

    Args:
        consumer: whose receiver it is.
        receiver: the link it comes by.
        size: bytes to read.
        others: clients that send meanwhile, such as the rest of it.
    """
    data = bytearray()

    def ended() -> bool:
        for other in others:
            other.pump(0)
        while receiver.current is not None and (part := receiver.recv(65536)):
            data.extend(part)
        return len(data) >= size and not receiver.current.partial

    consumer.until(ended)
    consumer.accept(receiver)
    return bytes(data)


def together(condition: Callable[[], bool], *clients: EngineClient) -> None:
    """Pump several clients until a condition holds."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        for client in clients:
            client.pump(0.0005)
        if condition():
            return
        assert time.monotonic() < deadline, "what was waited for did not happen"


def leave(client: EngineClient, link: Receiver | Sender, way: str) -> None:
    """End a client in one of these ways."""
    if way == "abort":
        link.current.abort()
    elif way == "detach":
        link.detach()
    elif way == "end":
        link.session.close()
    elif way == "close":
        client.connection.close()
    client.pump(0)
    if way == "reset":
        reset(client.socket)
    elif way == "fin":
        client.socket.close()


def leave_and_be_missed(
    server: Server, client: EngineClient, link: Receiver | Sender, way: str
) -> None:
    """End a client in one of these ways; return when the server knows."""
    port = client.socket.getsockname()[1]
    leave(client, link, way)
    if way in ("detach", "end"):
        client.sync()
    elif way == "close":
        client.until(lambda: bool(client.connection.state & Endpoint.REMOTE_CLOSED))
    else:
        wait_until_gone(server, port)


def send_all(producer: EngineClient, sender: Sender, data: bytes, turn: Callable[[], None]) -> None:
    """Send the rest of a message; ``turn`` is called while there is no room."""
    send_part(producer, sender, data, turn)
    sender.advance()
    producer.pump(0)


def send_part(
    producer: EngineClient, sender: Sender, data: bytes, turn: Callable[[], None]
) -> None:
    """Send more of a message; ``turn`` is called while there is no room."""
    for begin in range(0, len(data), PIECE):
        while sender.session.outgoing_bytes >= 2 * PIECE:
            producer.pump(0.001)
            turn()
        sender.stream(data[begin : begin + PIECE])
        producer.pump(0)


class Arriving:
    """Receives one delivery without keeping its bytes.

    Attributes:
        crc: CRC-32 of its bytes.
        count: how many they are.
    """

    def __init__(self, consumer: EngineClient, link: Receiver) -> None:
        self.consumer, self.link = consumer, link
        self.crc = 0
        self.count = 0

    def take(self) -> None:
        """Read the available bytes."""
        self.consumer.pump(0)
        while self.link.current is not None and (part := self.link.recv(1 << 20)):
            self.crc = zlib.crc32(part, self.crc)
            self.count += len(part)

    def wait(self, size: int, *others: EngineClient) -> None:
        """Read on until ``size`` bytes have come and the delivery is complete."""

        def ended() -> bool:
            for other in others:
                other.pump(0)
            self.take()
            return self.count >= size and not self.link.current.partial

        self.consumer.until(ended)


def passes(
    producer: EngineClient,
    sender: Sender,
    message: bytes,
    consumer: EngineClient,
    link: Receiver,
    begun: int = 0,
) -> None:
    """Send the rest of a message after ``begun`` bytes, and check that it arrives unchanged."""
    arriving = Arriving(consumer, link)
    send_all(producer, sender, message[begun:], arriving.take)
    arriving.wait(len(message), producer)
    assert (arriving.count, arriving.crc) == (len(message), zlib.crc32(message))


def stall(producer: EngineClient, sender: Sender) -> int:
    """Send more of the current message until nothing moves; return how many bytes.

    A server that only had no time has had it in each of the rounds: it has answered.
    """
    given = quiet = 0
    while quiet < 10:
        quiet += 1
        while sender.session.outgoing_bytes < PIECE:
            given += sender.stream(BLOCK)
            quiet = 0
            producer.pump(0)
        producer.sync()
        producer.pump(0.01)
    return given


def finish(producer: EngineClient, sender: Sender, size: int) -> None:
    """Send the last ``size`` bytes of the current message."""
    while size:
        producer.until(lambda: sender.session.outgoing_bytes < 2 * PIECE)
        size -= sender.stream(BLOCK[:size])
    sender.advance()
    producer.pump(0)


def many_begun(
    producer: EngineClient, consumer: EngineClient, address: str, streaming_links: bool
) -> tuple[list[Sender], list[Receiver], list[bytes]]:
    """Begin 64 streams and send 999 bytes of each three times, in turn.

    Returns:
        the senders, whose bytes are their number; the links that their streams came by, in the
        order of their coming; the first 9 bytes that came by each.
    """
    bases = [consumer.receiver(address, 1) for _ in range(1 if streaming_links else 64)]
    senders = [producer.sender(address, streaming=True) for _ in range(64)]
    for number, sender in enumerate(senders):
        producer.start(sender, head(3000) + bytes([number]))
    links = [consumer.take() for _ in range(64)] if streaming_links else bases
    starts = [consumer.read(link, 9) for link in links]
    for _ in range(3):
        for number, sender in enumerate(senders):
            sender.stream(bytes([number]) * 999)
        producer.pump(0)
    return senders, links, starts


def wave(
    producer: EngineClient, consumer: EngineClient, senders: list[Sender], links: list[Link]
) -> list[Link]:
    """Run a stream on each sender at once, to its end; return the links they came by."""
    deliveries = [producer.start(sender, head(2) + b"x") for sender in senders]
    producer.until(lambda: all(sender.session.outgoing_bytes == 0 for sender in senders))
    links = [*links]
    while len(links) < len(senders):
        links.append(consumer.take())
    for link in links:
        consumer.until(lambda link=link: link.current is not None)
    for sender in senders:
        sender.stream(b"y")
        sender.advance()
    producer.until(lambda: all(sender.session.outgoing_bytes == 0 for sender in senders))
    for link in links:
        received(consumer, link, 10)
    producer.until(lambda: all(delivery.settled for delivery in deliveries))
    assert consumer.attached == []
    return links
