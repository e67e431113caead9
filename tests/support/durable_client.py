"""A client of durable messages and transactions that notices closed links and connections."""

from __future__ import annotations

from collections.abc import Callable

from proton import (
    Delivery,
    Described,
    Endpoint,
    Message,
    Receiver,
    Sender,
    Terminus,
    ulong,
)

from support.engine_client import TIMEOUT, EngineClient

TRANSACTIONAL, DECLARED = 0x34, 0x33
DECLARE, DISCHARGE = ulong(0x31), ulong(0x32)
# Credit of one drain.
DRAINED = 100_000


class LostError(Exception):
    """The server closed the connection, or a link, or answers no more."""


def encoded(number: int, size: int = 50) -> bytes:
    """Return a durable message with a number for its id."""
    return bytes(Message(id=number, body=b"x" * size, durable=True).encode())


class DurableClient(EngineClient):
    """As EngineClient, but a wait ends with `LostError` if it can no longer succeed."""

    def until(self, condition: Callable[[], bool], timeout: float = TIMEOUT) -> None:
        super().until(lambda: condition() or self.is_over, timeout)
        if not condition():
            raise LostError

    @property
    def is_over(self) -> bool:
        """Whether the server has ended the connection, or any session or link of it."""
        ended = Endpoint.LOCAL_ACTIVE | Endpoint.REMOTE_CLOSED
        return (
            self.closed_by_peer
            or bool(self.connection.state & Endpoint.REMOTE_CLOSED)
            or self.connection.session_head(ended) is not None
            or self.connection.link_head(ended) is not None
        )

    def outcome(self, delivery: Delivery) -> int:
        """Wait for the outcome of a delivery that was sent."""
        self.until(lambda: bool(delivery.remote_state))
        return int(delivery.remote_state)

    # -- receiving

    def has_message(self, receiver: Receiver) -> bool:
        return receiver.current is not None and not receiver.current.partial

    def take_message(self, receiver: Receiver) -> tuple[Message, Delivery]:
        """Return the next message and its delivery."""
        self.until(lambda: self.has_message(receiver))
        delivery = receiver.current
        message = Message()
        message.decode(receiver.recv(delivery.pending))
        receiver.advance()
        return message, delivery

    def take_number(self, receiver: Receiver) -> tuple[int, Delivery]:
        """Return the number and the delivery of the next message."""
        message, delivery = self.take_message(receiver)
        return int(message.id), delivery

    def drain(self, address: str) -> list[int]:
        """Take all messages of a queue; return the numbers in their order."""
        receiver = self.receiver(address, credit=0)
        numbers: list[int] = []
        # A queue may hold more than one drain takes.
        while taken := self.take_drained(receiver):
            numbers += taken
        receiver.close()
        return numbers

    def take_drained(self, receiver: Receiver) -> list[int]:
        """Take messages up to a limit; return the numbers."""
        receiver.drain(DRAINED)
        numbers = []
        while True:
            self.until(lambda: self.has_message(receiver) or receiver.credit == 0)
            if not self.has_message(receiver):
                return numbers
            number, delivery = self.take_number(receiver)
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            numbers.append(number)

    # -- transactions, part 4

    def coordinator(self) -> Sender:
        """Attach a link to the coordinator."""
        link: Sender = self.session().sender(f"coordinator-{id(self)}")
        link.target.type = Terminus.COORDINATOR
        link.open()
        self.until(lambda: link.credit > 0)
        return link

    def declare(self, coordinator: Sender) -> bytes:
        """Begin a transaction; return its id."""
        body = Message(body=Described(DECLARE, [None]))
        delivery = self.send(coordinator, bytes(body.encode()))
        if self.outcome(delivery) != DECLARED:
            raise LostError
        return bytes(delivery.remote.data[0])

    def send_in(self, transaction: bytes, sender: Sender, data: bytes) -> Delivery:
        """Send a message in a transaction."""
        self._tag += 1
        delivery: Delivery = sender.delivery(f"d{self._tag}")
        delivery.local.data = [transaction]
        delivery.update(TRANSACTIONAL)
        sender.stream(data)
        sender.advance()
        self.pump(0)
        return delivery

    def accept_in(self, transaction: bytes, delivery: Delivery) -> None:
        """Accept what was received, in a transaction."""
        delivery.local.data = [transaction, Described(ulong(int(Delivery.ACCEPTED)), [])]
        delivery.update(TRANSACTIONAL)
        delivery.settle()
        self.pump(0)

    def discharge(
        self, coordinator: Sender, transaction: bytes, *, fail: bool = False
    ) -> bool | None:
        """Commit a transaction, or roll it back; say whether it is committed.

        None: nobody knows, after a failed sync.
        """
        body = Message(body=Described(DISCHARGE, [transaction, fail]))
        state = self.outcome(self.send(coordinator, bytes(body.encode())))
        if state == Delivery.ACCEPTED:
            return not fail
        return False if state == Delivery.REJECTED else None
