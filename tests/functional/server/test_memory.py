"""Producers are paused by credit while a queue is full, and never dropped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest
from proton import Delivery
from support.arrows import arguments, run_pyfast
from support.clients import Clients, Consumer, Producer, fill
from support.judgement import assert_clean
from support.measured import Figure
from support.server import Server
from support.streams import rss

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite

Connect = Callable[..., tuple[Server, Clients]]

LIMIT = 65536


def empty(clients: Clients, address: str, producer: Producer, sent: dict[object, str]) -> list[str]:
    """Take all that was and will be sent; return the bodies."""
    consumer = clients.consumer(clients.connect(), address, credit=10_000)
    taken: list[str] = []

    def take() -> bool:
        taken.extend(consumer.accept(len(consumer.received)))
        return len(taken) >= len(sent)

    clients.wait(take, lambda: f"all {len(sent)} come, not just {len(taken)}")
    consumer.close()
    assert all(clients.outcome(each) == Delivery.ACCEPTED for each in sent)
    assert clients.drain_queue(clients.connect(), address) == []
    return taken


@pytest.mark.parametrize("size", [1, 1000, 10_000, 60_000])
def test_a_full_queue_pauses_its_producer(connect: Connect, size: int) -> None:
    _, clients = connect(queue_limit=LIMIT, credit=20)
    producer = clients.producer(clients.connect(), "queue0")
    sent = fill(clients, producer, size)
    accepted = sum(bool(each.remote_state) for each in sent)
    # One message may go beyond the limit. Small ones cost more than their bytes.
    assert (accepted - 1) * size < LIMIT
    assert accepted < 1000
    assert producer.link.credit == 0 or size == 1
    assert empty(clients, "queue0", producer, sent) == list(sent.values())
    producer.publish("and on")


def test_many_producers_of_a_full_queue(connect: Connect) -> None:
    """All wait, all go on, and what each sent keeps its order."""
    _, clients = connect(queue_limit=LIMIT, credit=20)
    producers = [clients.producer(clients.connect(), "queue0") for _ in range(4)]
    sent = {}
    for producer in producers:
        clients.wait(lambda p=producer: p.link.credit > 0, "credit")  # type: ignore[misc]
    for number, producer in enumerate(producers):
        while producer.link.credit:
            body = (number, len(sent), "." * 5000)
            sent[producer.send(list(body))] = list(body)
    clients.pause(0.3)
    assert not all(each.remote_state for each in sent)
    taken = empty(clients, "queue0", producers[0], sent)
    for number in range(4):
        expected = [body for body in sent.values() if body[0] == number]
        assert [body for body in taken if body[0] == number] == expected


def test_the_anonymous_terminus_is_paused_as_well(connect: Connect) -> None:
    _, clients = connect(queue_limit=LIMIT, credit=20)
    relay = clients.producer(clients.connect(), None)
    sent = fill(clients, relay, address="relayed")
    assert sum(bool(each.remote_state) for each in sent) <= LIMIT // 10_000 + 1
    assert empty(clients, "relayed", relay, sent) == list(sent.values())


@pytest.mark.parametrize("how", ["close", "cut"])
def test_a_full_dynamic_queue_goes(connect: Connect, how: str) -> None:
    """Producers that waited for its room are told and go on, by address and by relay."""
    _, clients = connect(queue_limit=LIMIT, credit=20, addresses=",")
    node = clients.consumer(clients.connect(), None, dynamic=True)
    relay = clients.producer(clients.connect(), None)
    sent = fill(clients, relay, address=node.address)
    if how == "close":
        node.close()
    else:
        clients.cut(node.link.connection)
    clients.wait(lambda: all(each.remote_state for each in sent), "the relay goes on")
    assert list(sent)[-1].remote_state == Delivery.REJECTED
    assert clients.outcome(relay.send("x", address="queue0")) == Delivery.ACCEPTED


@pytest.mark.parametrize("how", ["close", "cut"])
def test_a_paused_producer_goes(connect: Connect, how: str) -> None:
    """Its unfinished messages are gone with it; the others go on."""
    _, clients = connect(queue_limit=LIMIT, credit=20)
    leaving = clients.producer(clients.connect(), "queue0")
    staying = clients.producer(clients.connect(), "queue0")
    fill(clients, leaving)
    waiting = staying.send("stays")
    clients.pause()
    assert not waiting.remote_state
    if how == "close":
        leaving.link.close()
    else:
        clients.cut(leaving.link.connection)
    clients.pause()
    consumer = clients.consumer(clients.connect(), "queue0", credit=1000)
    clients.wait(
        lambda: "stays" in consumer.accept(len(consumer.received)), "the other one's message"
    )
    assert clients.outcome(waiting) == Delivery.ACCEPTED


@pytest.mark.measured
def test_memory_of_tiny_messages_is_bounded_too(connect: Connect, figure: Figure) -> None:
    """A message of a few bytes is counted with the memory of its entry."""
    server, clients = connect(queue_limit=8 << 20, credit=5000)
    producer = clients.producer(clients.connect(), "queue0")
    before = rss(server)
    sent = 0
    clients.wait(lambda: producer.link.credit > 0, "credit")
    while producer.link.credit:
        for _ in range(producer.link.credit):
            producer.send_encoded(b"\x00\x53\x77\x40", settled=True)
            sent += 1
        clients.pause()
        assert sent < 100_000
    # The queue, and the messages that the link's credit let in beyond it.
    figure("bytes grown by tiny messages", rss(server) - before, at_most=16 << 20, unit="B")


@pytest.mark.measured
def test_idle_connections_cost_little(connect: Connect, figure: Figure) -> None:
    server, _ = connect()
    grown = []
    with contextlib.ExitStack() as stack:
        # Memory that the first connections allocate does not count.
        for _ in range(2):
            before = rss(server)
            for _ in range(400):
                client = stack.enter_context(FrameClient(server.port))
                client.open()
                client.begin()
                client.attach_receiver("queue0")
            grown.append(rss(server) - before)
    figure("bytes of an idle connection", grown[1] / 400, at_most=20_000, unit="B")


def fill_and_stick(server: Server, clients: Clients, count: int) -> tuple[Consumer, int]:
    """Consume the queue, but stop reading; return the consumer and the growth of memory."""
    for _ in range(count // 20):
        clients.producer(clients.connect(), "queue0").publish(*("x" * 100_000,) * 20)
    before = rss(server)
    stuck = clients.consumer(clients.connect(), "queue0", credit=10_000)
    clients.wait(lambda: bool(stuck.received), "the first comes")
    # Nobody drives the client now; the server fills its socket and then waits.
    time.sleep(0.5)
    return stuck, rss(server) - before


@pytest.mark.measured
def test_a_consumer_that_does_not_read_costs_little(connect: Connect, figure: Figure) -> None:
    _, grown = fill_and_stick(*connect(), 400)
    figure("bytes grown by a stuck consumer", grown, at_most=20 << 20, unit="B")


def test_a_consumer_that_does_not_read_is_bounded(connect: Connect) -> None:
    """Messages stay in the queue, not in the output of a connection that is stuck."""
    server, clients = connect()
    stuck, _ = fill_and_stick(server, clients, 200)
    with Clients(server.port) as others:
        left = len(others.drain_queue(others.connect(), "queue0"))
    assert 100 < left < 200
    assert len(stuck.take(200 - left)) == 200 - left


@pytest.mark.measured
def test_a_stuck_consumer_keeps_nothing_that_it_settled(connect: Connect, figure: Figure) -> None:
    """It settles a message after the first frame, and reads no other."""
    server, clients = connect()
    connection, before = clients.connect(), 0
    with contextlib.ExitStack() as stack:
        for number in range(10):
            address = f"stuck-{number}"
            clients.producer(connection, address).publish("x" * (16 << 20))
            client = stack.enter_context(FrameClient(server.port))
            client.open()
            client.begin()
            client.attach_receiver(address)
            client.give_credit(1)
            client.expect("transfer")
            accepted = composite("accepted")
            client.send("disposition", role=True, first=0, settled=True, state=accepted)
            with Clients(server.port) as others:
                assert others.drain_queue(others.connect(), address) == []
            before = before or rss(server)
        grown = rss(server) - before
    figure("bytes grown by nine stuck consumers", grown, at_most=32 << 20, unit="B")


@pytest.mark.measured
def test_a_million_messages(start: Callable[..., Server], figure: Figure) -> None:
    """A queued message of 100 bytes costs some 280 bytes beyond them, not twice that."""
    server = start(queue_limit=1 << 30)
    # Memory that the first objects of each kind allocate does not count.
    assert_clean(run_pyfast(*arguments("send", server.port, count=10_000)))
    before = rss(server)
    assert_clean(run_pyfast(*arguments("send", server.port, count=1_000_000, credit_window=1000)))
    each = (rss(server) - before) / 1_000_000
    figure("bytes beyond a message's own", each - 100, at_most=430, unit="B")
