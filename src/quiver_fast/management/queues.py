"""Queues declared and deleted over AMQP, by the means of each broker."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from quiver_fast import sockets
from quiver_fast.arguments import endpoint
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.run.control import Control
from quiver_fast.errors import QuiverError
from quiver_fast.management.addresses import QUEUES, has_paths, node_address
from quiver_fast.management.links import attach_queue
from quiver_fast.management.queue_kinds import ANY_KIND, QueueKind, differences
from quiver_fast.security.security import Security

if TYPE_CHECKING:
    from quiver_fast.management.artemis import ArtemisQueues
    from quiver_fast.management.rabbitmq import RabbitQueues

_TIMEOUT = 10.0
_FRAME_SIZE = 65536


class QueueManager:
    """One connection to a broker that manages its queues; a context manager that closes it.

    RabbitMQ 4 and Artemis have a management node. Other brokers make a queue when a link
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
        return self._means is not None

    @property
    def _has_paths(self) -> bool:
        return has_paths(self._product, self._version)

    def address(self, path: str) -> str:
        """Return the address for a URL's path at this broker; see :func:`node_address`."""
        return node_address(path, self._product, self._version)

    def declare(self, address: str, kind: QueueKind = ANY_KIND) -> None:
        """Make the queue of an address, unless it is there, and look whether it is of a kind.

        Raises:
            QuiverError: the address is not a queue's, the broker refuses, or the queue is of
                another kind.
        """
        known = self._means.flags if self._means else ()
        unknown = [flag for flag in kind.flags if flag not in known]
        if unknown:
            self._fail(f"{self.broker} has no way to declare a queue with {unknown[0]}")
        if not self._has_paths and not kind.flags:
            attach_queue(self._connection, address, self._timeout)
            return
        found = self._queues.find(address)
        if found is None:
            self._make(address, kind)
        elif wrong := differences(kind, found):
            self._fail(f"'{address}' is there, but {' and '.join(wrong)}")

    def _make(self, address: str, kind: QueueKind) -> None:
        self._queues.make(address, kind)
        if not kind.flags:
            return
        # A broker may ignore arguments that it does not know.
        wrong = differences(kind, self._queues.find(address) or ANY_KIND)
        if wrong:
            self._queues.delete(address)
            self._fail(f"'{address}' cannot be declared so: {' and '.join(wrong)}")

    def is_stream(self, address: str) -> bool:
        """Say whether an address is that of a stream: a receiver begins at its end."""
        if not self._has_paths or not address.startswith(QUEUES):
            return False
        found = self._queues.find(address)
        return found is not None and found.type == "stream"

    def delete(self, address: str) -> None:
        """Delete the queue of an address with its messages; succeed if there is no such queue.

        Only for a broker that :attr:`deletes`.

        Raises:
            QuiverError: the address is not a queue's, or the broker refuses.
        """
        self._queues.delete(address)

    def bind(self, address: str, exchange: str, key: str) -> None:
        """Make a queue, and have it get the messages of an exchange with a routing key.

        Only for a broker that :attr:`binds`.

        Raises:
            QuiverError: the broker refuses.
        """
        from quiver_fast.management.rabbitmq import RabbitQueues

        queues = self._queues
        if isinstance(queues, RabbitQueues):
            queues.make(address, ANY_KIND)
            queues.bind(address, exchange, key)

    @property
    def binds(self) -> bool:
        """Whether the broker has exchanges."""
        return self._has_paths

    @property
    def _means(self) -> type[RabbitQueues | ArtemisQueues] | None:
        """What manages the queues of the broker; None where only links make them."""
        # Few runs need these, and a run must start fast.
        if self._has_paths:
            from quiver_fast.management.rabbitmq import RabbitQueues

            return RabbitQueues
        if self._product == "apache-activemq-artemis":
            from quiver_fast.management.artemis import ArtemisQueues

            return ArtemisQueues
        return None

    @cached_property
    def _queues(self) -> RabbitQueues | ArtemisQueues:
        manages = self._means
        if manages is None:
            self._fail(f"{self.broker} has no way to manage queues over AMQP")
        return manages(self._connection, self._timeout)

    def _fail(self, reason: str) -> NoReturn:
        raise QuiverError(f"{self._connection.peer}: {reason}")
