"""Memory of the server for one stream that nobody reads, with any window of its sender."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery, Receiver, Sender
from support.engine_client import EngineClient
from support.measured import Figure
from support.processes import wait_until
from support.server import Server
from support.streams import PIECE, head, received, rss

Start = Callable[..., Server]
PIECES = 768
STREAMS = 3
# File 004 allows a stream 256 KiB; here the memory of the connections is counted as well.
MOST = 768 << 10
SMALL = head(5) + b"small"
SENDERS = pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
BEFORE = pytest.mark.parametrize("small", [False, True], ids=["first", "after-small"])


def piece(number: int) -> bytes:
    return struct.pack(">Q", number) * (PIECE // 8)


class Stream:
    """A message of numbered pieces, on its way from one client to another."""

    def __init__(
        self,
        server: Server,
        stack: contextlib.ExitStack,
        address: str,
        streaming: bool,
        small: bool,
    ) -> None:
        self.producer = stack.enter_context(EngineClient(server.port))
        self.consumer = stack.enter_context(EngineClient(server.port))
        self.receiver: Receiver = self.consumer.receiver(address)
        self.sender: Sender = self.producer.sender(address, streaming=streaming)
        if small:
            self.producer.send(self.sender, SMALL)
            assert received(self.consumer, self.receiver, len(SMALL), self.producer) == SMALL
            self.producer.until(lambda: self.sender.credit > 0)
        self.begin()

    def begin(self) -> None:
        self.number = 0
        self.delivery: Delivery = self.producer.start(self.sender, head(PIECES * PIECE))

    def feed(self) -> None:
        while self.number < PIECES and self.sender.session.outgoing_bytes < 2 * PIECE:
            self.sender.stream(piece(self.number))
            self.number += 1
            if self.number == PIECES:
                self.sender.advance()
            self.producer.pump(0)

    def stall(self) -> None:
        """Send until nothing moves: nobody reads.

        A server that only had no time has had it in each of the rounds: it has answered.
        """
        before, quiet = -1, 0
        while quiet < 10:
            quiet = quiet + 1 if before == self.number else 0
            before = self.number
            self.feed()
            self.producer.sync()
            self.producer.pump(0.01)
        assert self.number < PIECES

    def take(self, before: bytes = b"") -> bytes:
        """Read it to its end while the rest is sent.

        Args:
            before: what was read before.
        """
        data = bytearray(before)

        def ended() -> bool:
            self.feed()
            self.producer.pump(0)
            while self.receiver.current is not None and (part := self.receiver.recv(PIECE)):
                data.extend(part)
            return len(data) >= len(head(0)) + PIECES * PIECE and not self.receiver.current.partial

        self.consumer.until(ended)
        self.consumer.accept(self.receiver)
        self.producer.until(lambda: self.delivery.settled)
        return bytes(data[len(head(0)) :])


@SENDERS
@BEFORE
def test_it_comes_as_it_was_sent(start: Start, streaming: bool, small: bool) -> None:
    """From memory and from its file, in its order, and the next one after it."""
    server = start()
    with contextlib.ExitStack() as stack:
        stream = Stream(server, stack, "q", streaming, small)
        for _ in range(2):
            stream.stall()
            is_whole(stream.take())
            assert stream.delivery.remote_state == Delivery.ACCEPTED
            stream.begin()


def is_whole(data: bytes) -> None:
    for number in range(PIECES):
        assert data[number * PIECE : (number + 1) * PIECE] == piece(number), number


@pytest.mark.measured
@SENDERS
@BEFORE
def test_it_holds_little(start: Start, streaming: bool, small: bool, figure: Figure) -> None:
    server = start()
    with contextlib.ExitStack() as stack:
        # The first makes the objects that the server keeps for all.
        Stream(server, stack, "first", streaming, small).stall()
        streams = [
            Stream(server, stack, f"q{number}", streaming, small) for number in range(STREAMS)
        ]
        before = rss(server)
        for stream in streams:
            stream.stall()
        held = (rss(server) - before) / STREAMS
        figure("bytes held by a stream", held, at_most=MOST, unit="B")


def nameless(server: Server) -> list[Path]:
    """Return the files without a name that the server has, beside its standard output."""
    folder = Path(f"/proc/{server.process.pid}/fd")
    return [
        each
        for each in folder.iterdir()
        if int(each.name) > 2 and target(each).endswith(" (deleted)")
    ]


def files(server: Server) -> int:
    return len(nameless(server))


def on_disk(server: Server) -> int:
    """Return the size of these files together."""
    return sum(each.stat().st_size for each in nameless(server))


def test_files_of_all_streams_are_bounded(start: Start) -> None:
    """The first ones take `memory-limit`. The others wait with less, and come as they were sent."""
    server = start(memory_limit=8 << 20)
    with contextlib.ExitStack() as stack:
        streams = [Stream(server, stack, f"q{number}", False, False) for number in range(3)]
        for stream in streams:
            stream.stall()
        assert 7 << 20 < on_disk(server) <= 8 << 20
        for stream in streams:
            is_whole(stream.take())
        assert on_disk(server) == 0
        streams[0].begin()
        streams[0].stall()
        assert 3 << 20 < on_disk(server) <= 4 << 20


def test_a_reader_that_is_always_behind(start: Start) -> None:
    """The file does not grow beyond the window of a session, of 512 frames."""
    server = start()
    with contextlib.ExitStack() as stack:
        stream = Stream(server, stack, "q", False, True)
        stream.stall()
        data = stream.consumer.read(stream.receiver, 8 << 20)
        stream.stall()
        assert 24 << 20 < on_disk(server) <= 32 << 20
        is_whole(stream.take(data))


def target(descriptor: Path) -> str:
    """Return the target of a descriptor; nothing if it was closed meanwhile."""
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize("way", ["detach", "cut", "settle"])
def test_its_end_leaves_nothing(start: Start, way: str) -> None:
    """Its file is closed, and the window of its session is as wide as before."""
    server = start()
    with contextlib.ExitStack() as stack:
        stream = Stream(server, stack, "q", False, True)
        stream.stall()
        stalled_at = stream.number
        assert files(server) == 1
        if way == "detach":
            stream.sender.detach()
        elif way == "cut":
            stream.producer.socket.close()
            wait_until(lambda: files(server) == 0, "its file is closed")
            return
        else:
            stream.consumer.read(stream.receiver, 1000)
            stream.receiver.current.update(Delivery.REJECTED)
            stream.receiver.current.settle()
            stream.consumer.sync()
            stream.producer.until(lambda: stream.delivery.remote_state == Delivery.REJECTED)
            stream.producer.until(lambda: stream.feed() or stream.delivery.settled)
            stream.begin()
            stream.stall()
            assert abs(stream.number - stalled_at) < stalled_at // 2
            stream.sender.detach()
        stream.producer.until(lambda: files(server) == 0)
