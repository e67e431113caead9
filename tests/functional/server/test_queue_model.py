"""The queue against a slow and obvious twin: lists in place of links and counts.

Hypothesis drives the real server through AMQP and the twin through the same steps, and
after each they must have delivered the same messages to the same consumers.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.clients import Clients, Consumer, Received
from support.departures import port_of, wait_until_gone
from support.examples import examples
from support.server import Server, running_server

CONSUMERS = 3
ADDRESSES = itertools.count()


class TwinConsumer:
    """A consumer's credit, its deliveries, and the messages that it must never get again."""

    def __init__(self) -> None:
        self.credit = 0
        self.held: set[int] = set()


class TwinQueue:
    """The model of a queue: messages in order, each acquired or available."""

    def __init__(self) -> None:
        self.available: list[int] = []
        self.failures: dict[int, int] = {}
        self.used: set[int] = set()
        self.barred: set[tuple[int, int]] = set()
        self.consumers: dict[int, TwinConsumer] = {}
        # The next consumers: those with credit, in turn.
        self.turn: list[int] = []

    def put(self, message: int) -> None:
        self.available.append(message)
        self.failures[message] = 0

    def put_back(self, message: int) -> None:
        self.used.add(message)
        self.available.append(message)
        self.available.sort()

    def set_credit(self, consumer: int, credit: int) -> None:
        self.consumers[consumer].credit = credit
        if credit and consumer not in self.turn:
            self.turn.append(consumer)

    def dispatch(self) -> None:
        for message in list(self.available):
            allowed = [each for each in self.turn if (message, each) not in self.barred]
            if not allowed:
                continue
            consumer = allowed[0]
            self.available.remove(message)
            self.consumers[consumer].held.add(message)
            self.consumers[consumer].credit -= 1
            # A consumer that got one goes last; a skipped one keeps its turn.
            if consumer == self.turn[0]:
                self.turn.append(self.turn.pop(0))
            if self.consumers[consumer].credit == 0:
                self.turn.remove(consumer)


class QueueMachine(RuleBasedStateMachine):
    """Steps of producers and consumers, one at a time and each to its end."""

    server: Server

    def __init__(self) -> None:
        super().__init__()
        # A queue of its own, of the server that all examples share.
        self.address = f"queue{next(ADDRESSES)}"
        self.clients = Clients(self.server.port)
        self.producer = self.clients.producer(self.clients.connect(), self.address)
        self.ends: dict[int, Consumer] = {}
        self.held: dict[int, tuple[int, Received]] = {}
        self.twin = TwinQueue()
        self.numbers = itertools.count()
        self.names = itertools.count()

    def teardown(self) -> None:
        self.clients.__exit__(None, None, None)

    # -- steps

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            number = next(self.numbers)
            self.producer.publish(number)
            self.twin.put(number)
            self.settle_down()

    @precondition(lambda self: len(self.ends) < CONSUMERS)
    @rule()
    def attach(self) -> None:
        name = next(self.names)
        self.ends[name] = self.clients.consumer(self.clients.connect(), self.address)
        self.twin.consumers[name] = TwinConsumer()

    @precondition(lambda self: self.ends)
    @rule(data=st.data(), credit=st.integers(1, 4))
    def flow(self, data: st.DataObject, credit: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.ends)))
        self.ends[name].link.flow(credit)
        self.clients.sync(self.ends[name].link.connection)
        self.twin.set_credit(name, self.twin.consumers[name].credit + credit)
        self.settle_down()

    @precondition(lambda self: self.ends)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.ends)))
        link = self.ends[name].link
        link.drain(2)
        self.twin.set_credit(name, self.twin.consumers[name].credit + 2)
        self.settle_down()
        self.clients.wait(lambda: link.credit == 0, "the drain is answered")
        link.drain_mode = False
        self.twin.consumers[name].credit = 0
        if name in self.twin.turn:
            self.twin.turn.remove(name)
        self.settle_down()

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["accept", "reject", "release", "fail", "refuse", "both"]),
    )
    def decide(self, data: st.DataObject, outcome: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.held)))
        name, received = self.held.pop(number)
        self.twin.consumers[name].held.remove(number)
        if outcome in ("accept", "reject"):
            getattr(received, outcome)()
        elif outcome == "release":
            received.release()
            self.twin.put_back(number)
        else:
            failed, undeliverable = outcome in ("fail", "both"), outcome in ("refuse", "both")
            received.modify(failed=failed, undeliverable=undeliverable)
            self.twin.failures[number] += failed
            if undeliverable:
                self.twin.barred.add((number, name))
            self.twin.put_back(number)
        self.clients.sync(self.ends[name].link.connection)
        self.settle_down()

    @precondition(lambda self: self.ends)
    @rule(data=st.data(), how=st.sampled_from(["link", "connection", "cut"]))
    def leave(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.ends)))
        end = self.ends.pop(name)
        port = port_of(end.link.connection)
        if how == "link":
            end.close()
        elif how == "connection":
            end.link.connection.close()
        else:
            self.clients.cut(end.link.connection)
        gone = self.twin.consumers.pop(name)
        if name in self.twin.turn:
            self.twin.turn.remove(name)
        for number in gone.held:
            del self.held[number]
            self.twin.put_back(number)
        if how != "link":
            self.clients.pause(0.01)
            wait_until_gone(self.server, port)
        self.clients.sync(self.producer.link.connection)
        self.settle_down()

    # -- what both must agree on

    def settle_down(self) -> None:
        """Let the twin dispatch, and wait for the server's deliveries to be as many."""
        self.twin.dispatch()
        expected = sum(len(each.held) for each in self.twin.consumers.values())

        def collect() -> bool:
            for name, end in self.ends.items():
                for received in end.take(len(end.received)):
                    self.held[received.body] = (name, received)
            return len(self.held) >= expected

        self.clients.wait(collect, lambda: f"{expected} deliveries: {self.seen()}")

    def seen(self) -> dict[int, list[int]]:
        return {
            name: sorted(number for number, (holder, _) in self.held.items() if holder == name)
            for name in self.ends
        }

    @invariant()
    def the_same_messages_at_the_same_consumers(self) -> None:
        assert self.seen() == {
            name: sorted(each.held) for name, each in self.twin.consumers.items()
        }
        for number, (_, received) in self.held.items():
            message: Any = received.message
            assert message.delivery_count == self.twin.failures[number]
            # Only returned messages have a header of the server's own.
            assert not (message.first_acquirer and number in self.twin.used)


class TestQueue(QueueMachine.TestCase):  # type: ignore[name-defined, misc]
    """All examples on one server."""

    settings = settings(
        max_examples=examples(15), stateful_step_count=30, deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        running = running_server(Path(folder.name))
        QueueMachine.server = running.__enter__()
        cls.addClassCleanup(running.__exit__, None, None, None)
