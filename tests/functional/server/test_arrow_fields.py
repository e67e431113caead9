"""Fields of an arrow's messages, as a client of others and our server see them."""

from __future__ import annotations

import time

import pytest
from proton import Message
from support.arrows import arguments, pyfast, run_pyfast
from support.clients import Clients
from support.judgement import assert_clean, assert_error
from support.processes import Running
from support.server import Server

FIELDS = {
    "durable": 1,
    "priority": 7,
    "ttl": 60_000,
    "subject": "news",
    "group_id": "g1",
    "properties": "color=blue,size=-3,urgent=true,größe=L",
}


def send(server: Server, address: str, count: int, **changes: object) -> None:
    assert_clean(run_pyfast(*arguments("send", server.port, path=address, count=count, **changes)))


def received(clients: Clients, address: str, count: int) -> list[Message]:
    consumer = clients.consumer(clients.connect(), address, credit=count)
    clients.wait(lambda: len(consumer.received) >= count, "messages")
    return [each.message for each in consumer.received]


@pytest.mark.parametrize("with_ids", [0, 1])
def test_a_client_sees_them(server: Server, clients: Clients, address: str, with_ids: int) -> None:
    send(server, address, 12, set_message_id=with_ids, **FIELDS)
    for number, message in enumerate(received(clients, address, 12), 1):
        assert message.durable
        assert message.priority == 7
        assert 0 < message.ttl <= 60
        assert (message.subject, message.group_id) == ("news", "g1")
        assert message.id == (str(number) if with_ids else None)
        properties = dict(message.properties)
        assert abs(properties.pop("SendTime") / 1000 - time.time()) < 60
        assert properties == {"color": "blue", "size": -3, "urgent": True, "größe": "L"}
        assert bytes(message.body) == b"x" * 100


def test_a_selector_finds_them(server: Server, address: str) -> None:
    send(server, address, 10, properties="size=1", priority=2)
    send(server, address, 5, properties="size=10", priority=8)
    words = arguments("receive", server.port, path=address, count=5)
    end = run_pyfast(*words, "filter=size > 5 AND JMSPriority = 8")
    assert_clean(end)
    assert len(end.lines) == 5


def test_what_is_older_than_its_ttl_is_gone(server: Server, clients: Clients, address: str) -> None:
    send(server, address, 3, ttl=1)
    send(server, address, 1)
    time.sleep(0.3)
    (message,) = received(clients, address, 1)
    assert message.ttl == 0


def test_streams_have_them(server: Server, clients: Clients, address: str) -> None:
    consumer = clients.consumer(clients.connect(), address, credit=1)
    words = arguments(
        "send", server.port, path=address, count=1, streaming=1, body_size=100_000,
        properties="color=red",
    )  # fmt: skip
    with Running(pyfast(*words)) as sender:
        received = consumer.take_one()
        received.accept()
        clients.pause()
        assert_clean(sender.wait())
    properties = received.message.properties
    assert (properties["color"], properties["BodySize"]) == ("red", 100_000)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"priority": 10}, "priority"),
        ({"ttl": 2**32}, "ttl"),
        ({"properties": "color"}, "properties: 'color' is not NAME=VALUE"),
        ({"properties": "SendTime=1"}, "set by the sender itself"),
        ({"scheme": "csp", "properties": "a=1"}, "properties"),
        ({"scheme": "csp", "ttl": 1}, "ttl"),
    ],
)
def test_usage_errors(changes: dict[str, object], says: str) -> None:
    end = run_pyfast(*arguments("send", 1, **changes))
    assert_error(end, says, code=2)
