"""A synchronous AMQP client on python-qpid-proton's engine: one socket, pumped by the test.

Only `pump` reads and writes, so a test controls every read, answer and settlement.
Links that the server attaches wait in `attached` until the test takes them.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Any

from proton import (
    Collector,
    Connection,
    Data,
    Delivery,
    Endpoint,
    Event,
    Link,
    Receiver,
    Sender,
    Session,
    Transport,
    symbol,
)

TIMEOUT = 30.0
TRUNK = symbol("quiver.trunk")
RELAY = symbol("ANONYMOUS-RELAY")
STREAMING_LINKS = symbol("qd.streaming-links")
STREAMING_DELIVERIES = symbol("qd.streaming-deliveries")


class EngineClient:
    """A client connection to ``port`` on the loopback.

    Args:
        port: the server's port.
        streaming_links: offer ``qd.streaming-links``.
        trunk: act as another server of ours.
        relay: act as a router.
        channel_max: the highest channel to allow; None for the engine's own limit.
        max_frame: bytes of the largest frame to take; None for the engine's own limit.
    """

    def __init__(
        self,
        port: int,
        *,
        streaming_links: bool = False,
        trunk: bool = False,
        relay: bool = False,
        channel_max: int | None = None,
        max_frame: int | None = None,
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        # Without it each small frame waits for the acknowledgement of the one before.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.connection = Connection()
        self.collector = Collector()
        self.connection.collect(self.collector)
        self.transport = Transport()
        if max_frame is not None:
            self.transport.max_frame_size = max_frame
        if channel_max is not None:
            self.transport.channel_max = channel_max
        self.transport.bind(self.connection)
        self.connection.container = "engine-client"
        offered = [STREAMING_LINKS] * streaming_links + [TRUNK] * trunk + [RELAY] * relay
        if offered:
            self.connection.offered_capabilities = offered
        self.connection.open()
        self.attached: list[Link] = []
        self.closed_by_peer = False
        self._tag = 0
        self.until(lambda: bool(self.connection.state & Endpoint.REMOTE_ACTIVE))

    def __enter__(self) -> EngineClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def until(self, condition: Callable[[], bool], timeout: float = TIMEOUT) -> None:
        """Pump until a condition holds."""
        deadline = time.monotonic() + timeout
        # The last step may not be on its way yet, because the end of a delivery has no bytes.
        self.pump(0)
        while not condition():
            assert time.monotonic() < deadline, "what was waited for did not happen"
            self.pump()

    def rest(self, seconds: float = 0.2) -> None:
        """Pump for a while in which nothing may be due."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.pump(0.02)

    def beat(self) -> None:
        """Let the engine send heartbeats."""
        self.transport.tick(time.monotonic())

    def sync(self) -> None:
        """Wait until the server has read everything, which its answers show."""
        session = self.connection.session()
        session.open()
        self.until(lambda: bool(session.state & Endpoint.REMOTE_ACTIVE))
        session.close()

    def pump(self, wait: float = 0.05, *, read: bool = True) -> None:
        """Write what is pending, wait for the socket, read once, and take the events."""
        self._write()
        if read and select.select([self.socket], [], [], wait)[0]:
            self._read()
        self._events()
        self._write()

    def _write(self) -> None:
        while (pending := self.transport.pending()) > 0:
            try:
                sent = self.socket.send(self.transport.peek(pending))
            except BlockingIOError:
                return
            except OSError:
                self.closed_by_peer = True
                return
            self.transport.pop(sent)

    def _read(self) -> None:
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.closed_by_peer = True
            return
        while data:
            room = self.transport.capacity()
            if room <= 0:
                return
            self.transport.push(data[:room])
            data = data[room:]

    def _events(self) -> None:
        while (event := self.collector.peek()) is not None:
            self._event(event)
            self.collector.pop()

    def _event(self, event: Any) -> None:
        if event.type == Event.LINK_REMOTE_OPEN and event.link.state & Endpoint.LOCAL_UNINIT:
            self.attached.append(event.link)

    # Actions of tests

    def session(self, capacity: int = 0) -> Session:
        """Begin a session that may hold ``capacity`` bytes unread; 0 for any number."""
        session: Session = self.connection.session()
        session.incoming_capacity = capacity
        session.open()
        return session

    def sender(
        self,
        address: str | None,
        *,
        streaming: bool = False,
        session: Session | None = None,
        settled: bool = False,
        credit: bool = True,
    ) -> Sender:
        """Attach a sender and wait for its credit, if it gets any."""
        self._tag += 1
        link: Sender = (session or self.session()).sender(f"sender-{id(self)}-{self._tag}")
        link.target.address = address
        if settled:
            link.snd_settle_mode = Link.SND_SETTLED
        if streaming:
            link.target.capabilities.put_array(False, Data.SYMBOL)
            link.target.capabilities.enter()
            link.target.capabilities.put_symbol(STREAMING_DELIVERIES)
            link.target.capabilities.exit()
        link.open()
        if credit:
            self.until(lambda: link.credit > 0)
        else:
            self.until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE))
        return link

    def receiver(
        self, address: str, credit: int = 10, *, session: Session | None = None
    ) -> Receiver:
        """Attach a receiver, give it credit, and wait for the server's attach."""
        self._tag += 1
        link: Receiver = (session or self.session()).receiver(f"receiver-{id(self)}-{self._tag}")
        link.source.address = address
        link.open()
        link.flow(credit)
        self.until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE))
        return link

    def take(self, credit: int = 10, capacity: int = 0) -> Receiver:
        """Wait for a link that the server attaches, accept it and give it credit.

        Args:
            credit: the number of deliveries.
            capacity: bytes that its session may hold unread; 0 for its present setting.
        """
        self.until(lambda: bool(self.attached))
        link = self.attached.pop(0)
        if link.session.state & Endpoint.LOCAL_UNINIT:
            if capacity:
                link.session.incoming_capacity = capacity
            link.session.open()
        link.open()
        link.flow(credit)
        self.pump(0)
        return link

    def start(self, sender: Sender, data: bytes) -> Delivery:
        """Begin a delivery with its first bytes."""
        delivery = self._delivery(sender, data)
        self.pump(0)
        return delivery

    def _delivery(self, sender: Sender, data: bytes) -> Delivery:
        self._tag += 1
        delivery: Delivery = sender.delivery(f"d{self._tag}")
        sender.stream(data)
        return delivery

    def send(self, sender: Sender, data: bytes) -> Delivery:
        """Send a whole message."""
        delivery = self._delivery(sender, data)
        sender.advance()
        self.pump(0)
        return delivery

    def read(self, receiver: Receiver, size: int, timeout: float = TIMEOUT) -> bytes:
        """Read at least ``size`` bytes of the receiver's current delivery."""
        data = b""
        deadline = time.monotonic() + timeout
        self.pump(0)
        while True:
            while receiver.current is not None and (part := receiver.recv(65536)):
                data += part
            if len(data) >= size:
                return data
            assert time.monotonic() < deadline, f"{len(data)} of {size} bytes came"
            self.pump()

    def accept(self, receiver: Receiver) -> None:
        """Accept and settle the current delivery."""
        delivery = receiver.current
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        self.pump(0)
