"""Queues that give messages of a higher priority first, as `priorities` has them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from proton.reactor import Selector
from support.clients import Clients
from support.server import Server

Start = Callable[..., Server]
Connect = Callable[..., tuple[Server, Clients]]
DEFAULT = 4


def send(producer: Any, *messages: tuple[int, int | None]) -> None:
    """Send numbers, each with a priority or none."""
    for number, priority in messages:
        fields = {} if priority is None else {"priority": priority}
        producer.publish(number, **fields)


def ordered(messages: list[tuple[int, int | None]]) -> list[int]:
    """Return the numbers as they are to come; the slow twin of a sequence with a priority."""
    key = [(-(DEFAULT if priority is None else priority), number) for number, priority in messages]
    return [number for _, number in sorted(key)]


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_sending(connect: Connect, seed: int) -> None:
    """Random priorities; some are taken, some of those given back, then more are sent."""
    choose = random.Random(seed)
    _, clients = connect(priorities="p")
    connection = clients.connect()
    producer = clients.producer(connection, "p")
    waiting: list[tuple[int, int | None]] = []
    number = 0
    for _ in range(6):
        for _ in range(choose.randrange(15)):
            message = (number, choose.choice([None, 0, 4, 5, 9, 255]))
            send(producer, message)
            waiting.append(message)
            number += 1
        count = choose.randrange(len(waiting) + 1)
        if not count:
            continue
        consumer = clients.consumer(connection, "p", credit=count)
        taken = consumer.take(count)
        assert [each.body for each in taken] == ordered(waiting)[:count]
        for each in taken:
            if choose.random() < 0.5:
                each.release()
            else:
                each.accept()
                waiting = [message for message in waiting if message[0] != each.body]
        consumer.close()
    assert clients.drain_queue(connection, "p") == ordered(waiting)


def test_without_the_option_they_come_as_they_were_sent(connect: Connect) -> None:
    _, clients = connect(priorities="p")
    connection = clients.connect()
    send(clients.producer(connection, "q"), (0, 1), (1, 9), (2, None))
    assert clients.drain_queue(connection, "q") == [0, 1, 2]


def test_a_consumer_with_a_selector_gets_what_comes_before_its_place(connect: Connect) -> None:
    _, clients = connect(priorities="*")
    connection = clients.connect()
    producer = clients.producer(connection, "p")
    consumer = clients.consumer(connection, "p", Selector("n > 0"), credit=1)
    for number, priority in enumerate((4, 4, 9, 5)):
        producer.publish(number, priority=priority, properties={"n": number})
    # It went through all of them, and holds 1, the first that matches.
    [first] = consumer.take(1)
    consumer.link.flow(10)
    assert [first.body, *(each.body for each in consumer.take(2))] == [1, 2, 3]
    assert clients.drain_queue(connection, "p") == [0]


def test_subscriptions_of_a_topic(connect: Connect) -> None:
    _, clients = connect(priorities="topic/p")
    connection = clients.connect()
    consumer = clients.consumer(connection, "topic/p", credit=0)
    send(clients.producer(connection, "topic/p"), (0, 1), (1, 9), (2, None))
    consumer.link.flow(3)
    assert consumer.accept(3) == [1, 2, 0]


def test_what_is_stored_comes_by_priority_after_a_crash(start: Start, tmp_path: Path) -> None:
    keys = {"store": tmp_path / "store", "priorities": "p"}
    server = start(**keys)
    with Clients(server.port) as clients:
        producer = clients.producer(clients.connect(), "p")
        for number, priority in enumerate((1, 9, 4, 9)):
            producer.publish(number, durable=True, priority=priority)
        server.kill()
    server = start(**keys)
    with Clients(server.port) as clients:
        connection = clients.connect()
        clients.producer(connection, "p").publish(4, durable=True, priority=5)
        assert clients.drain_queue(connection, "p") == [1, 3, 4, 2, 0]
