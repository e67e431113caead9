"""Queues of RabbitMQ 4, by its management node, whose requests have methods and paths of HTTP."""

from __future__ import annotations

import re
from urllib.parse import unquote

from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.errors import MessageError, QuiverError
from quiver_fast.management.addresses import QUEUES
from quiver_fast.management.links import RequestLinks
from quiver_fast.management.messages import Request, Response
from quiver_fast.management.queue_kinds import QueueKind

# RabbitMQ ends the session when any other character of a name is not percent-encoded.
_NAME = re.compile(r"(?:[^%/?#]|%[0-9A-Fa-f]{2})+")
_NOT_FOUND = 404


class RabbitQueues:
    """The queues of RabbitMQ 4 and later, over an open connection.

    Args:
        connection: to the broker.
        timeout: seconds that the broker may take to answer each step.
    """

    flags = ("--queue-type", "--queue-argument", "--durable-queue")
    """The options about a queue's kind that it knows."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._peer = connection.peer
        self._links = RequestLinks(connection, timeout, "/management", paired=True)
        self._reply_to = self._links.attach()

    def find(self, address: str) -> QueueKind | None:
        """Return the kind of a queue that is there; None if there is none."""
        status, response = self._call("GET", address)
        if status == _NOT_FOUND:
            return None
        self._demand(status, response, "look at", address)
        there = response.body
        arguments = tuple(there["arguments"].items())
        return QueueKind(there["type"], arguments, durable=there["durable"])

    def make(self, address: str, kind: QueueKind) -> None:
        """Make a queue."""
        arguments = dict(kind.arguments) | ({"x-queue-type": kind.type} if kind.type else {})
        # Without a word, a queue is durable, as every stream and quorum queue is.
        body = {"arguments": arguments} if arguments else {}
        self._demand(*self._call("PUT", address, body), "declare", address)

    def bind(self, address: str, exchange: str, key: str) -> None:
        """Have a queue get the messages of an exchange with a routing key."""
        name = unquote(address.removeprefix(QUEUES))
        body = {
            "source": exchange, "destination_queue": name, "binding_key": key, "arguments": {},
        }  # fmt: skip
        request = Request(self._reply_to, body, address="/bindings", subject="POST")
        self._demand(*self._ask(request), "bind a queue to", exchange)

    def make_exclusive(self, address: str) -> None:
        """Make a queue that only this connection receives from, and that goes with it."""
        self._demand(*self._call("PUT", address, {"exclusive": True}), "declare", address)

    def delete(self, address: str) -> None:
        """Delete a queue with its messages; succeed if there is none."""
        self._demand(*self._call("DELETE", address), "delete", address)

    def _call(self, method: str, address: str, body: object = None) -> tuple[int, Response]:
        name = address.removeprefix(QUEUES)
        if name == address or not _NAME.fullmatch(name):
            words = f"'{address}' is no queue's address, which is {QUEUES}NAME"
            raise QuiverError(f"{self._peer}: {words}")
        return self._ask(Request(self._reply_to, body, address=address, subject=method))

    def _ask(self, request: Request) -> tuple[int, Response]:
        response = Response.decoded(self._links.call(request.encoded()), self._peer)
        if not response.subject.isdecimal():
            raise MessageError(f"{self._peer}: the response has no status")
        return int(response.subject), response

    def _demand(self, status: int, response: Response, verb: str, address: str) -> None:
        if not 200 <= status < 300:
            reason = response.body if isinstance(response.body, str) else ""
            raise QuiverError(f"{self._peer}: cannot {verb} '{address}': {reason or status}")
