"""Queues of Artemis, by the operations of its management address."""

from __future__ import annotations

import json
from typing import Any

from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.errors import QuiverError
from quiver_fast.management.links import RequestLinks
from quiver_fast.management.messages import Request, Response
from quiver_fast.management.queue_kinds import QueueKind
from quiver_fast.property_mix import typed

_NODE = "activemq.management"
_NO_ADDRESS = "AMQ229203"


class ArtemisQueues:
    """The queues of Artemis, over an open connection.

    An address is *anycast* or *multicast*. An anycast one has a queue of its name, a multicast one
    makes a queue for each receiver.

    Args:
        connection: to the broker.
        timeout: seconds that the broker may take to answer each step.
    """

    flags = ("--routing", "--queue-argument", "--durable-queue")
    """The options about a queue's kind that it knows."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._peer = connection.peer
        self._links = RequestLinks(connection, timeout, _NODE, paired=False)
        self._reply_to = self._links.attach()

    def find(self, address: str) -> QueueKind | None:
        """Return the kind of an address that is there; None if there is none."""
        done, routings = self._call(f"address.{address}", {"_AMQ_Attribute": "routingTypes"})
        if not done:
            return None
        wanted = {"field": "name", "operation": "EQUALS", "value": address}
        listed = json.loads(self._ask("listQueues", json.dumps(wanted), 1, 1)[0])["data"]
        there = listed[0] if listed else {}
        return QueueKind(
            routing=" and ".join(sorted(routings[0])).lower(),
            arguments=tuple((_dashed(name), typed(text)) for name, text in there.items()),
            durable=there.get("durable") == "true",
        )

    def make(self, address: str, kind: QueueKind) -> None:
        """Make an address, and the queue of an anycast one."""
        if kind.routing == "multicast":
            self._ask("createAddress", address, "MULTICAST")
            return
        asked: dict[str, object] = {"name": address, "address": address, "routing-type": "ANYCAST"}
        asked |= {"durable": True} if kind.durable else {}
        self._ask("createQueue", json.dumps(asked | dict(kind.arguments)), False)

    def delete(self, address: str) -> None:
        """Delete an address with its queues and their messages; succeed if there is none."""
        self._ask("deleteAddress", address, True, allowed=_NO_ADDRESS)

    def _ask(self, operation: str, *parameters: object, allowed: str | None = None) -> Any:
        named = {"_AMQ_OperationName": operation}
        done, answer = self._call("broker", named, parameters)
        if not done and not (allowed and str(answer[0]).startswith(allowed)):
            raise QuiverError(f"{self._peer}: cannot {operation}: {answer[0]}")
        return answer

    def _call(
        self, resource: str, names: dict[str, str], parameters: tuple[object, ...] = ()
    ) -> tuple[bool, Any]:
        request = Request(
            self._reply_to, json.dumps(parameters), address=_NODE,
            properties={"_AMQ_ResourceName": resource, **names},
        )  # fmt: skip
        response = Response.decoded(self._links.call(request.encoded()), self._peer)
        answer = json.loads(response.body or "[null]")
        return response.properties.get("_AMQ_OperationSucceeded") is True, answer


def _dashed(name: str) -> str:
    """Return a name in a list as declarations have it: words are joined by dashes."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
