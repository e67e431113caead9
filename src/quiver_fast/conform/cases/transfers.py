"""Cases of transfers: credit, deliveries, settlement (parts 2.6.7 to 2.7.7)."""

from __future__ import annotations

from quiver_fast.conform.case import MUST, server
from quiver_fast.conform.mutation import changed
from quiver_fast.conform.server import Server


@server("2.7.4/2", MUST, changed("end", error__condition="amqp:internal-error"))
def flow_for_no_link(server: Server) -> None:
    """A flow for a handle without a link ends the session, unattached-handle."""
    peer = server.session()
    windows = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}
    peer.send("flow", handle=9, delivery_count=0, link_credit=1, **windows)
    peer.refused("end", "amqp:session:unattached-handle")
