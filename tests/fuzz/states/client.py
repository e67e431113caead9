"""A peer that fuzzes: its socket, and the frames of both sides."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Container
from typing import Any

from support.network import reset

from quiver_fast.conform.wire.codec import CodecError
from quiver_fast.conform.wire.frames import Frame, decode_frame
from tests.fuzz.states.choices import Peer
from tests.fuzz.states.serving import ANSWER_SECONDS, SECONDS, Serving
from tests.fuzz.states.state import Wrong


class Client:
    """A fuzzing peer: its socket, and both sides' frames."""

    def __init__(self, serving: Serving, peer: Peer, *, deaf: bool) -> None:
        # Of all peers, in order: the peer's number, > for our frames, < for the server's.
        self.trace: list[str] = []
        # Findings that are known.
        self.ignored: Container[str] = ()
        self.peer, self.known = peer, peer.known
        self.serving = serving
        self.deaf = deaf
        self.waiting = b""
        self.input = b""
        self.gone = False
        self.speaks_sasl = False
        self.tls = serving.setup.tls and not peer.dialed
        if peer.dialed:
            assert serving.listener is not None
            self.socket = serving.listener.accept()[0]
        else:
            self.socket = socket.create_connection(("127.0.0.1", serving.port), SECONDS)
            if deaf:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                self.known.honest = False
            self.socket = serving.wrapped(self.socket)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(SECONDS)

    def note(self, line: str) -> None:
        self.trace.append(f"  {self.peer.number} {line}")

    def say(self, data: bytes) -> None:
        """Note what will be written with the next `flush`."""
        self.waiting += data
        while data:
            if data[:4] == b"AMQP" and len(data) >= 8:
                self.note(f"> header {data[4]}")
                data = data[8:]
                continue
            size = struct.unpack(">I", data[:4])[0] if len(data) >= 8 else 0
            try:
                frame = decode_frame(data[:size])
            except (CodecError, struct.error, KeyError, UnicodeError):
                self.known.honest = False
                self.note(f"> {data[:60].hex()}")
                return
            self.note(f"> {shown(frame)}")
            if frame.kind == 0:
                with contextlib.suppress(KeyError, TypeError, AttributeError):
                    self.known.sent(frame, size)
            data = data[size:]

    def flush(self, *, cut: bool = False) -> None:
        """Write it, in two parts if it is cut."""
        data, self.waiting = self.waiting, b""
        middle = len(data) // 2 if cut else 0
        for piece in (data[:middle], data[middle:]):
            if cut and piece:
                self.serving.turn()
            self.write(piece)
        if data:
            self.note("> ----")

    def write(self, data: bytes) -> None:
        until = time.monotonic() + ANSWER_SECONDS
        self.socket.setblocking(False)
        while data and not self.gone:
            try:
                data = data[self.socket.send(data) :]
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                # The server does not read until we do.
                if self.deaf or time.monotonic() > until:
                    self.leave("reset")
                    return
                self.serving.turn()
                self.read()
            except OSError:
                self.gone = True

    def read(self) -> None:
        """Read and judge what is there."""
        if self.gone or self.deaf:
            return
        self.socket.setblocking(False)
        while True:
            try:
                data = self.socket.recv(1 << 18)
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            except OSError:
                data = b""
            if not data:
                self.gone = True
                break
            self.input += data
        self.judge()
        if self.gone:
            self.note("< end")
            self.known.over()

    def judge(self) -> None:
        data = self.input
        while len(data) >= 8:
            if data[:4] == b"AMQP":
                self.note(f"< header {data[4]}")
                self.speaks_sasl |= data[4] == 3
                data = data[8:]
                continue
            size = struct.unpack(">I", data[:4])[0]
            if len(data) < size:
                break
            frame = decode_frame(data[:size])
            self.note(f"< {shown(frame)}")
            data = data[size:]
            if frame.kind == 0:
                self.take(frame, size)
        self.input = data

    def take(self, frame: Frame, size: int) -> None:
        """Judge a frame, but for what is known already, so that it hides nothing else."""
        try:
            self.known.came(frame, size)
        except Wrong as wrong:
            self.known.honest = False
            if str(wrong) not in self.ignored:
                raise

    def leave(self, how: str) -> None:
        """End the connection, one way or another."""
        if not self.gone:
            self.note(f"> {how}")
            with contextlib.suppress(OSError):
                if how == "half":
                    self.socket.shutdown(socket.SHUT_WR)
                elif how == "reset":
                    reset(self.socket)
                else:
                    self.socket.close()
        self.gone = True
        self.known.over()


def shown(frame: Frame) -> str:
    """Return a frame on a line."""
    fields = " ".join(f"{key}={value_text(value)}" for key, value in frame.fields.items())
    payload = f" +{len(frame.payload)}" if frame.payload else ""
    return f"{frame.name}({frame.channel}) {fields}{payload}"


def value_text(value: Any) -> str:
    if hasattr(value, "fields") and hasattr(value, "name"):
        inner = ", ".join(f"{key}={value_text(each)}" for key, each in value.fields.items())
        return f"{value.name}[{inner}]"
    text = str(value)
    return text if len(text) < 60 else f"{text[:40]}... of {len(text)}"
