"""A connection that opens without waiting: its socket, then its frames, then its links."""

from __future__ import annotations

import select
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quiver_fast.errors import LinkError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from quiver_fast.arrow.amqp.connection import Connection
    from quiver_fast.arrow.amqp.link import Endpoint


@dataclass(eq=False)
class Opening:
    """A connection that opens.

    Attributes:
        number: of the connection; -1 before its peer has spoken.
        sock: its socket.
        deadline: when its peer must have answered (monotonic seconds).
        connection: over the socket, once that is connected.
        endpoints: its ends, once the peer's open has come; the first ``attached`` are attached.
        writes: output waits for the socket.
    """

    number: int
    sock: socket.socket
    deadline: float
    connection: Connection | None = None
    endpoints: Sequence[Endpoint] = ()
    attached: int = 0
    writes: bool = True

    @property
    def events(self) -> int:
        """The events of the socket to wait for."""
        return select.POLLIN | (select.POLLOUT if self.writes else 0)

    def is_ready(
        self,
        connection: Connection,
        make_endpoints: Callable[[Connection], Sequence[Endpoint]],
        passive: bool = False,
    ) -> bool:
        """Advance open, begin and attach; say whether all links are attached.

        Args:
            connection: that of the opening.
            make_endpoints: returns the ends of the connection, which the peer has opened.
            passive: the peer opens sessions and links.

        Raises:
            PeerError, SecurityError, LinkError: it failed, or the time is over.
        """
        self.writes = connection.serve()
        deadline = int(self.deadline * 1e9)
        if not self.endpoints:
            if not connection.try_open():
                connection.confirm(deadline, "open the connection")
                return False
            self.endpoints = make_endpoints(connection)
            self._check_sessions(connection)
            for endpoint in self.endpoints:
                endpoint.begin_attach(passive=passive)
        before, links = -1, len(self.endpoints)
        while before < self.attached < links:
            before = self.attached
            # Sends our attaches, or our answers to the peer's, and reads those of the peer.
            self.writes = connection.serve()
            while self.attached < links and self.endpoints[self.attached].try_attach(
                passive=passive
            ):
                self.attached += 1
        if self.attached == links:
            connection.serve()
            return True
        for endpoint in self.endpoints[self.attached :]:
            endpoint.check_end()
        what = "attach a link" if passive else "attach all links"
        connection.confirm(deadline, what)
        return False

    def _check_sessions(self, connection: Connection) -> None:
        allowed, links = connection.sessions_allowed(), len(self.endpoints)
        if allowed < links:
            raise LinkError(
                f"{connection.peer}: the peer takes {allowed} sessions of a connection, and "
                f"links={links} need one each"
            )

    def abandon(self) -> None:
        """Give it up."""
        if self.connection is None:
            self.sock.close()
        else:
            self.connection.abandon()
