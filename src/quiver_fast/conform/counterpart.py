"""The peer of a client: what it says is written case by case."""

from __future__ import annotations

import socket
from typing import Any

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, Frame, Unexpected, composite

# Programs may take long to start.
_SECONDS = 30.0


class Talk(FrameClient):
    """The peer's side of one connection, set up as far as the attach."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.settimeout(_SECONDS)
        self._take(accepted, None, 0)

    def answer_header(self) -> None:
        """Let a client in without credentials, with SASL or without."""
        header = self.read_header()
        if header == SASL_HEADER:
            self.send_bytes(SASL_HEADER)
            self.send("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"])
            self.expect("sasl_init")
            self.send("sasl_outcome", code=0)
            header = self.read_header()
        if header != AMQP_HEADER:
            raise Unexpected(f"the protocol header {AMQP_HEADER!r}", repr(header))
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
        """Answer the next attach with these termini; return the client's."""
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
        """Read until a frame of this name, or the client's end."""
        for _ in range(100_000):
            try:
                if self.read().name == name:
                    return
            except (EOFError, ConnectionError):
                return
