"""A relay in front of a server that swallows one message and forges its acceptance.

The server reads an aborted transfer in its place (part 2.6.14), so that the numbers of all later
deliveries stay right; the sender reads that its message was accepted.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from quiver_fast.conform.wire.frames import composite, decode_frame, encode_frame

# Of a transfer without extended header: data offset, type; the channel; descriptor (part 2.7.5).
_FRAME, _TRANSFER = b"\x02\x00", b"\x00\x53\x14"
_CHUNK = 1 << 18


class ForgingRelay:
    """Passes all frames but one transfer of a client on.

    Args:
        port: the server's port on this machine.
        number: which transfer of all clients is swallowed, from 1; each message is one transfer.
    """

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self._left = number
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.forged = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> ForgingRelay:
        _start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            self._open += client, server
            back = threading.Lock()
            _start(lambda client=client, server=server, back=back: self._pass(server, client, back))
            _start(lambda client=client, server=server, back=back: self._look(client, server, back))

    def _pass(self, server: socket.socket, client: socket.socket, back: threading.Lock) -> None:
        """Pass whole frames of the server on, so that a forged one fits between two of them."""
        rest = bytearray()
        while data := server.recv(_CHUNK):
            rest += data
            end = _end_of_frames(rest)
            with back:
                client.sendall(rest[:end])
            del rest[:end]
        client.shutdown(socket.SHUT_WR)

    def _look(self, client: socket.socket, server: socket.socket, back: threading.Lock) -> None:
        """Pass the client's frames on, and swallow one of them."""
        rest = bytearray()
        while data := client.recv(_CHUNK):
            rest += data
            end = _end_of_frames(rest)
            server.sendall(self._forged(bytes(rest[:end]), client, back))
            del rest[:end]
        server.shutdown(socket.SHUT_WR)

    def _forged(self, frames: bytes, client: socket.socket, back: threading.Lock) -> bytes:
        """Return the frames with an aborted transfer in place of the one that is swallowed."""
        with self._lock:
            place = self._place(frames)
        if place is None:
            return frames
        size = int.from_bytes(frames[place : place + 4], "big")
        found = decode_frame(frames[place : place + size])
        known = {name: found.fields[name] for name in ("handle", "delivery_id", "delivery_tag")}
        first = known["delivery_id"]
        with back:
            client.sendall(
                encode_frame("disposition", channel=found.channel, role=True, first=first,
                             last=first, settled=True, state=composite("accepted"))
            )  # fmt: skip
        self.forged += 1
        aborted = encode_frame("transfer", channel=found.channel, aborted=True, **known)
        return frames[:place] + aborted + frames[place + size :]

    def _place(self, frames: bytes) -> int | None:
        """Return the place of the transfer to swallow among whole frames; count the others."""
        place = 0
        while place < len(frames):
            head = frames[place : place + 11]
            if head[4:6] == _FRAME and head[8:] == _TRANSFER:
                self._left -= 1
                if self._left == 0:
                    return place
            place += _size(head)
        return None


def _size(head: bytes | bytearray) -> int:
    """Return the size of a frame, or of a protocol header (part 2.2)."""
    return 8 if head[:4] == b"AMQP" else int.from_bytes(head[:4], "big")


def _end_of_frames(data: bytearray) -> int:
    """Return where the last whole frame ends."""
    place = 0
    while place + 8 <= len(data):
        size = _size(data[place : place + 8])
        if place + size > len(data):
            break
        place += size
    return place


def _start(run: Callable[[], None]) -> None:
    def quietly() -> None:
        with contextlib.suppress(OSError):
            run()

    threading.Thread(target=quietly, daemon=True).start()
