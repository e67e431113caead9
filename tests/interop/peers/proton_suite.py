"""Requests of python-qpid-proton to a server: a line of JSON for each case.

    proton_suite.py PORT
    {"case": "...", "gives": "yes" | "no", "says": "..."}

Transactions, which go-amqp and rhea do not have, and what its reactor's options name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from proton import Delivery, Disposition, Link, Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Copy, DurableSubscription, DynamicNodeProperties, Selector
from proton.utils import BlockingConnection, LinkDetached

# How long one step of a case may take; nothing waits so long when it works.
SECONDS = 30.0


class Client(BlockingConnection):
    """A connection of one case's own."""

    def __init__(self, container_id: str) -> None:
        container = Container()
        container.container_id = container_id
        super().__init__(f"127.0.0.1:{sys.argv[1]}", timeout=SECONDS, container=container)

    def send(self, address: str, *bodies: str, **fields: Any) -> None:
        """Send messages and wait until the server has accepted each."""
        sender = self.create_sender(address)
        for body in bodies:
            sender.send(Message(body=body, **fields))
        sender.close()

    def bodies(self, address: str, count: int, options: Any = None) -> list[str]:
        """Take so many messages that are to come."""
        receiver = self.create_receiver(address, options=options)
        taken = []
        for _ in range(count):
            taken.append(receiver.receive().body)
            receiver.accept()
        receiver.close()
        return taken


def equal(actual: object, expected: object) -> None:
    """Fail the case unless it is as expected; python -O would drop an assert."""
    if actual != expected:
        raise ValueError(f"{actual!r} where {expected!r} is expected")


def selector(address: str) -> None:
    client = Client(address)
    for color in ("red", "blue", "red"):
        client.send(address, color, properties={"color": color})
    equal(client.bodies(address, 1, Selector("color = 'blue'")), ["blue"])
    equal(client.bodies(address, 2, Copy()), ["red", "red"])
    equal(client.bodies(address, 2), ["red", "red"])


def bad_selector(address: str) -> None:
    try:
        Client(address).create_receiver(address, options=Selector("= = 1"))
    except LinkDetached as error:
        equal(error.condition, "amqp:invalid-field")
    else:
        raise ValueError("it is not refused")


def dynamic_node(address: str) -> None:
    client = Client(address)
    receiver = client.create_receiver(None, dynamic=True, options=DynamicNodeProperties({}))
    client.send(receiver.link.remote_source.address, "a")
    equal(receiver.receive().body, "a")
    receiver.accept()


def modified(address: str) -> None:
    """Twice failed, and then released, which counts for nothing."""
    client = Client(address)
    client.send(address, "a")
    receiver = client.create_receiver(address, credit=1)
    for outcome, count in ((Delivery.MODIFIED, 0), (Delivery.MODIFIED, 1), (Delivery.RELEASED, 2)):
        equal(receiver.receive().delivery_count, count)
        delivery = receiver.fetcher.unsettled.popleft()
        if outcome == Delivery.MODIFIED:
            delivery.local.failed = True
            delivery.local.annotations = {symbol("x-opt-count"): count}
        delivery.update(outcome)
        delivery.settle()
    last = receiver.receive()
    equal((last.delivery_count, last.annotations[symbol("x-opt-count")]), (2, 1))
    receiver.accept()


def durable_subscription(address: str) -> None:
    topic = f"topic-{address}"
    for bodies in ([], ["a"], ["b", "c"]):
        Client(address).send(topic, *bodies, durable=True)
        client = Client(f"{address}-durable")
        receiver = client.create_receiver(topic, name="sub", options=DurableSubscription())
        for body in bodies:
            equal(receiver.receive().body, body)
            receiver.accept()
        # The connection goes, and the link is not closed: the subscription stays.
        client.close()


class Transactions(MessagingHandler, TransactionHandler):
    """Sends two messages and takes one, in a transaction that it ends in one way."""

    def __init__(self, address: str, commit: bool) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.address = address
        self.commit = commit
        self.ended = ""

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(f"127.0.0.1:{sys.argv[1]}", reconnect=False)
        self.sender = event.container.create_sender(self.connection, f"{self.address}-out")
        self.receiver = event.container.create_receiver(self.connection, self.address)
        event.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.receiver.flow(1)

    def on_message(self, event: Any) -> None:
        self.transaction.accept(event.delivery)
        for number in range(2):
            message = Message(body=f"{event.message.body}{number}")
            self.transaction.send(self.sender, message)
        if self.commit:
            self.transaction.commit()
        else:
            self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self.end("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self.end("aborted")

    def on_transport_error(self, event: Any) -> None:
        self.end(str(event.transport.condition))

    def end(self, how: str) -> None:
        self.ended = how
        self.connection.close()


def transact(address: str, commit: bool) -> str:
    handler = Transactions(address, commit)
    Container(handler).run()
    return handler.ended


def transaction_committed(address: str) -> None:
    client = Client(address)
    client.send(address, "a", "b")
    equal(transact(address, True), "committed")
    equal(client.bodies(f"{address}-out", 2), ["a0", "a1"])
    equal(client.bodies(address, 1), ["b"])


def transaction_aborted(address: str) -> None:
    client = Client(address)
    client.send(address, "a", "b")
    equal(transact(address, False), "aborted")
    client.send(f"{address}-out", "only")
    equal(client.bodies(f"{address}-out", 1), ["only"])
    equal(client.bodies(address, 2), ["a", "b"])


def settle_second(address: str) -> None:
    """Our outcome is answered with a settled one (part 2.6.12)."""
    client = Client(address)
    client.send(address, "a")
    receiver = client.create_receiver(address, options=Second())
    equal(receiver.link.remote_rcv_settle_mode, Link.RCV_SECOND)
    receiver.receive()
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.update(Disposition.ACCEPTED)
    client.wait(lambda: delivery.settled)
    delivery.settle()


class Second:
    """A receiver that settles when the server has."""

    def apply(self, receiver: Any) -> None:
        receiver.rcv_settle_mode = Link.RCV_SECOND

    def test(self, receiver: Any) -> bool:
        return True


CASES: tuple[Callable[[str], None], ...] = (
    selector, bad_selector, dynamic_node, modified, durable_subscription, transaction_committed,
    transaction_aborted, settle_second,
)  # fmt: skip


def main() -> None:
    """Run the cases one after the other."""
    for case in CASES:
        gives, says = "yes", ""
        try:
            case(f"proton-{case.__name__}")
        except Exception as error:
            gives, says = "no", f"{type(error).__name__}: {error}"
        print(json.dumps({"case": case.__name__, "gives": gives, "says": says}), flush=True)


if __name__ == "__main__":
    main()
