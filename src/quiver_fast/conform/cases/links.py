"""Cases of links: names, attach and detach (parts 2.6, 2.7.3)."""

from __future__ import annotations

from quiver_fast.conform.case import MUST, rows, server
from quiver_fast.conform.mutation import changed
from quiver_fast.conform.server import Server


# Known breaks: rabbitmq-server 2594, go-amqp 310.
@rows(server, MUST, changed("detach", closed=None), "queue", table={
    "2.6.6/1": ("A detach that says closed is answered by one that says closed.", True),
    "2.6.4/1": ("A detach without closed is answered by one without closed.", False,
                changed("detach", closed=True)),
})  # fmt: skip
def detached(server: Server, closed: bool) -> None:
    for attached in (server.sender, server.receiver):
        peer = attached()
        peer.send("detach", handle=0, closed=closed)
        peer.expect("detach", condition=None, closed=closed)
