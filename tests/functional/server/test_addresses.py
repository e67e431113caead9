"""Addresses: on demand, pinned, dynamic, the anonymous terminus, topics and browsing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from proton import Data, Delivery, Terminus, symbol
from proton.reactor import Copy, LinkOption
from support.clients import Clients, fill
from support.departures import port_of, wait_until_gone
from support.server import Server

Connect = Callable[..., tuple[Server, Clients]]


class Topic(LinkOption):
    """Ask for a topic with the capability."""

    def __init__(self, *others: str) -> None:
        self.others = others

    def apply(self, link: object) -> None:
        terminus = link.source if link.is_receiver else link.target  # type: ignore[attr-defined]
        names = [symbol(name) for name in (*self.others, "topic")]
        if len(names) == 1:
            terminus.capabilities.put_symbol(names[0])
            return
        terminus.capabilities.put_array(False, Data.SYMBOL)
        terminus.capabilities.enter()
        for name in names:
            terminus.capabilities.put_symbol(name)
        terminus.capabilities.exit()


# -- on demand and pinned


def test_the_path_is_there_and_others_come_on_demand(connect: Connect) -> None:
    _, clients = connect(path="given")
    connection = clients.connect()
    for address in ("given", "another", "a/b c?d", "ünïcode", "x" * 1000):
        clients.producer(connection, address).publish(address)
        assert clients.drain_queue(connection, address) == [address]


def test_pinned_addresses(connect: Connect) -> None:
    _, clients = connect(path="one", addresses="two,three")
    connection = clients.connect()
    for address in ("one", "two", "three"):
        clients.producer(connection, address).publish("x")
    assert clients.begin_producer(connection, "four").condition() == "amqp:not-found"
    assert clients.begin_consumer(connection, "four").condition() == "amqp:not-found"
    # The connection and its links live on.
    assert clients.drain_queue(connection, "two") == ["x"]


def test_pinned_to_the_path_alone(connect: Connect) -> None:
    _, clients = connect(path="one", addresses=",")
    connection = clients.connect()
    assert clients.begin_producer(connection, "two").condition() == "amqp:not-found"
    clients.producer(connection, "one").publish("x")


def test_pinned_addresses_and_the_anonymous_terminus(connect: Connect) -> None:
    _, clients = connect(path="one", addresses=",")
    relay = clients.producer(clients.connect(), None)
    assert clients.outcome(relay.send("x", address="one")) == Delivery.ACCEPTED
    refused = relay.send("x", address="two")
    assert clients.outcome(refused) == Delivery.REJECTED
    assert refused.remote.condition.name == "amqp:not-found"


# -- the anonymous terminus


def test_anonymous_relay(clients: Clients) -> None:
    connection = clients.connect()
    relay = clients.producer(connection, None)
    for number in range(12):
        assert clients.outcome(relay.send(number, address=f"relay-{number % 3}")) == (
            Delivery.ACCEPTED
        )
    for remainder in range(3):
        expected = [remainder, remainder + 3, remainder + 6, remainder + 9]
        assert clients.drain_queue(connection, f"relay-{remainder}") == expected


def test_relay_to_a_topic(clients: Clients) -> None:
    subscribers = [clients.consumer(clients.connect(), "topic/relay", credit=1) for _ in range(2)]
    relay = clients.producer(clients.connect(), None)
    assert clients.outcome(relay.send("x", address="topic/relay")) == Delivery.ACCEPTED
    assert [each.accept(1) for each in subscribers] == [["x"], ["x"]]


# -- dynamic nodes


def test_request_and_reply(clients: Clients, address: str) -> None:
    """The usual use of dynamic nodes."""
    client, service = clients.connect(), clients.connect()
    replies = clients.consumer(client, None, credit=1, dynamic=True)
    assert replies.link.remote_source.dynamic
    requests = clients.consumer(service, address, credit=1)
    clients.producer(client, address).publish("2 + 2", reply_to=replies.address)
    request = requests.take_one()
    clients.producer(service, request.message.reply_to).publish("4")
    assert replies.accept(1) == ["4"]


@pytest.mark.parametrize("how", ["close", "cut"])
def test_a_dynamic_node_goes_with_its_last_link(connect: Connect, how: str) -> None:
    server, clients = connect(addresses=",")
    connection, other = clients.connect(), clients.connect()
    node = clients.consumer(connection, None, dynamic=True)
    address = node.address
    producer = clients.producer(other, address)
    producer.publish("lost with the node")
    producer.close()
    clients.producer(other, address).close()
    if how == "close":
        node.close()
    else:
        port = port_of(connection)
        clients.cut(connection)
        wait_until_gone(server, port)
    assert clients.begin_producer(other, address).condition() == "amqp:not-found"


# -- topics


@pytest.mark.parametrize("options", [(), (Topic(),), (Topic("shared", "queue"),)])
def test_every_subscriber_gets_every_message(
    clients: Clients, request: pytest.FixtureRequest, options: tuple[LinkOption, ...]
) -> None:
    """By name without a capability, by capability with any name."""
    topic = f"{'news' if options else 'topic'}-{request.node.name}"
    subscribers = [
        clients.consumer(clients.connect(), topic, *options, credit=10) for _ in range(3)
    ]
    producer = clients.producer(clients.connect(), topic)
    producer.publish(*range(10))
    for subscriber in subscribers:
        assert subscriber.accept(10) == list(range(10))


def test_a_producer_may_make_the_topic(clients: Clients, address: str) -> None:
    producer = clients.producer(clients.connect(), address, Topic())
    subscribers = [clients.consumer(clients.connect(), address, credit=1) for _ in range(2)]
    producer.publish("x")
    assert [each.accept(1) for each in subscribers] == [["x"], ["x"]]


def test_a_topic_keeps_nothing(clients: Clients) -> None:
    producer = clients.producer(clients.connect(), "topic-keeps-nothing")
    producer.publish("before")
    late = clients.consumer(clients.connect(), "topic-keeps-nothing", credit=10)
    producer.publish("after")
    assert late.accept(1) == ["after"]
    late.close()
    producer.publish("between")
    later = clients.consumer(clients.connect(), "topic-keeps-nothing", credit=10)
    clients.pause()
    assert later.bodies() == []


def test_subscriptions_are_independent(clients: Clients) -> None:
    """Outcomes and credit of one subscriber do not touch the other."""
    eager = clients.consumer(clients.connect(), "topic-independent", credit=10)
    slow = clients.consumer(clients.connect(), "topic-independent")
    clients.producer(clients.connect(), "topic-independent").publish(*range(5))
    first = eager.take(5)
    first[0].modify(failed=True)
    first[1].reject()
    for received in first[2:]:
        received.accept()
    again = eager.take_one()
    assert (again.body, again.message.delivery_count) == (0, 1)
    slow.link.flow(10)
    received = slow.take(5)
    assert [each.body for each in received] == list(range(5))
    assert received[0].message.delivery_count == 0


def test_a_slow_subscriber_pauses_the_producer(connect: Connect) -> None:
    """Until it reads on, or goes; nothing is dropped meanwhile."""
    _, clients = connect(queue_limit=65536, credit=10)
    eager = clients.consumer(clients.connect(), "topic", credit=1000)
    slow = clients.consumer(clients.connect(), "topic")
    producer = clients.producer(clients.connect(), "topic")
    sent = fill(clients, producer)
    seen = len(eager.received)
    assert eager.accept(seen) == list(sent.values())[:seen]
    slow.link.flow(1000)
    # Its unsettled messages still take room.
    taken = slow.accept(3)
    clients.wait(
        lambda: bool(taken.extend(slow.accept(len(slow.received)))) or len(taken) == len(sent),
        "the slow one gets all",
    )
    assert taken == list(sent.values())
    clients.wait(lambda: all(each.remote_state for each in sent), "the producer goes on")


@pytest.mark.parametrize("how", ["close", "cut"])
def test_a_slow_subscriber_goes(connect: Connect, how: str) -> None:
    _, clients = connect(queue_limit=65536, credit=10)
    slow = clients.consumer(clients.connect(), "topic")
    producer = clients.producer(clients.connect(), "topic")
    sent = fill(clients, producer)
    if how == "close":
        slow.close()
    else:
        clients.cut(slow.link.connection)
    clients.wait(lambda: all(each.remote_state for each in sent), "the producer goes on")
    producer.publish("and on")


# -- browsing


def test_browsing_copies(clients: Clients, address: str) -> None:
    connection = clients.connect()
    producer = clients.producer(connection, address)
    producer.publish(*range(5))
    browsers = [clients.consumer(connection, address, Copy(), credit=100) for _ in range(2)]
    for browser in browsers:
        assert browser.link.remote_source.distribution_mode == Terminus.DIST_MODE_COPY
        assert browser.accept(5) == list(range(5))
    # It goes on with what comes.
    producer.publish(5)
    assert [browser.accept(1) for browser in browsers] == [[5], [5]]
    clients.pause()
    assert browsers[0].bodies() == []
    assert clients.drain_queue(connection, address) == list(range(6))


def test_browsers_do_not_see_what_consumers_have(clients: Clients, address: str) -> None:
    connection = clients.connect()
    clients.producer(connection, address).publish(*range(6))
    consumer = clients.consumer(connection, address, credit=2)
    held = consumer.take(2)
    browser = clients.consumer(connection, address, Copy(), credit=100)
    assert browser.accept(4) == [2, 3, 4, 5]
    fresh = clients.consumer(connection, address, Copy())
    held[1].release()
    clients.sync(connection)
    fresh.link.flow(100)
    assert fresh.accept(5) == [1, 2, 3, 4, 5]


def test_browser_with_little_credit_while_the_queue_moves(clients: Clients, address: str) -> None:
    """A browser's place survives what happens to the entry that it stands on."""
    connection = clients.connect()
    producer = clients.producer(connection, address)
    producer.publish(*range(6))
    browser = clients.consumer(connection, address, Copy(), credit=2)
    assert browser.accept(2) == [0, 1]
    consumer = clients.consumer(connection, address, credit=4)
    assert consumer.accept(4) == [0, 1, 2, 3]
    browser.link.flow(10)
    assert browser.accept(2) == [4, 5]


def test_drain_of_a_browser(clients: Clients, address: str) -> None:
    connection = clients.connect()
    clients.producer(connection, address).publish(*range(3))
    browser = clients.consumer(connection, address, Copy())
    browser.link.drain(10)
    clients.wait(lambda: browser.link.credit == 0, "the drain is answered")
    assert browser.bodies() == [0, 1, 2]
