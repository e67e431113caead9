"""Queues declared and deleted over AMQP, by the means of each broker."""

from __future__ import annotations

import re
from typing import NoReturn

from quiver_fast import sockets
from quiver_fast.arguments import endpoint
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.run.control import Control
from quiver_fast.errors import QuiverError
from quiver_fast.management.addresses import QUEUES, has_paths, node_address
from quiver_fast.management.links import RequestLinks, Response, attach_queue
from quiver_fast.security.security import Security

_TIMEOUT = 10.0
_FRAME_SIZE = 65536
# RabbitMQ ends the session when any other character of a name is not percent-encoded.
_NAME = re.compile(r"(?:[^%/?#]|%[0-9A-Fa-f]{2})+")
_NOT_FOUND = 404


class QueueManager:
    """One connection to a broker that manages its queues; a context manager that closes it.

    RabbitMQ 4 and later have a management node. Other brokers make a queue when a link
    attaches to it, and delete no queue over AMQP.

    Args:
        host, port: where the broker listens.
        security: TLS and SASL.
        timeout: seconds that the broker may take to answer each step.

    Raises:
        PeerError: the broker cannot be reached, or refuses.
        SecurityError: TLS or SASL failed.
    """

    def __init__(self, host: str, port: int, security: Security, timeout: float = _TIMEOUT) -> None:
        self._timeout = timeout
        self._connection = Connection(
            sockets.connect(host, port, timeout),
            peer=endpoint(host, port),
            container_id="quiver-management",
            hostname=host,
            server=False,
            security=security,
            max_frame_size=_FRAME_SIZE,
            idle_timeout=_TIMEOUT,
            control=Control(),
        )
        try:
            self._connection.open(timeout)
        except QuiverError:
            self._connection.close()
            raise
        peer = self._connection.identity()
        self._product, self._version = peer["product"], peer["version"]
        self._links: RequestLinks | None = None

    def __enter__(self) -> QueueManager:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._connection.close()

    @property
    def broker(self) -> str:
        """The product and version in the broker's open frame."""
        words = [word for word in (self._product, self._version) if word]
        return " ".join(words) or "this broker"

    @property
    def deletes(self) -> bool:
        """Whether the broker can delete a queue."""
        return has_paths(self._product, self._version)

    def address(self, path: str) -> str:
        """Return the address for a URL's path at this broker; see :func:`node_address`."""
        return node_address(path, self._product, self._version)

    def declare(self, address: str) -> None:
        """Make the queue of an address, unless it is there.

        Raises:
            QuiverError: the address is not a queue's, or the broker refuses.
        """
        if not self.deletes:
            attach_queue(self._connection, address, self._timeout)
            return
        path = self._queue_path(address)
        # A PUT fails if the queue has other properties than ours, but any existing queue will do.
        answer = self._call("GET", path)
        if answer.status == _NOT_FOUND:
            answer = self._call("PUT", path, with_map=True)
        self._demand(answer, "declare", address)

    def delete(self, address: str) -> None:
        """Delete the queue of an address with its messages; succeed if there is no such queue.

        Only for a broker that :attr:`deletes`.

        Raises:
            QuiverError: the address is not a queue's, or the broker refuses.
        """
        self._demand(self._call("DELETE", self._queue_path(address)), "delete", address)

    def _call(self, method: str, path: str, *, with_map: bool = False) -> Response:
        if self._links is None:
            self._links = RequestLinks(self._connection, self._timeout)
            self._links.attach()
        return self._links.call(method, path, with_map=with_map)

    def _queue_path(self, address: str) -> str:
        name = address.removeprefix(QUEUES)
        if name == address or not _NAME.fullmatch(name):
            self._fail(f"'{address}' is no queue's address, which is {QUEUES}NAME")
        return address

    def _demand(self, response: Response, verb: str, address: str) -> None:
        if not 200 <= response.status < 300:
            self._fail(f"cannot {verb} '{address}': {response.text or response.status}")

    def _fail(self, reason: str) -> NoReturn:
        raise QuiverError(f"{self._connection.peer}: {reason}")
