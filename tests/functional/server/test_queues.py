"""Queue semantics: AMQP 1.0 parts 2.6.7 (credit), 3.4 (outcomes) and 3.2.1 (header)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from proton import Delivery
from proton.reactor import AtMostOnce
from support.clients import Clients, Consumer
from support.departures import port_of, wait_until_gone
from support.engine_client import EngineClient
from support.server import Server
from support.streams import head, received

BODIES = [f"message {number}" for number in range(20)]


def both(clients: Clients, address: str, credit: int = 0) -> tuple[Callable[..., None], Consumer]:
    """Return a function that publishes, and a consumer, on connections of their own."""
    producer = clients.producer(clients.connect(), address)
    consumer = clients.consumer(clients.connect(), address, credit=credit)
    return producer.publish, consumer


def test_first_in_first_out(clients: Clients, address: str) -> None:
    publish, consumer = both(clients, address)
    publish(*BODIES)
    consumer.link.flow(len(BODIES))
    assert consumer.accept(len(BODIES)) == BODIES
    publish(*BODIES)
    consumer.link.flow(len(BODIES))
    assert consumer.accept(len(BODIES)) == BODIES


def test_consumers_take_turns(clients: Clients, address: str) -> None:
    """Competing consumers with the same credit get the same number, in turn."""
    consumers = [clients.consumer(clients.connect(), address, credit=20) for _ in range(3)]
    clients.producer(clients.connect(), address).publish(*range(18))
    shares = [[each.body for each in consumer.take(6)] for consumer in consumers]
    assert sorted(itertools.chain(*shares)) == list(range(18))
    for share in shares:
        # One of every three, and each in the queue's order.
        assert [after - before for before, after in itertools.pairwise(share)] == [3] * 5


def test_consumers_share_many_messages(clients: Clients, address: str) -> None:
    """Where many wait, consumers with the same credit get runs, and the same number in all."""
    connection = clients.connect()
    consumers = [clients.consumer(connection, address) for _ in range(3)]
    clients.producer(clients.connect(), address).publish(*range(900))
    for consumer in consumers:
        consumer.link.flow(400)
    shares = [[each.body for each in consumer.take(300)] for consumer in consumers]
    assert sorted(itertools.chain(*shares)) == list(range(900))
    for share in shares:
        assert share == sorted(share)
        assert share[1] == share[0] + 1


def test_a_consumer_without_credit_misses_its_turn(clients: Clients, address: str) -> None:
    connection = clients.connect()
    idle = clients.consumer(connection, address, credit=2)
    busy = clients.consumer(connection, address, credit=100)
    clients.producer(connection, address).publish(*range(20))
    assert len(idle.take(2)) == 2
    assert len(busy.take(18)) == 18


def test_a_released_message_keeps_its_place(clients: Clients, address: str) -> None:
    publish, consumer = both(clients, address, credit=3)
    publish(*range(6))
    zero, one, two = consumer.take(3)
    one.release()
    zero.release()
    two.accept()
    # The client would send the credit first.
    clients.sync(consumer.link.connection)
    consumer.link.flow(5)
    assert consumer.accept(5) == [0, 1, 3, 4, 5]


def test_settled_without_an_outcome_is_done(clients: Clients, address: str) -> None:
    publish, consumer = both(clients, address, credit=1)
    publish("taken")
    consumer.take_one().settle()
    consumer.close()
    assert clients.drain_queue(clients.connect(), address) == []


def test_undeliverable_here_goes_elsewhere(clients: Clients, address: str) -> None:
    """Part 3.4.5: not to this link again, but to others, this one's next one included."""
    publish, refusing = both(clients, address, credit=10)
    publish("not for all", "for all")
    first, second = refusing.take(2)
    first.modify(failed=True, undeliverable=True)
    second.release()
    assert refusing.take_one().body == "for all"
    clients.pause()
    assert refusing.bodies() == []
    other = clients.consumer(clients.connect(), address, credit=10)
    received = other.take_one()
    assert (received.body, received.message.delivery_count) == ("not for all", 1)
    received.modify(undeliverable=True)
    clients.pause()
    assert (refusing.bodies(), other.bodies()) == ([], [])
    fresh = clients.consumer(clients.connect(), address, credit=10)
    assert fresh.take_one().body == "not for all"


@pytest.mark.parametrize("how", ["detach", "cut"])
def test_unsettled_messages_return_in_order(
    server: Server, clients: Clients, address: str, how: str
) -> None:
    publish, consumer = both(clients, address, credit=10)
    publish(*range(20))
    consumer.take(10)[3].accept()
    connection = consumer.link.connection
    port = port_of(connection)
    clients.sync(connection)
    if how == "detach":
        consumer.link.detach()
        clients.sync(connection)
    else:
        clients.cut(connection)
        clients.pause()
        wait_until_gone(server, port)
    received = clients.consumer(clients.connect(), address, credit=30).take(19)
    assert [each.body for each in received] == [0, 1, 2, *range(4, 20)]
    # They were with somebody, who may or may not have looked at them.
    assert not received[0].message.first_acquirer
    assert received[0].message.delivery_count == 0


def test_drain_with_competitors(clients: Clients, address: str) -> None:
    publish, consumer = both(clients, address)
    clients.consumer(clients.connect(), address, credit=5)
    publish(*range(5))
    consumer.link.drain(10)
    clients.wait(lambda: consumer.link.credit == 0, "the drain is answered")
    assert consumer.bodies() == []


def test_presettled_messages_survive_an_immediate_close(clients: Clients, address: str) -> None:
    connection = clients.connect()
    producer = clients.producer(connection, address, AtMostOnce())
    for body in BODIES:
        producer.send(body, settled=True)
    connection.close()
    assert clients.consumer(clients.connect(), address, credit=20).accept(20) == BODIES


def test_presettled_consumer(clients: Clients, address: str) -> None:
    """At most once: a sent message is gone, though nobody settled it."""
    producer = clients.producer(clients.connect(), address)
    consumer = clients.consumer(clients.connect(), address, AtMostOnce(), credit=10)
    producer.publish(*BODIES)
    received = consumer.take(10)
    assert [each.body for each in received] == BODIES[:10]
    assert all(each.delivery.settled for each in received)
    consumer.close()
    assert clients.drain_queue(clients.connect(), address) == BODIES[10:]


@pytest.mark.parametrize("size", [0, 1, 511, 16_000, 16_384, 40_000, 100_000, 1_000_000])
def test_sizes(clients: Clients, address: str, size: int) -> None:
    producer = clients.producer(clients.connect(), address)
    consumer = clients.consumer(clients.connect(), address, credit=3)
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    sent = [producer.send(body) for _ in range(3)]
    # Large ones are forwarded while they arrive, so the consumer comes first.
    assert consumer.accept(3) == [body] * 3
    assert [clients.outcome(each) for each in sent] == [Delivery.ACCEPTED] * 3


def test_a_large_message_comes_again_whole(clients: Clients, address: str) -> None:
    """Released after some of it was read, by closing the link in the middle."""
    body = b"x" * 3_000_000
    clients.producer(clients.connect(), address).publish(body)
    consumer = clients.consumer(clients.connect(), address, credit=1)
    clients.container.process()
    consumer.link.close()
    clients.pause()
    assert clients.consumer(clients.connect(), address, credit=1).accept(1) == [body]


@pytest.mark.parametrize("settled", [False, True])
def test_what_is_no_message_is_rejected(clients: Clients, address: str, settled: bool) -> None:
    producer = clients.producer(clients.connect(), address)
    delivery = producer.send_encoded(b"\x00\x53\x70\xc0\x7fgarbage", settled=settled)
    if not settled:
        assert clients.outcome(delivery) == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:decode-error"
    producer.publish("fine")
    assert clients.drain_queue(clients.connect(), address) == ["fine"]


def test_many_messages_through_small_windows(server: Server, clients: Clients) -> None:
    """The credit of both links turns over many times."""
    publish, consumer = both(clients, "turnover", credit=7)
    for start in range(0, 2000, 100):
        publish(*range(start, start + 100))
        for number in range(start, start + 100):
            assert consumer.accept(1) == [number]
            consumer.link.flow(1)


def test_consumers_of_a_connection_that_is_full(server: Server, address: str) -> None:
    """A connection without room goes on with whom it interrupted, and leaves out no message."""
    count, size = 400, 20_000
    with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
        receivers = [consumer.receiver(address, count) for _ in range(4)]
        sender = producer.sender(address)
        for number in range(count):
            producer.until(lambda: sender.credit > 0)
            producer.send(sender, head(size) + b"%08d" % number + bytes(size - 8))
        # The consumer reads nothing until all that the socket takes is there.
        producer.sync()
        found = []
        while len(found) < count:
            consumer.until(lambda: any(link.current is not None for link in receivers))
            link = next(link for link in receivers if link.current is not None)
            found.append(int(received(consumer, link, size)[-size:][:8]))
        assert sorted(found) == list(range(count))


@pytest.mark.parametrize(
    ("outcome", "stays"),
    [
        (Delivery.ACCEPTED, False),
        (Delivery.REJECTED, False),
        (Delivery.RELEASED, True),
        (Delivery.MODIFIED, True),
    ],
)
def test_outcomes_and_their_settlement_in_one_read(
    server: Server, address: str, outcome: int, stays: bool
) -> None:
    """Each delivery changes twice before we answer; its outcome counts once (part 2.6.12)."""
    count = 4
    with EngineClient(server.port) as producer, EngineClient(server.port) as consumer:
        sender, receiver = producer.sender(address), consumer.receiver(address, count)
        for number in range(count):
            producer.send(sender, head(1) + b"%d" % number)
        consumer.until(lambda: receiver.queued == count)
        deliveries = []
        for _ in range(count):
            deliveries.append(receiver.current)
            receiver.advance()
        for delivery in deliveries:
            delivery.update(outcome)
        # The engine frames them now, and the rest behind them.
        assert consumer.transport.pending() > 0
        for delivery in deliveries:
            delivery.settle()
        consumer.pump(0)
        receiver.flow(2 * count)
        producer.send(sender, head(1) + b"9")
        expected = [*range(count), 9] if stays else [9]
        found = [received(consumer, receiver, 9)[-1:] for _ in expected]
        assert found == [b"%d" % number for number in expected]
        consumer.sync()
        assert receiver.current is None
