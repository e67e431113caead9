"""Clients on python-qpid-proton, driven by the test's own thread.

All connections of one `Clients` are in one container, so that a test can wait for
events of several connections.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from proton import Delivery, Endpoint, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

WAIT_SECONDS = 30.0
# So long a silence convinces a test that nothing more happens.
QUIET_SECONDS = 0.15
POLL_SECONDS = 0.005
FILL_ROUNDS = 100


class Received:
    """A message and its delivery, until its outcome."""

    def __init__(self, delivery: Any, message: Any) -> None:
        self.delivery, self.message = delivery, message

    @property
    def body(self) -> Any:
        return self.message.body

    def settle(self, state: int | None = None) -> None:
        if state is not None:
            self.delivery.update(state)
        self.delivery.settle()

    def accept(self) -> None:
        self.settle(Delivery.ACCEPTED)

    def reject(self) -> None:
        self.settle(Delivery.REJECTED)

    def release(self) -> None:
        self.settle(Delivery.RELEASED)

    def modify(self, *, failed: bool = False, undeliverable: bool = False) -> None:
        self.delivery.local.failed = failed
        self.delivery.local.undeliverable = undeliverable
        self.settle(Delivery.MODIFIED)


class End:
    """The common part of links."""

    def __init__(self, clients: Clients, link: Any) -> None:
        self.clients, self.link = clients, link

    @property
    def is_closed(self) -> bool:
        """Whether the server closed or detached the link."""
        return bool(self.link.state & Endpoint.REMOTE_CLOSED)

    def condition(self) -> str:
        """Wait until the server closes the link, and return the reason."""
        self.clients.wait(lambda: self.is_closed, f"{self.link.name} is closed")
        return self.clients.conditions.get(self.link.name, "")

    def close(self) -> None:
        """Close the link and wait for the answer."""
        self.link.close()
        self.clients.wait(lambda: self.is_closed, f"{self.link.name} is closed")


class Producer(End):
    """A sending link."""

    def send(self, body: object, *, settled: bool = False, **fields: object) -> Any:
        """Send one message as soon as there is credit; return its delivery."""
        message = Message(body=body, **fields)  # type: ignore[arg-type]
        return self.send_encoded(message.encode(), settled=settled)

    def send_encoded(self, encoded: bytes, *, settled: bool = False) -> Any:
        """Send the bytes of one message."""
        self.clients.wait(lambda: self.link.credit > 0, f"{self.link.name} has credit")
        delivery = self.link.delivery(self.link.delivery_tag())
        self.link.stream(encoded)
        if settled:
            delivery.settle()
        self.link.advance()
        return delivery

    def publish(self, *bodies: object, **fields: object) -> None:
        """Send messages and wait until the server has accepted them all."""
        for delivery in [self.send(body, **fields) for body in bodies]:
            assert self.clients.outcome(delivery) == Delivery.ACCEPTED


class Consumer(End):
    """A receiving link, and its messages."""

    def __init__(self, clients: Clients, link: Any) -> None:
        super().__init__(clients, link)
        self.received: list[Received] = []

    @property
    def address(self) -> str:
        """The address of the source in the server's attach."""
        address = self.link.remote_source.address
        assert isinstance(address, str)
        return address

    def take(self, count: int) -> list[Received]:
        """Wait for so many messages and return them."""
        self.clients.wait(
            lambda: len(self.received) >= count or self.is_closed,
            lambda: f"{count} messages come to {self.link.name}: {self.bodies()}",
        )
        assert len(self.received) >= count, self.link.remote_condition
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def take_one(self) -> Received:
        return self.take(1)[0]

    def bodies(self) -> list[Any]:
        """Return the bodies of messages that were not taken."""
        return [each.body for each in self.received]

    def accept(self, count: int) -> list[Any]:
        """Wait for messages, accept them and return their bodies."""
        taken = self.take(count)
        for each in taken:
            each.accept()
        return [each.body for each in taken]


class Clients(MessagingHandler):
    """Any number of connections to one server.

    Args:
        port: The server's port on loopback.
    """

    def __init__(self, port: int) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.port = port
        self.consumers: dict[Any, Consumer] = {}
        self.connections: list[Any] = []
        self.conditions: dict[str, str] = {}
        self.container = Container(self)
        self.container.timeout = POLL_SECONDS
        self.container.start()
        # Without a scheduled task it would end with the last connection.
        self.container.schedule(3600, self)
        self.names = 0

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self.connections:
            self.cut(connection)
        # A timer of the library may run after the transport of a cut connection is gone.
        with contextlib.suppress(AssertionError, AttributeError):
            self.wait(lambda: False, "", 2 * POLL_SECONDS)

    # -- the events

    def on_message(self, event: Any) -> None:
        message = event.message
        if isinstance(message.body, memoryview):
            # It looks into a buffer that the next message is decoded into.
            message.body = bytes(message.body)
        self.consumers[event.link.name].received.append(Received(event.delivery, message))

    def on_transport_error(self, event: Any) -> None:
        """The test judges the server's effect on a connection."""

    def on_connection_error(self, event: Any) -> None:
        event.connection.close()

    def on_session_error(self, event: Any) -> None:
        event.session.close()

    def on_link_error(self, event: Any) -> None:
        # The engine forgets it with the link.
        self.conditions[event.link.name] = event.link.remote_condition.name
        event.link.close()

    # -- time

    def wait(
        self,
        condition: Callable[[], bool],
        what: str | Callable[[], str],
        timeout: float = WAIT_SECONDS,
    ) -> None:
        """Serve all connections until the condition holds.

        Raises:
            AssertionError: It does not within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            self.container.process()
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"not within {timeout} s: {what if isinstance(what, str) else what()}"
                )

    def pause(self, seconds: float = QUIET_SECONDS) -> None:
        """Serve all connections for a while."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.container.process()

    def outcome(self, delivery: Any) -> int:
        """Wait for the server's outcome of a delivery that was sent, and settle it."""
        self.wait(lambda: bool(delivery.remote_state), "an outcome")
        state = int(delivery.remote_state)
        delivery.settle()
        return state

    # -- connections and links

    def begin_connect(self, **options: object) -> Any:
        """Begin a connection and return it at once."""
        options = {"url": f"amqp://127.0.0.1:{self.port}", "reconnect": False, **options}
        connection = self.container.connect(**options)  # type: ignore[arg-type]
        self.connections.append(connection)
        return connection

    def connect(self, **options: object) -> Any:
        """Return a connection once the server has opened it."""
        connection = self.begin_connect(**options)
        self.wait(lambda: bool(connection.state & Endpoint.REMOTE_ACTIVE), "the connection opens")
        return connection

    def sync(self, connection: Any) -> None:
        """Return once the server has read all frames of a connection.

        The engine writes the end of a session after all other frames.
        """
        session = connection.session()
        session.open()
        self.wait(lambda: bool(session.state & Endpoint.REMOTE_ACTIVE), "the session begins")
        session.close()
        self.wait(lambda: bool(session.state & Endpoint.REMOTE_CLOSED), "the session ends")

    def begin_producer(self, connection: Any, address: str | None, *options: object) -> Producer:
        """Attach a sending link and return it at once."""
        return Producer(
            self,
            self.container.create_sender(
                connection, address, name=self._name("producer"), options=list(options)
            ),
        )

    def producer(self, connection: Any, address: str | None, *options: object) -> Producer:
        """Return a sending link once the server has attached it."""
        producer = self.begin_producer(connection, address, *options)
        self._wait_attached(producer)
        return producer

    def begin_consumer(
        self,
        connection: Any,
        address: str | None,
        *options: object,
        credit: int = 0,
        dynamic: bool = False,
    ) -> Consumer:
        """Attach a receiving link and return it at once."""
        name = self._name("consumer")
        link = self.container.create_receiver(
            connection, address, name=name, dynamic=dynamic, options=list(options)
        )
        consumer = Consumer(self, link)
        self.consumers[name] = consumer
        if credit:
            link.flow(credit)
        return consumer

    def consumer(
        self,
        connection: Any,
        address: str | None,
        *options: object,
        credit: int = 0,
        dynamic: bool = False,
    ) -> Consumer:
        """Return a receiving link once the server has attached it."""
        consumer = self.begin_consumer(
            connection, address, *options, credit=credit, dynamic=dynamic
        )
        self._wait_attached(consumer)
        return consumer

    def _name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}-{self.names}"

    def _wait_attached(self, end: End) -> None:
        link = end.link
        self.wait(lambda: not link.state & Endpoint.REMOTE_UNINIT, f"{link.name} attaches")

    def drain_queue(self, connection: Any, address: str) -> list[Any]:
        """Take all messages of a queue, and return the bodies."""
        consumer = self.consumer(connection, address)
        consumer.link.drain(10_000)
        self.wait(lambda: consumer.link.credit == 0, f"{address} is drained")
        bodies = consumer.accept(len(consumer.received))
        consumer.close()
        return bodies

    def cut(self, connection: Any) -> None:
        """Cut a connection, without close and end."""
        transport = connection.transport
        if transport is None or transport._selectable is None:
            return
        with contextlib.suppress(OSError), socket.socket(fileno=_dup(transport)) as gone:
            gone.shutdown(socket.SHUT_RDWR)


def _dup(transport: Any) -> int:
    return socket.dup(int(transport._selectable.fileno()))


def fill(
    clients: Clients, producer: Producer, size: int = 10_000, **fields: object
) -> dict[Any, str]:
    """Send messages until the server takes no more; return deliveries and bodies."""
    sent: dict[Any, str] = {}
    for _ in range(FILL_ROUNDS):
        # A delivery without an outcome after two answers of the server waits for room.
        for _ in range(2):
            clients.sync(producer.link.connection)
        if sent and not all(each.remote_state for each in sent):
            return sent
        while producer.link.credit:
            body = f"{len(sent)}:".ljust(size, ".")
            sent[producer.send(body, **fields)] = body
    raise AssertionError(f"the server takes {len(sent)} messages of {size} bytes and wants more")
