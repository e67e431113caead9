"""Filters of a source: selectors on queues, topics and browsers, no-local, and refused filters."""

from __future__ import annotations

import random
from typing import Any

import pytest
from proton import Data, Delivery, Described, symbol, ulong
from proton.reactor import Copy, Filter, ReceiverOption, Selector
from support.clients import Clients, Consumer, Producer

BLUE = Selector("color = 'blue'")
NO_LOCAL = "apache.org:no-local-filter:list"


class NoLocal(Filter):
    """JMS's no-local."""

    def __init__(self, key: str = "no-local") -> None:
        super().__init__({symbol(key): Described(symbol(NO_LOCAL), [])})


class Topic(ReceiverOption):
    """The source is a topic."""

    def apply(self, receiver: Any) -> None:
        receiver.source.capabilities.put_object(symbol("topic"))


def publish(producer: Producer, *colors: str) -> None:
    """Send one message for each colour, numbered from 0."""
    deliveries = [
        producer.send(number, properties={"color": color}) for number, color in enumerate(colors)
    ]
    for delivery in deliveries:
        assert producer.clients.outcome(delivery) == delivery.ACCEPTED


def filters(consumer: Consumer) -> dict[str, Any]:
    """Return the filter set that the server says is in place."""
    data = consumer.link.remote_source.filter
    data.rewind()
    return dict(data.get_dict()) if data.next() and data.type() == Data.MAP else {}


def test_a_consumer_gets_what_it_asks_for(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    blue = clients.consumer(clients.connect(), address, BLUE, credit=10)
    publish(producer, "red", "blue", "red", "blue")
    assert blue.accept(2) == [1, 3]
    clients.pause()
    assert blue.bodies() == []
    other = clients.consumer(clients.connect(), address, credit=10)
    assert other.accept(2) == [0, 2]


def test_the_reply_names_the_filter(clients: Clients, address: str) -> None:
    blue = clients.consumer(clients.connect(), address, BLUE)
    plain = clients.consumer(clients.connect(), address)
    assert filters(blue) == {
        "selector": Described(symbol("apache.org:selector-filter:string"), "color = 'blue'")
    }
    assert filters(plain) == {}


def test_no_local_is_not_in_place_for_a_queue(clients: Clients, address: str) -> None:
    connection = clients.connect()
    consumer = clients.consumer(connection, address, NoLocal(), credit=1)
    assert filters(consumer) == {}
    clients.producer(connection, address).publish("mine")
    assert consumer.accept(1) == ["mine"]


@pytest.mark.parametrize("restored", ["release", "modify"])
def test_what_comes_back_goes_first_and_in_order(
    clients: Clients, address: str, restored: str
) -> None:
    producer = clients.producer(clients.connect(), address)
    blue = clients.consumer(clients.connect(), address, BLUE, credit=3)
    publish(producer, *["red", "blue"] * 6)
    taken = blue.take(3)
    for each in (taken[2], taken[0], taken[1]):
        getattr(each, restored)()
    blue.link.flow(6)
    assert blue.accept(6) == [1, 3, 5, 7, 9, 11]


def test_what_another_gives_back_is_offered(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    plain = clients.consumer(clients.connect(), address, credit=4)
    publish(producer, "blue", "red", "blue", "red")
    taken = plain.take(4)
    blue = clients.consumer(clients.connect(), address, BLUE, credit=4)
    for each in reversed(taken):
        each.release()
    assert blue.accept(2) == [0, 2]
    plain.link.flow(2)
    assert plain.accept(2) == [1, 3]


def test_undeliverable_here_holds_for_a_selective_consumer(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    one = clients.consumer(clients.connect(), address, BLUE, credit=1)
    publish(producer, "blue")
    one.take_one().modify(failed=True, undeliverable=True)
    one.link.flow(1)
    clients.pause()
    assert one.bodies() == []
    assert clients.consumer(clients.connect(), address, BLUE, credit=1).accept(1) == [0]


def test_a_drain_ends_when_all_was_asked_about(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    # More than are asked about in one turn.
    publish(producer, *["red"] * 3000, "blue")
    blue = clients.consumer(clients.connect(), address, BLUE)
    blue.link.drain(10)
    clients.wait(lambda: blue.link.credit == 0, "the credit is drained")
    assert blue.accept(1) == [3000]


def test_a_browser_with_a_selector(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address)
    publish(producer, "red", "blue", "red", "blue")
    browser = clients.consumer(clients.connect(), address, Copy(), BLUE, credit=10)
    assert browser.accept(2) == [1, 3]
    assert clients.consumer(clients.connect(), address, credit=4).accept(4) == [0, 1, 2, 3]


def test_a_subscription_with_a_selector(clients: Clients, address: str) -> None:
    blue = clients.consumer(clients.connect(), address, Topic(), BLUE, credit=10)
    every = clients.consumer(clients.connect(), address, Topic(), credit=10)
    publish(clients.producer(clients.connect(), address), "red", "blue", "red")
    assert every.accept(3) == [0, 1, 2]
    assert blue.accept(1) == [1]


def test_no_local_on_a_topic(clients: Clients, server: Any, address: str) -> None:
    connection = clients.connect()
    deaf = clients.consumer(connection, address, Topic(), NoLocal(), credit=10)
    every = clients.consumer(connection, address, Topic(), credit=10)
    assert NO_LOCAL in str(filters(deaf))
    with Clients(server.port) as others:
        others.producer(others.connect(), address).publish("theirs")
    clients.producer(connection, address).publish("mine")
    assert every.accept(2) == ["theirs", "mine"]
    clients.pause()
    assert deaf.bodies() == ["theirs"]


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        (Selector("color ="), "amqp:invalid-field"),
        (Selector("x" * 5000), "amqp:invalid-field"),
        (Filter({symbol("f"): Described(symbol("amqp:sql-filter"), "a")}), "amqp:not-implemented"),
        (Filter({symbol("f"): Described(ulong(0x77), "a")}), "amqp:not-implemented"),
        (Filter({symbol("f"): "plain"}), "amqp:not-implemented"),
        (
            Filter({symbol("f"): Described(ulong(0x0000468C00000004), 5)}),
            "amqp:invalid-field",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    clients: Clients, address: str, asked: Filter, condition: str
) -> None:
    assert clients.begin_consumer(clients.connect(), address, asked).condition() == condition


def test_the_code_of_the_selector_will_do(clients: Clients, address: str) -> None:
    asked = Filter({symbol("s"): Described(ulong(0x0000468C00000004), "color = 'blue'")})
    blue = clients.consumer(clients.connect(), address, asked, credit=2)
    publish(clients.producer(clients.connect(), address), "red", "blue")
    assert blue.accept(1) == [1]


@pytest.mark.parametrize("seed", range(5))
def test_random_steps_lose_nothing_and_mix_nothing(
    clients: Clients, address: str, seed: int
) -> None:
    """Selective and plain consumers take, give back and leave; each message ends once."""
    chance = random.Random(seed)
    colors = [chance.choice(["blue", "red", "green"]) for _ in range(120)]
    producer = clients.producer(clients.connect(), address)
    wanted: list[str | None] = ["blue", "red", "green", "blue", None]
    consumers: list[tuple[str | None, Consumer]] = []
    ended: list[int] = []

    def join(color: str | None) -> None:
        options = [Selector(f"color = '{color}'")] if color else []
        consumers.append((color, clients.consumer(clients.connect(), address, *options, credit=4)))

    for color in wanted:
        join(color)
    publish(producer, *colors)
    while len(ended) < len(colors):
        clients.wait(lambda: any(one.received for _, one in consumers), "a message comes")
        color, consumer = chance.choice([each for each in consumers if each[1].received])
        received = consumer.received.pop(chance.randrange(len(consumer.received)))
        assert color in {None, colors[received.body]}
        if chance.random() < 0.5:
            received.accept()
            ended.append(received.body)
        elif chance.random() < 0.1:
            consumer.close()
            consumers.remove((color, consumer))
            join(color)
            continue
        else:
            received.release()
        consumer.link.flow(1)
    assert sorted(ended) == list(range(len(colors)))


# -- selectors that are asked in several turns of the server's loop

LONG = {"text": "a" * 60_000}
# Each evaluation is a large part of what one turn may have.
PIECES = "text LIKE '" + "%a_" * 1000


def expensive_consumers(clients: Clients, address: str) -> tuple[list[Consumer], list[Consumer]]:
    """Return consumers of a topic whose selectors match, and others that match nothing."""
    return tuple(  # type: ignore[return-value]
        [
            clients.consumer(
                clients.connect(), address, Topic(), Selector(PIECES + end), credit=100
            )
            for _ in range(8)
        ]
        for end in ("%'", "%b'")
    )


@pytest.mark.parametrize("anonymous", [False, True])
def test_a_topic_asks_many_expensive_selectors(
    clients: Clients, address: str, anonymous: bool
) -> None:
    address = f"topic-{address}"
    matching, others = expensive_consumers(clients, address)
    plain = clients.consumer(clients.connect(), address, Topic(), credit=100)
    producers = [
        clients.producer(clients.connect(), None if anonymous else address) for _ in range(3)
    ]
    deliveries = [
        each.send(f"{producer}-{number}", properties=LONG, address=address)
        for number in range(4)
        for producer, each in enumerate(producers)
    ]
    assert {clients.outcome(each) for each in deliveries} == {Delivery.ACCEPTED}
    for consumer in [plain, *matching]:
        bodies = consumer.accept(12)
        for producer in range(3):
            mine = [body for body in bodies if body.startswith(f"{producer}-")]
            assert mine == [f"{producer}-{number}" for number in range(4)]
    assert [consumer.bodies() for consumer in others] == [[]] * len(others)


@pytest.mark.parametrize("cut", [False, True])
def test_a_producer_leaves_while_selectors_are_asked(
    clients: Clients, address: str, cut: bool
) -> None:
    """The topic goes on with the message of another producer."""
    address = f"topic-{address}"
    matching, _ = expensive_consumers(clients, address)
    connection = clients.connect()
    leaving = clients.producer(connection, address)
    staying = clients.producer(clients.connect(), address)
    leaving.send("left", properties=LONG, settled=True)
    stayed = staying.send("stayed", properties=LONG)
    if cut:
        clients.cut(connection)
    else:
        leaving.link.close()
    # A subscription ends meanwhile, too.
    matching.pop().link.close()
    assert clients.outcome(stayed) == Delivery.ACCEPTED
    for consumer in matching:
        clients.wait(lambda: "stayed" in consumer.bodies(), "the message")  # noqa: B023
        assert consumer.bodies() in (["stayed"], ["left", "stayed"], ["stayed", "left"])


def test_a_consumer_drains_behind_many_messages(clients: Clients, address: str) -> None:
    """It gets all that match before its credit is used up (part 2.6.7)."""
    producer = clients.producer(clients.connect(), address)
    last = producer.send("no", properties=LONG)
    for number in range(30):
        last = producer.send(number, properties={**LONG, "color": "blue" if number == 29 else ""})
    assert clients.outcome(last) == Delivery.ACCEPTED
    other = clients.consumer(clients.connect(), address, Selector(PIECES + "%b'"), credit=10)
    blue = clients.consumer(clients.connect(), address, Selector(PIECES + "%' AND color = 'blue'"))
    blue.link.drain(5)
    clients.wait(lambda: blue.link.credit == 0, "it is drained")
    assert (blue.bodies(), other.bodies()) == ([29], [])
