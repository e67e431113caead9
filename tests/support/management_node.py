"""A peer that has queues by name and a management node, as RabbitMQ 4 has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from proton import Condition, Message, Terminus, symbol

from support.scripted_peer import Event, ScriptedPeer

NODE, QUEUES = "/management", "/queues/"
FOUND, CREATED, NOT_FOUND = "200", "201", "404"


class ManagementNode(ScriptedPeer):
    """A counterpart whose queues must be declared before a link attaches to them.

    Args:
        queues: names of the queues that exist from the start; all are classic.
        status: the answer to each request, instead of doing it.
        version: its version.
        script: as for ScriptedPeer.

    Attributes:
        requests: method and path of each request, in order.
        reply_to: the reply-to of the requests.
        made: the arguments of each queue that was made with some.
    """

    def __init__(
        self,
        queues: Iterable[str] = (),
        status: str | None = None,
        version: str = "4.0.5",
        **script: Any,
    ) -> None:
        super().__init__(**script)
        self.queues = set(queues)
        self.made: dict[str, dict[str, Any]] = {}
        self.status, self.version = status, version
        self.requests: list[tuple[str, str]] = []
        self.reply_to: list[str | None] = []
        self.responses: Any = None

    def on_connection_opening(self, event: Event) -> None:
        event.connection.properties = {
            symbol("product"): "RabbitMQ", symbol("version"): self.version,
        }  # fmt: skip

    def on_link_opening(self, event: Event) -> None:
        link = event.link
        super().on_link_opening(event)
        address = link.remote_source.address if link.is_sender else link.remote_target.address
        if address == NODE:
            if link.is_sender:
                self.responses = link
        elif unquote(str(address).removeprefix(QUEUES)) not in self.queues:
            link.source.type = link.target.type = Terminus.UNSPECIFIED
            link.condition = Condition("amqp:not-found", f"no queue {address}")

    def on_link_opened(self, event: Event) -> None:
        if event.link.condition is not None:
            event.link.close()
        else:
            super().on_link_opened(event)

    def on_sendable(self, event: Event) -> None:
        if event.link.remote_source.address != NODE:
            super().on_sendable(event)

    def on_message(self, event: Event) -> None:
        if event.link.remote_target.address != NODE:
            super().on_message(event)
            return
        request = event.message
        self.requests.append((request.subject, request.address))
        self.reply_to.append(request.reply_to)
        event.delivery.settle()
        status, body = (self.status, "not today") if self.status else self.serve(request)
        self.responses.send(
            Message(subject=status, correlation_id=request.id, body=body, properties={"x": 1})
        )

    def serve(self, request: Any) -> tuple[str, object]:
        """Do a request; return status and body."""
        name = unquote(request.address.removeprefix(QUEUES))
        if request.subject == "PUT":
            assert request.body.keys() <= {"arguments"}
            self.made[name] = request.body.get("arguments", {})
            self.queues.add(name)
            return CREATED, {"name": name}
        assert request.body is None
        known = name in self.queues
        if request.subject == "DELETE":
            self.queues.discard(name)
            return FOUND, {"message_count": 0}
        return (FOUND, self.described(name)) if known else (NOT_FOUND, f"no queue '{name}'")

    def described(self, name: str) -> dict[str, Any]:
        arguments = self.made.get(name, {})
        kind = arguments.get("x-queue-type", "classic")
        return {"name": name, "type": kind, "durable": True, "arguments": arguments}
