"""Transactions, AMQP 1.0 part 4, with python-qpid-proton's engine as the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from proton import Delivery, Described, Message, Terminus, symbol, ulong
from proton.reactor import LinkOption
from support.clients import Clients, Consumer, End, Producer, Received, fill
from support.server import Server

Connect = Callable[..., tuple[Server, Clients]]

TRANSACTIONAL, DECLARED = 0x34, 0x33
DECLARE, DISCHARGE = (ulong(0x31), ulong(0x32))
BY_NAME = (symbol("amqp:declare:list"), symbol("amqp:discharge:list"))


class Coordinator(LinkOption):
    """The target of a controller's link (part 4.5.1)."""

    def apply(self, link: object) -> None:
        link.target.type = Terminus.COORDINATOR  # type: ignore[attr-defined]
        link.target.address = None  # type: ignore[attr-defined]


class Controller:
    """A connection with a coordinator link, a producer and a consumer of one queue."""

    def __init__(self, clients: Clients, address: str, names: tuple[Any, Any] | None = None):
        self.clients = clients
        self.connection = clients.connect()
        self.declare_name, self.discharge_name = names or (DECLARE, DISCHARGE)
        self.link = clients.producer(self.connection, None, Coordinator())
        self.producer = clients.producer(self.connection, address)
        self.consumer = clients.consumer(self.connection, address)

    def ask(self, body: object) -> Any:
        delivery = self.link.send(body)
        self.clients.wait(lambda: bool(delivery.remote_state), "the coordinator answers")
        return delivery

    def declare(self) -> bytes:
        delivery = self.ask(Described(self.declare_name, [None]))
        assert delivery.remote_state == DECLARED
        return bytes(delivery.remote.data[0])

    def discharge(self, transaction: bytes, *, fail: bool = False) -> None:
        delivery = self.ask(Described(self.discharge_name, [transaction, fail]))
        assert delivery.remote_state == Delivery.ACCEPTED, delivery.remote.condition
        # Messages that the commit released are on their way.
        self.clients.pause(0.05)

    def begin_send(self, transaction: bytes, body: object, **fields: object) -> Any:
        """Send in a transaction (part 4.4.1)."""
        self.clients.wait(lambda: self.producer.link.credit > 0, "credit")
        delivery = self.producer.link.delivery(self.producer.link.delivery_tag())
        delivery.local.data = [transaction]
        delivery.update(TRANSACTIONAL)
        self.producer.link.stream(Message(body=body, **fields).encode())  # type: ignore[arg-type]
        self.producer.link.advance()
        return delivery

    def send(self, transaction: bytes, *bodies: object) -> None:
        """Send in a transaction and check the provisional outcome."""
        for delivery in [self.begin_send(transaction, body) for body in bodies]:
            self.clients.wait(lambda d=delivery: bool(d.remote_state), "an answer")
            assert delivery.remote_state == TRANSACTIONAL
            identity, outcome = delivery.remote.data
            assert bytes(identity) == transaction
            assert outcome.descriptor == Delivery.ACCEPTED
            delivery.settle()

    def take(self, count: int) -> list[Received]:
        self.consumer.link.flow(count)
        return self.consumer.take(count)


def retire(
    transaction: bytes,
    received: Received,
    outcome: int = int(Delivery.ACCEPTED),
    fields: tuple[object, ...] = (),
    *,
    settle: bool = True,
) -> None:
    """Give an outcome in a transaction (part 4.4.2)."""
    received.delivery.local.data = [transaction, Described(ulong(outcome), list(fields))]
    received.delivery.update(TRANSACTIONAL)
    if settle:
        received.delivery.settle()


def contents(clients: Clients, address: str) -> list[Any]:
    return clients.drain_queue(clients.connect(), address)


def closed(end: End | Producer | Consumer) -> str:
    return end.condition()


@pytest.fixture
def controller(clients: Clients, address: str) -> Controller:
    return Controller(clients, address)


def test_commit_of_sends_by_names(clients: Clients, address: str) -> None:
    controller = Controller(clients, address, BY_NAME)
    watcher = clients.consumer(clients.connect(), address, credit=10)
    transaction = controller.declare()
    controller.send(transaction, "a", "b", "c")
    clients.pause()
    assert watcher.bodies() == []
    controller.discharge(transaction)
    assert watcher.accept(3) == ["a", "b", "c"]


def test_rollback_of_acknowledgements(
    clients: Clients, controller: Controller, address: str
) -> None:
    """Part 4.4.2: messages that were settled are available again, as failed."""
    controller.producer.publish(*range(4))
    transaction = controller.declare()
    received = controller.take(3)
    for each in received:
        retire(transaction, each)
    controller.discharge(transaction, fail=True)
    again = clients.consumer(clients.connect(), address, credit=10).take(4)
    assert [each.body for each in again] == [0, 1, 2, 3]
    assert [each.message.delivery_count for each in again] == [1, 1, 1, 0]


def test_outcomes_in_a_transaction(clients: Clients, controller: Controller, address: str) -> None:
    """Every outcome waits for the commit and is applied then."""
    controller.producer.publish(*range(5))
    transaction = controller.declare()
    accepted, rejected, released, modified, refused = controller.take(5)
    retire(transaction, accepted)
    retire(transaction, rejected, int(Delivery.REJECTED))
    retire(transaction, released, int(Delivery.RELEASED))
    retire(transaction, modified, int(Delivery.MODIFIED), (True,))
    retire(transaction, refused, int(Delivery.MODIFIED), (False, True))
    clients.pause()
    other = clients.consumer(clients.connect(), address, credit=10)
    clients.pause()
    assert other.bodies() == []
    controller.discharge(transaction)
    again = other.take(3)
    assert [(each.body, each.message.delivery_count) for each in again] == [(2, 0), (3, 1), (4, 0)]
    again[2].release()
    other.close()
    # The one that is undeliverable there stays away from that link.
    controller.consumer.link.flow(10)
    assert [each.body for each in controller.consumer.take(2)] == [2, 3]
    clients.pause()
    assert controller.consumer.bodies() == []
    fresh = clients.consumer(clients.connect(), address, credit=10)
    assert fresh.take_one().body == 4


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("settle", [False, True])
def test_annotations_of_modified_come_with_the_commit(
    clients: Clients, controller: Controller, address: str, fail: bool, settle: bool
) -> None:
    controller.producer.publish("one")
    transaction = controller.declare()
    (received,) = controller.take(1)
    fields = (False, False, {symbol("x-reason"): "later"})
    retire(transaction, received, int(Delivery.MODIFIED), fields, settle=settle)
    controller.discharge(transaction, fail=fail)
    if fail and not settle:
        # It is the consumer's again.
        received.release()
    again = clients.consumer(clients.connect(), address, credit=10).take_one()
    assert again.body == "one"
    assert (again.message.annotations or {}) == ({} if fail else {symbol("x-reason"): "later"})


def test_sends_and_acknowledgements_together(
    clients: Clients, controller: Controller, address: str
) -> None:
    controller.producer.publish("in")
    transaction = controller.declare()
    (received,) = controller.take(1)
    controller.send(transaction, "out")
    retire(transaction, received)
    controller.discharge(transaction)
    controller.consumer.close()
    assert contents(clients, address) == ["out"]


def test_settled_after_all(clients: Clients, controller: Controller, address: str) -> None:
    """An outcome in a transaction, not settled, whose delivery is then settled."""
    controller.producer.publish(*range(4))
    for fail in (False, True):
        transaction = controller.declare()
        received = controller.take(2)
        for each in received:
            retire(transaction, each, settle=False)
        clients.pause()
        for each in received:
            each.delivery.settle()
        clients.pause()
        controller.discharge(transaction, fail=fail)
    assert contents(clients, address) == [2, 3]


def test_a_consumer_goes_before_the_commit(
    clients: Clients, controller: Controller, address: str
) -> None:
    controller.producer.publish(*range(4))
    transaction = controller.declare()
    first, second, third, _ = controller.take(4)
    retire(transaction, first)
    retire(transaction, second, settle=False)
    retire(transaction, third, int(Delivery.MODIFIED), (True, True))
    clients.pause()
    controller.consumer.close()
    controller.discharge(transaction)
    assert contents(clients, address) == [2, 3]


@pytest.mark.parametrize("kind", ["topic", "dynamic"])
@pytest.mark.parametrize("fail", [False, True])
def test_a_temporary_queue_goes_before_the_discharge(
    clients: Clients, controller: Controller, kind: str, fail: bool
) -> None:
    """The outcomes of its messages are still in the transaction."""
    address = None if kind == "dynamic" else f"topic-{fail}"
    consumer = clients.consumer(
        controller.connection, address, credit=10, dynamic=kind == "dynamic"
    )
    clients.producer(clients.connect(), consumer.address).publish(*range(5))
    transaction = controller.declare()
    for each in consumer.take(3):
        retire(transaction, each)
    clients.pause()
    consumer.close()
    clients.pause()
    controller.discharge(transaction, fail=fail)
    controller.producer.publish("the server lives")


@pytest.mark.parametrize("fail", [False, True])
def test_a_message_that_is_half_sent(
    clients: Clients, controller: Controller, address: str, fail: bool
) -> None:
    """Part 4.4.1: the commit ends the control link, and nothing was sent; a roll-back works."""
    transaction = controller.declare()
    controller.send(transaction, "whole")
    link = controller.producer.link
    delivery = link.delivery("half")
    delivery.local.data = [transaction]
    delivery.update(TRANSACTIONAL)
    link.stream(Message(body="x" * 200_000).encode()[:100_000])
    clients.pause()
    if fail:
        controller.discharge(transaction, fail=True)
    else:
        controller.link.send(Described(DISCHARGE, [transaction, False]))
        assert controller.link.condition() == "amqp:transaction:rollback"
    controller.producer.close()
    assert contents(clients, address) == []


def test_a_discharge_without_fail_commits(
    clients: Clients, controller: Controller, address: str
) -> None:
    """Part 4.5.3: the field may be left out."""
    transaction = controller.declare()
    controller.send(transaction, "whole")
    found = controller.ask(Described(DISCHARGE, [transaction]))
    assert found.remote_state == Delivery.ACCEPTED
    assert contents(clients, address) == ["whole"]


def test_a_large_message_in_a_transaction(
    clients: Clients, controller: Controller, address: str
) -> None:
    transaction = controller.declare()
    controller.send(transaction, "x" * 1_000_000)
    controller.discharge(transaction)
    assert contents(clients, address) == ["x" * 1_000_000]


def test_many_in_one_transaction(clients: Clients, controller: Controller, address: str) -> None:
    transaction = controller.declare()
    controller.send(transaction, *range(2000))
    controller.discharge(transaction)
    transaction = controller.declare()
    for each in controller.take(2000):
        retire(transaction, each)
    controller.discharge(transaction, fail=True)
    transaction = controller.declare()
    received = controller.take(2000)
    assert [each.body for each in received] == list(range(2000))
    for each in received:
        retire(transaction, each)
    controller.discharge(transaction)
    assert contents(clients, address) == []


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        (Described(DISCHARGE, [b"short", False]), "amqp:decode-error"),
        (Described(DISCHARGE, []), "amqp:decode-error"),
        (Described(ulong(0x99), []), "amqp:decode-error"),
        (Described(symbol("amqp:nonsense:list"), []), "amqp:decode-error"),
        ("no such thing", "amqp:decode-error"),
    ],
)
def test_what_the_coordinator_rejects(controller: Controller, body: object, condition: str) -> None:
    delivery = controller.ask(body)
    assert delivery.remote_state == Delivery.REJECTED
    assert delivery.remote.condition.name == condition
    controller.discharge(controller.declare())


def test_a_transaction_of_another_connection(
    clients: Clients, controller: Controller, address: str
) -> None:
    other = Controller(clients, address)
    other.begin_send(controller.declare(), "stolen")
    assert closed(other.producer) == "amqp:transaction:unknown-id"


def test_a_transaction_is_bounded(connect: Connect) -> None:
    """It may hold as much as a queue; then its producer's link is detached."""
    _, clients = connect(queue_limit=65536)
    controller = Controller(clients, "queue0")
    transaction = controller.declare()
    for _ in range(10):
        controller.begin_send(transaction, "x" * 10_000)
    assert closed(controller.producer) == "amqp:resource-limit-exceeded"
    controller.discharge(transaction, fail=True)
    assert contents(clients, "queue0") == []


def test_a_paused_producer_does_not_hold_up_the_coordinator(connect: Connect) -> None:
    """Links of one session: the discharge that makes room must get through."""
    _, clients = connect(queue_limit=65536)
    controller = Controller(clients, "queue0")
    sent = fill(clients, controller.producer)
    received = controller.take(5)
    transaction = controller.declare()
    for each in received:
        retire(transaction, each)
    controller.discharge(transaction)
    clients.wait(lambda: sum(bool(each.remote_state) for each in sent) > 7, "the producer goes on")
