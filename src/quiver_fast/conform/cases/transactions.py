"""Cases of transactions (part 4)."""

from __future__ import annotations

from quiver_fast.conform.case import MUST, check, server
from quiver_fast.conform.mutation import dropped
from quiver_fast.conform.server import Server
from quiver_fast.conform.wire.frames import composite


@server("4.2/1", MUST, dropped("disposition"), "coordinator")
def declared(server: Server) -> None:
    """A declare is answered by declared, with an id for each transaction."""
    work = server.controller()
    states = [work.ask(composite("declare")).fields["state"] for _ in range(2)]
    check(all(one.name == "declared" for one in states), "declared", states)
    ids = [one.fields["txn_id"] for one in states]
    check(ids[0] != ids[1], "ids that differ", ids)
