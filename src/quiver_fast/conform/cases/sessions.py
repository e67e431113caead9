"""Cases of sessions: begin, end, windows (parts 2.5, 2.7.2)."""

from __future__ import annotations

from quiver_fast.conform.case import MUST, server
from quiver_fast.conform.mutation import changed
from quiver_fast.conform.server import Server


@server("2.5.1/1", MUST, changed("begin", remote_channel=1))
def begin_is_answered(server: Server) -> None:
    """A begin is answered by a begin that has its channel as remote-channel."""
    most = server.facts.open.get("channel_max", 65535)
    for channel in sorted({0, min(5, most), most}):
        peer = server.opened()
        peer.send(
            "begin", channel=channel, next_outgoing_id=0, incoming_window=9, outgoing_window=9
        )
        peer.expect("begin", remote_channel=channel)
