"""Producers, consumers and transactions while servers are killed, stopped and cut off.

Their wall clocks step meanwhile, forth and back. What clients did and saw is judged at the
end (support.history): of one server, and of two that serve each other's consumers.
QUIVER_FAST_HISTORY says for how many seconds each case is tried; the short ones are killed once.
In the end they live until something of each kind has happened.
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
from support.clock_steps import SteppedClock, compile_clock
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
# Steps of a wall clock, in seconds: within a second, an hour, and over days, which are cycles
# of the queues' files.
STEPS = (-200_000, -3600, -0.4, 0.4, 3600, 90_000)


def key_of(number: int, queue: str) -> Key:
    return Key(number // PRODUCER, number % PRODUCER, queue)


class Site:
    """A server that dies and comes back over the store that it left.

    Args:
        folder: of its own.
        clock: of its own, too.
        seed: of what happens to it, and when.
        keys: of the server.
    """

    def __init__(self, folder: Path, clock: SteppedClock, seed: str, **keys: object) -> None:
        self.folder, self.clock, self.keys = folder, clock, keys
        self.moments = random.Random(seed)
        self.port = free_port()
        self.life = 0
        self.steps = 0
        self.words: list[str] = []

    def start(self, **keys: object) -> Running:
        """Start a server over the store that the last one left."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self.life += 1
        words = command(
            self.port, ready, store=self.folder / "store", path="a", roll_size=65536,
            **{**self.keys, **keys},
        )  # fmt: skip
        running = Running(words, env=self.clock.environment)
        wait_until(lambda: is_ready(ready) or running.process.poll() is not None, "ready", PATIENCE)
        assert running.process.poll() is None, running.wait()
        return running

    def live(self, calm: threading.Event, over: threading.Event) -> None:
        """Have a server serve for a while, stopped now and then, and killed at the end.

        Args:
            calm: from now on nothing happens to it.
            over: its end has come.
        """
        with self.start() as running:
            end = time.monotonic() + self.moments.uniform(0.2, 2.0)
            while (time.monotonic() < end or calm.is_set()) and not over.is_set():
                time.sleep(self.moments.uniform(0.02, 0.3))
                chance = 1.0 if calm.is_set() else self.moments.random()
                if chance < 0.2:
                    running.send_signal(signal.SIGSTOP)
                    time.sleep(self.moments.uniform(0.01, 0.3))
                    running.send_signal(signal.SIGCONT)
                elif chance < 0.3:
                    self.clock.step(self.moments.choice(STEPS))
                    self.steps += 1
            running.process.kill()
            self.words.append(running.wait().stderr)


class World:
    """Servers, and what their clients know."""

    def __init__(self, sites: list[Site]) -> None:
        self.sites = sites
        self.history = History()
        self.calm = threading.Event()
        self.over = threading.Event()
        self.failures: list[BaseException] = []

    def guard(self, work: Callable[[], None]) -> None:
        """Do something again and again until all is over; what fails ends it."""
        try:
            while not self.over.is_set():
                work()
        except BaseException as error:
            self.failures.append(error)
            self.over.set()

    def live(self, seconds: float) -> None:
        """Have all servers live and die for a time, and then live until enough has happened."""
        threads = [
            threading.Thread(
                target=self.guard, args=[lambda site=site: site.live(self.calm, self.over)]
            )
            for site in self.sites
        ]
        if seconds == 0:
            self.calm.set()
        for thread in threads:
            thread.start()
        self.over.wait(seconds)
        self.calm.set()
        try:
            wait_until(lambda: self.over.is_set() or self.has_all(), "all happens", PATIENCE, 0.1)
        finally:
            self.over.set()
            for thread in threads:
                thread.join()

    def has_all(self) -> bool:
        """Say whether something of each kind has happened."""
        history = self.history
        has_committed = any(transaction.committed for transaction in list(history.transactions))
        return bool(history.accepted) and has_committed and self.has_passed()

    def has_passed(self) -> bool:
        """Say whether a message came to a consumer at another server than its producer's."""
        # One consumer and no mover take from the queue of the producer 3.
        passed = any(
            event.consumer == 5 and event.key.producer == 3 for event in list(self.history.events)
        )
        return passed or len(self.sites) == 1


class Worker:
    """A client that goes on whatever happens to its connections, in a thread of its own."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number, self.sent = world, number, 0
        # One of the two servers has consumers of the queues of the other's producers.
        self.site = world.sites[number // 2 % len(world.sites)]
        self.life = 0
        self.moments = random.Random(number)
        self.thread = threading.Thread(target=world.guard, args=[self.run], daemon=True)

    def run(self) -> None:
        self.life = self.site.life
        try:
            with DurableClient(self.site.port) as client:
                self.work(client)
        except (LostError, OSError):
            time.sleep(0.02)

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


def watch(world: World, seconds: float) -> None:
    """Have clients and servers at it for a time, and then take what is left."""
    clients = workers(world)
    for worker in clients:
        worker.thread.start()
    world.live(seconds)
    for worker in clients:
        worker.thread.join(PATIENCE)
    assert not any(worker.thread.is_alive() for worker in clients), "a client hangs"
    for site in world.sites:
        rest = Rest(world, 0)
        # Nothing goes from one to the other any more.
        with site.start(connect=None) as running, DurableClient(site.port) as client:
            rest.life = site.life
            rest.work(client)
            running.process.kill()
            running.wait()
    if world.failures:
        raise world.failures[0]


def say(name: str, world: World) -> None:
    history = world.history
    committed = [transaction.committed for transaction in history.transactions]
    print(f"{name}: {sum(site.life for site in world.sites)} lives, "
          f"{sum(site.steps for site in world.sites)} steps of clocks, "
          f"{len(history.accepted)} accepted, {len(history.events)} events, "
          f"{len(committed)} transactions, {committed.count(True)} committed, "
          f"{committed.count(None)} in doubt")  # fmt: skip


def site(tmp_path: Path, name: str, library: Path, **keys: object) -> Site:
    folder = tmp_path / name
    folder.mkdir()
    return Site(folder, SteppedClock(folder, library), f"{name} {keys} {SECONDS}", **keys)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a server's clock step."""
    return compile_clock(tmp_path_factory.mktemp("so"))


@pytest.mark.parametrize(
    ("durability", "seconds"),
    [("group", 0.0), *(pytest.param(name, SECONDS, marks=pytest.mark.slow)
                       for name in ("none", "interval:5", "group"))],
)  # fmt: skip
@pytest.mark.timeout(300 + 3 * SECONDS)
def test_history(tmp_path: Path, library: Path, durability: str, seconds: float) -> None:
    world = World([site(tmp_path, "alone", library, durability=durability)])
    watch(world, seconds)
    say(durability, world)
    assert world.sites[0].words == [""] * len(world.sites[0].words)
    assert world.history.faults() == []
    assert world.has_all()


@pytest.mark.parametrize("seconds", [0.0, pytest.param(SECONDS, marks=pytest.mark.slow)])
@pytest.mark.timeout(300 + 3 * SECONDS)
def test_history_of_a_trunk(tmp_path: Path, library: Path, seconds: float) -> None:
    near = site(tmp_path, "near", library, durability="group", trunks="*")
    far = site(
        tmp_path, "far", library, durability="group", connect=f"127.0.0.1:{near.port}"
    )  # fmt: skip
    world = World([near, far])
    watch(world, seconds)
    say("trunk", world)
    assert world.history.faults(trunks=True) == []
    assert world.has_all()
