"""Property filters of a source: AMQP Filter Expressions 1.0, working draft 09, part 4."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest
from proton import Data, Described, int32, symbol, ulong
from proton.reactor import Filter, ReceiverOption
from support.clients import Clients, Consumer

PROPERTIES = symbol("amqp:properties-filter")
APPLICATION = symbol("amqp:application-properties-filter")


def by(**properties: Any) -> Filter:
    """Return the option that asks for application properties."""
    return Filter({symbol("app"): Described(APPLICATION, properties)})


def by_fields(fields: dict[str, Any]) -> Filter:
    keyed = {symbol(name): value for name, value in fields.items()}
    return Filter({symbol("props"): Described(PROPERTIES, keyed)})


class Topic(ReceiverOption):
    """The source is a topic."""

    def apply(self, receiver: Any) -> None:
        receiver.source.capabilities.put_object(symbol("topic"))


def publish(clients: Clients, address: str, *messages: dict[str, Any]) -> None:
    producer = clients.producer(clients.connect(), address)
    deliveries = [producer.send(number, **message) for number, message in enumerate(messages)]
    assert {clients.outcome(each) for each in deliveries} == {deliveries[0].ACCEPTED}


def answered(consumer: Consumer) -> dict[str, Any]:
    """Return the filters that the server says are in place."""
    data = consumer.link.remote_source.filter
    data.rewind()
    return dict(data.get_dict()) if data.next() and data.type() == Data.MAP else {}


COLORS = [{"properties": {"color": color, "n": int32(number)}}
          for number, color in enumerate(["red", "green", "dark-red", "blue"])]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (by(color="red"), [0]),
        (by(color="&s:red"), [0, 2]),
        (by(color="&p:dark", n=2), [2]),
        (by(color=None), [0, 1, 2, 3]),
        (by(color="red", shape="round"), []),
        (Filter({symbol("x"): Described(ulong(0x174), {"n": 1.0})}), [1]),
    ],
)
def test_application_properties(
    clients: Clients, address: str, asked: Filter, expected: list[int]
) -> None:
    publish(clients, address, *COLORS)
    consumer = clients.consumer(clients.connect(), address, asked, credit=10)
    others = [each for each in range(4) if each not in expected]
    assert consumer.accept(len(expected)) == expected
    assert clients.consumer(clients.connect(), address, credit=10).accept(len(others)) == others


def test_fields_and_a_selector_together(clients: Clients, address: str) -> None:
    """A message has to pass each filter of the source (part 3.5.8)."""
    publish(
        clients, address,
        *({"subject": subject, "properties": {"n": n}} for subject in ("ab", "b") for n in (1, 2)),
    )  # fmt: skip
    asked = {
        symbol("props"): Described(PROPERTIES, {symbol("subject"): "&p:a"}),
        symbol("app"): Described(APPLICATION, {"n": 2}),
        symbol("selector"): Described(symbol("apache.org:selector-filter:string"), "n > 0"),
    }
    consumer = clients.consumer(clients.connect(), address, Filter(asked), credit=10)
    assert consumer.accept(1) == [1]
    assert answered(consumer) == asked


def test_a_subscription(clients: Clients, address: str) -> None:
    red = clients.consumer(clients.connect(), address, Topic(), by(color="&s:red"), credit=10)
    every = clients.consumer(clients.connect(), address, Topic(), credit=10)
    publish(clients, address, *COLORS)
    assert (every.accept(4), red.accept(2)) == ([0, 1, 2, 3], [0, 2])


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        (by(), "amqp:invalid-field"),
        (by(color="&x:red"), "amqp:invalid-field"),
        (by(color=uuid.uuid4()), "amqp:not-implemented"),
        (by(color=["red"]), "amqp:not-implemented"),
        (by_fields({"color": "red"}), "amqp:invalid-field"),
        (by(**{f"p{n}": n for n in range(17)}), "amqp:invalid-field"),
        (Filter({symbol("x"): Described(APPLICATION, "red")}), "amqp:invalid-field"),
        (Filter({symbol("x"): Described(PROPERTIES, {"subject": "a"})}), "amqp:invalid-field"),
        (
            Filter({symbol("x"): Described(APPLICATION, {symbol("color"): "red"})}),
            "amqp:invalid-field",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    clients: Clients, address: str, asked: Filter, condition: str
) -> None:
    assert clients.begin_consumer(clients.connect(), address, asked).condition() == condition


@pytest.mark.parametrize("seed", range(20))
def test_random_filters_are_answered_or_refused(clients: Clients, address: str, seed: int) -> None:
    """The server lives, and a filter that it names is the one that was asked for."""
    chance = random.Random(seed)

    def value(depth: int = 0) -> Any:
        plain = [None, True, -1, 2.5, "a", "&p:", "&s:é", "&&", "&", symbol("s"), b"\xff", ulong(7)]
        if depth == 2 or chance.random() < 0.7:
            return chance.choice(plain)
        inner = value(depth + 1)
        return chance.choice([[inner], Described(symbol("d"), inner), {"k": inner}])

    asked = {
        symbol(f"f{number}"): Described(
            chance.choice([PROPERTIES, APPLICATION, ulong(0x173), ulong(0x174)]),
            {
                chance.choice(["color", symbol("subject"), symbol("group-id"), 5]): value()
                for _ in range(chance.randrange(3))
            },
        )
        for number in range(chance.randrange(1, 4))
    }
    consumer = clients.begin_consumer(clients.connect(), address, Filter(asked))
    answer = consumer.link.REMOTE_ACTIVE | consumer.link.REMOTE_CLOSED
    clients.wait(lambda: consumer.link.state & answer, "the answer")
    assert answered(consumer) in ({}, asked)
