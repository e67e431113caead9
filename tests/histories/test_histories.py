"""Producers, consumers and transactions while the server is killed, stopped and cut off.

What they did and saw is judged at the end (support.history). QUIVER_FAST_HISTORY says for
how many seconds each policy is tried.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Delivery, Receiver, Sender
from support.durable_client import (
    TRANSACTIONAL,
    DurableClient,
    LostError,
    encoded,
)
from support.history import History, Key
from support.processes import Running, free_port, wait_until
from support.server import command, is_ready

SECONDS = float(os.environ.get("QUIVER_FAST_HISTORY", "7"))
QUEUES = ("a", "b")
# A message's number is that of its producer times this, plus its own.
PRODUCER = 10_000_000
WINDOW = 20
PATIENCE = 90.0


def key_of(number: int, queue: str) -> Key:
    return Key(number // PRODUCER, number % PRODUCER, queue)


class World:
    """A server that dies and comes back, and what its clients know."""

    def __init__(self, folder: Path, durability: str, seed: str) -> None:
        self.folder, self.durability = folder, durability
        self.moments = random.Random(seed)
        self.history = History()
        self.port = free_port()
        self.life = 0
        self.over = threading.Event()
        self.failures: list[BaseException] = []
        self.words: list[str] = []

    def start(self) -> Running:
        """Start a server over the store that the last one left."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self.life += 1
        words = command(
            self.port, ready, store=self.folder / "store", durability=self.durability,
            path="a", roll_size=65536,
        )  # fmt: skip
        running = Running(words)
        wait_until(lambda: is_ready(ready) or running.process.poll() is not None, "ready", PATIENCE)
        assert running.process.poll() is None, running.wait()
        return running

    def live(self) -> None:
        """Have a server serve for a while, stopped now and then, and killed at the end."""
        with self.start() as running:
            end = time.monotonic() + self.moments.uniform(0.2, 2.0)
            while time.monotonic() < end and not self.over.is_set():
                time.sleep(self.moments.uniform(0.02, 0.3))
                if self.moments.random() < 0.2:
                    running.send_signal(signal.SIGSTOP)
                    time.sleep(self.moments.uniform(0.01, 0.3))
                    running.send_signal(signal.SIGCONT)
            running.process.kill()
            self.words.append(running.wait().stderr)


class Worker:
    """A client that goes on whatever happens to its connections, in a thread of its own."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number, self.sent = world, number, 0
        self.moments = random.Random(number)
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        try:
            while not self.world.over.is_set():
                self.life = self.world.life
                try:
                    with DurableClient(self.world.port) as client:
                        self.work(client)
                except (LostError, OSError):
                    time.sleep(0.02)
        except BaseException as error:
            self.world.failures.append(error)

    def goes_on(self) -> bool:
        """Say whether to go on with this connection: now and then one just goes."""
        return not self.world.over.is_set() and self.moments.random() > 0.003

    def work(self, client: DurableClient) -> None:
        raise NotImplementedError

    def received(self, key: Key, *, first: bool) -> None:
        self.world.history.note("received", key, self.number, self.life, first=first)

    def message(self, queue: str) -> tuple[Key, bytes]:
        """Return the next message."""
        self.sent += 1
        size = self.moments.choice((40, 400, 5000))
        return (
            Key(self.number, self.sent, queue),
            encoded(self.number * PRODUCER + self.sent, size),
        )


class Producer(Worker):
    """Sends messages to one queue, a window of them at a time."""

    def work(self, client: DurableClient) -> None:
        queue = QUEUES[self.number % 2]
        sender = client.sender(queue)
        open_: dict[Key, Delivery] = {}
        try:
            while self.goes_on():
                while len(open_) < WINDOW and sender.credit > 0:
                    key, data = self.message(queue)
                    open_[key] = client.send(sender, data)
                client.until(lambda: any(delivery.remote_state for delivery in open_.values()))
                self.note(open_)
        finally:
            self.note(open_)

    def note(self, open_: dict[Key, Delivery]) -> None:
        for key, delivery in list(open_.items()):
            if delivery.remote_state == Delivery.ACCEPTED:
                self.world.history.accept(key)
            if delivery.remote_state:
                del open_[key]


class Consumer(Worker):
    """Receives from one queue; accepts most, releases some, and asks to be sure of it."""

    def work(self, client: DurableClient) -> None:
        history = self.world.history
        queue = QUEUES[self.number % 2]
        receiver = client.receiver(queue, credit=WINDOW)
        held: dict[Key, Delivery] = {}
        try:
            while self.goes_on():
                client.pump(0.02)
                while client.has_message(receiver):
                    message, delivery = client.take_message(receiver)
                    key = key_of(message.id, queue)
                    self.received(key, first=message.first_acquirer)
                    held[key] = delivery
                self.settle(client, held)
                receiver.flow(max(0, WINDOW - receiver.credit - len(held)))
                if client.is_over:
                    raise LostError
        finally:
            # It may get them again before we know that the connection is gone.
            for key in held:
                history.note("let_go", key, self.number, self.life)

    def settle(self, client: DurableClient, held: dict[Key, Delivery]) -> None:
        removed = []
        for key, delivery in list(held.items()):
            chance = self.moments.random()
            if chance < 0.1:
                continue
            if chance < 0.25:
                self.world.history.note("let_go", key, self.number, self.life)
                delivery.update(Delivery.RELEASED)
            else:
                delivery.update(Delivery.ACCEPTED)
                removed.append(key)
            delivery.settle()
            del held[key]
        if not removed:
            return
        try:
            client.sync()
        except LostError:
            for key in removed:
                self.world.history.note("let_go", key, self.number, self.life)
            raise
        for key in removed:
            self.world.history.note("removed", key, self.number, self.life)


class Mover(Worker):
    """Takes messages from one queue and sends others to both, in transactions."""

    def work(self, client: DurableClient) -> None:
        coordinator = client.coordinator()
        senders = {queue: client.sender(queue) for queue in QUEUES}
        receiver = client.receiver("a", credit=0)
        while self.goes_on():
            self.move(client, coordinator, senders, receiver)

    def move(
        self,
        client: DurableClient,
        coordinator: Sender,
        senders: dict[str, Sender],
        receiver: Receiver,
    ) -> None:
        history = self.world.history
        identity = client.declare(coordinator)
        transaction = history.begin(self.life)
        try:
            for queue in self.moments.choices(QUEUES, k=self.moments.randint(1, 4)):
                key, data = self.message(queue)
                transaction.sent.append(key)
                delivery = client.send_in(identity, senders[queue], data)
                assert client.outcome(delivery) == TRANSACTIONAL
                delivery.settle()
            receiver.drain(self.moments.randint(1, 3))
            while True:
                client.until(lambda: client.has_message(receiver) or receiver.credit == 0)
                if not client.has_message(receiver):
                    break
                message, delivery = client.take_message(receiver)
                key = key_of(message.id, "a")
                self.received(key, first=message.first_acquirer)
                transaction.removed.append(key)
                client.accept_in(identity, delivery)
            fail = self.moments.random() < 0.2
        except BaseException:
            # It was never asked for its end, so it is rolled back.
            history.end(transaction, self.number)
            transaction.committed = False
            raise
        history.end(transaction, self.number)
        transaction.committed = client.discharge(coordinator, identity, fail=fail)


class Rest(Worker):
    """Takes all that is left, when nothing happens any more."""

    def work(self, client: DurableClient) -> None:
        for queue in QUEUES:
            for number in client.drain(queue):
                self.received(key_of(number, queue), first=False)


def workers(world: World) -> list[Worker]:
    kinds: list[Callable[[World, int], Worker]] = [
        Producer, Producer, Producer, Consumer, Consumer, Consumer, Mover, Mover,
    ]  # fmt: skip
    return [kind(world, number) for number, kind in enumerate(kinds, 1)]


@pytest.mark.parametrize("durability", ["none", "interval:5", "group"])
@pytest.mark.timeout(300 + 3 * SECONDS)
def test_history(tmp_path: Path, durability: str) -> None:
    world = World(tmp_path, durability, f"{durability} {SECONDS}")
    clients = workers(world)
    for worker in clients:
        worker.thread.start()
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end and not world.failures:
            world.live()
    finally:
        world.over.set()
        for worker in clients:
            worker.thread.join(PATIENCE)
    assert not any(worker.thread.is_alive() for worker in clients), "a client hangs"
    rest = Rest(world, 0)
    with world.start() as running, DurableClient(world.port) as client:
        rest.life = world.life
        rest.work(client)
        running.process.kill()
        running.wait()
    if world.failures:
        raise world.failures[0]
    history = world.history
    committed = [transaction.committed for transaction in history.transactions]
    print(f"{durability}: {world.life} lives, {len(history.accepted)} accepted, "
          f"{len(history.events)} events, {len(committed)} transactions, "
          f"{committed.count(True)} committed, {committed.count(None)} in doubt")  # fmt: skip
    assert world.words == [""] * len(world.words)
    assert history.faults() == []
    assert history.accepted
    assert True in committed
