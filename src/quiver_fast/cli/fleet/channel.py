"""Lines of JSON over a TCP connection between the command and a host."""

from __future__ import annotations

import json
import select
import socket
from typing import Any

_READ_SIZE = 1 << 16
_SEND_SECONDS = 5.0
# A longer line is not ours: a host sends a few hundred bytes for each of its ends.
_MOST_BYTES = 64 << 20


class Channel:
    """One end of a connection. Reading does not wait; a peer that is gone closes it."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connected socket."""
        self._socket = connection
        self._socket.settimeout(_SEND_SECONDS)
        # With a thousand hosts some descriptors are too large for select().
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._text = b""
        self.closed = False
        """Whether the peer is gone."""

    def send(self, **document: Any) -> None:
        """Send a document; a peer that does not read for seconds counts as gone."""
        if self.closed:
            return
        try:
            self._socket.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            self.closed = True

    def received(self) -> list[dict[str, Any]]:
        """Return the documents that have come, without waiting."""
        while not self.closed and self._poll.poll(0):
            try:
                data = self._socket.recv(_READ_SIZE)
            except OSError:
                data = b""
            self._text += data
            self.closed = not data or len(self._text) > _MOST_BYTES
        *lines, self._text = self._text.split(b"\n")
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            self.closed = True
            return []
        return [document for document in found if isinstance(document, dict)]

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._socket.close()
