"""What tests of streams share: beginnings of messages, and looks at a server."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator

from proton import Receiver, Sender

from support.engine_client import TIMEOUT, EngineClient
from support.network import reset
from support.server import Server

HEAD = b"\x00\x53\x75\xb0"
BLOCK = b"x" * 65536
# How a client may go.
WAYS = ["detach", "end", "close", "fin", "reset"]


def head(size: int) -> bytes:
    """Return the beginning of a message of one data section with ``size`` bytes."""
    return HEAD + struct.pack(">I", size)


def rss(server: Server) -> int:
    """Return the bytes of memory that a server has."""
    size: int = server.process.memory_info().rss
    return size


def cpu_seconds(server: Server) -> float:
    """Return the time that a server has spent, in user and kernel mode."""
    return sum(server.process.cpu_times()[:2])


@contextlib.contextmanager
def pair(server: Server, *, streaming_links: bool) -> Iterator[tuple[EngineClient, EngineClient]]:
    """Connect a producer and a consumer."""
    with (
        EngineClient(server.port) as producer,
        EngineClient(server.port, streaming_links=streaming_links) as consumer,
    ):
        yield producer, consumer


def received(consumer: EngineClient, receiver: Receiver, size: int, *others: EngineClient) -> bytes:
    """Read a message to its end, of which ``size`` bytes are left, and accept it.

    Args:
        consumer: whose receiver it is.
        receiver: the link it comes by.
        size: bytes to read.
        others: clients that have something to say meanwhile, such as the rest of it.
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
    """Have a client go in one of the ways there are."""
    if way == "detach":
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


def stall(producer: EngineClient, sender: Sender) -> int:
    """Send more of the current message until nothing moves; return how many bytes."""
    given = quiet = 0
    while quiet < 10:
        quiet += 1
        while sender.session.outgoing_bytes < len(BLOCK):
            given += sender.stream(BLOCK)
            quiet = 0
            producer.pump(0)
        producer.pump(0.01)
    return given


def finish(producer: EngineClient, sender: Sender, size: int) -> None:
    """Send the last ``size`` bytes of the current message."""
    while size:
        producer.until(lambda: sender.session.outgoing_bytes < 2 * len(BLOCK))
        size -= sender.stream(BLOCK[:size])
    sender.advance()
    producer.pump(0)
