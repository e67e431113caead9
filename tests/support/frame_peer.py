"""A peer of an arrow under the control of a test, frame by frame and write by write."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from support.amqp_codec import Value
from support.amqp_frames import (
    AMQP_HEADER,
    SASL_HEADER,
    Frame,
    FrameClient,
    composite,
    encode_frame,
)
from support.network import read_exactly

SECONDS = 30.0


class Talk(FrameClient):
    """The peer's side of one connection, set up as far as the attach."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.settimeout(SECONDS)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = accepted

    def answer_header(self) -> None:
        """Let a client in without credentials, with SASL or without."""
        header = read_exactly(self.socket, 8)
        if header == SASL_HEADER:
            self.send_bytes(SASL_HEADER)
            self.send("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"])
            self.expect("sasl_init")
            self.send("sasl_outcome", code=0)
            header = read_exactly(self.socket, 8)
        assert header == AMQP_HEADER
        self.send_bytes(AMQP_HEADER)

    def answer_session(self, **fields: Value) -> None:
        """Answer open and begin, the former with these fields."""
        self.answer_header()
        self.expect("open")
        self.send("open", container_id="frames", **fields)
        self.expect("begin")
        self.send(
            "begin", remote_channel=0, next_outgoing_id=0, incoming_window=1000,
            outgoing_window=1000,
        )  # fmt: skip

    def answer_attach(self, *, handle: int = 0, **termini: Value) -> Frame:
        """Answer the next attach with these termini; return the arrow's."""
        attach = self.expect("attach")
        fields: dict[str, Any] = {"source": composite("source", address="queue0"), **termini}
        if attach.fields.get("role"):
            fields["initial_delivery_count"] = 0
        self.send(
            "attach", name=attach.fields["name"], handle=handle,
            role=not attach.fields.get("role"), **fields,
        )  # fmt: skip
        return attach

    def read_until(self, name: str) -> None:
        """Read until a frame of this name, or the arrow's end."""
        for _ in range(100_000):
            try:
                if self.read().name == name:
                    return
            except (EOFError, ConnectionError):
                return


class FramePeer:
    """Listens on a port of its own, and speaks to one arrow by a script.

    Args:
        script: Runs on the connection; its failure fails the test.
    """

    def __init__(self, script: Callable[[Talk], None]) -> None:
        self.script = script
        self.error: BaseException | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FramePeer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.join()
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        """Wait for the end of the script."""
        self._thread.join(SECONDS)

    def _run(self) -> None:
        try:
            self._listener.settimeout(SECONDS)
            with Talk(self._listener.accept()[0]) as talk:
                self.script(talk)
        except BaseException as error:
            self.error = error


def failure(name: str) -> Value:
    """Return an error with a condition and description that name its origin."""
    return composite("error", condition=f"test:{name}", description=f"by {name}")


def ended(*names: str) -> bytes:
    """Return the frames that end link, session and connection, each with an error of its own."""
    frames = {
        "detach": lambda: encode_frame("detach", handle=0, closed=True, error=failure("detach")),
        "end": lambda: encode_frame("end", error=failure("end")),
        "close": lambda: encode_frame("close", error=failure("close")),
    }
    return b"".join(frames[name]() for name in names)
