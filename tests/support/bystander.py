"""A connection that must never notice the operations of others on its server."""

from __future__ import annotations

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite, message


class Bystander:
    """A well-behaved client with a queue of its own.

    Args:
        port: The server's port.
        plain: The response of SASL PLAIN; None for no SASL.
    """

    def __init__(self, port: int, plain: bytes | None = None) -> None:
        self.client = FrameClient(port)
        if plain is not None:
            assert self.client.authenticate("PLAIN", plain).fields["code"] == 0
        self.client.open(container_id="bystander")
        self.client.begin()
        self.client.attach_sender("bystander", handle=0)
        self.client.wait_for_credit()
        self.client.attach_receiver("bystander", handle=1)
        self.sent = 0

    def check(self) -> None:
        """Send a message through the server and accept it."""
        client, number = self.client, self.sent
        client.give_credit(1, handle=1, delivery_count=number, next_incoming_id=number)
        client.transfer(number, message(b"still there"))
        self.sent += 1
        seen = {}
        while seen.keys() != {"transfer", "disposition"}:
            found = client.read()
            assert found.name in ("transfer", "disposition", "flow", "empty"), found
            if found.name in ("transfer", "disposition"):
                seen[found.name] = found
        assert seen["transfer"].payload.endswith(b"still there")
        delivery = seen["transfer"].fields["delivery_id"]
        accepted = composite("accepted")
        client.send("disposition", role=True, first=delivery, settled=True, state=accepted)
