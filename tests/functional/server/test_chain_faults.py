"""Durable streams whose file, server, disk or transaction fails: whole or not at all."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Delivery, Described, Endpoint, Message, Receiver
from support.clients import Clients
from support.durable_client import TRANSACTIONAL, DurableClient
from support.engine_client import EngineClient
from support.faults import Faults, Kind
from support.preload import compile_preload
from support.processes import wait_until
from support.server import Server, running_server
from support.streams import head, received

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.live import LiveEntries
from quiver_fast.queuefile.retention import Retention
from tests.functional.server.test_chains import (
    DURABLE,
    MAGIC,
    PART,
    QUEUE,
    REFERENCE,
    live,
    message_of,
    parts_of,
    send,
    streamed,
)
from tests.functional.server.test_durability import small_disk
from tests.functional.server.test_torn_transactions import cut, documents
from tests.functional.server.test_transactions import DISCHARGE, Controller, retire

MEBIBYTE = 1 << 20
NO_ROLL = 1 << 40
# The beginning of an entry of bytes.
RAW = b"\x82"

# A chain whose parts are entries, as earlier servers wrote them.
OLD = 0
# Writes to a file: the number of a chain, a whole message, or an end of the file.
WHOLE, ROLL = 3, 4
EVENTS = st.lists(
    st.tuples(st.integers(0, ROLL), st.integers(0, 3000), st.booleans()), min_size=1, max_size=20
)
# Where its last file is cut, by share: at a byte or at an entry, whose bytes may be there.
CUTS = st.tuples(st.floats(0, 1), st.sampled_from(["byte", "entry", "dirty entry"]))


def write(queue: Path, events: list[tuple[int, int, bool]]) -> set[bytes]:
    """Write chains and messages as a server would, one chain as earlier ones did.

    Returns the messages that are whole.
    """
    chains: dict[int, tuple[int, list[bytes]]] = {}
    whole = set()
    with Appender(queue) as appender:
        retention = Retention(appender, {}, {}, NO_ROLL)
        for number, (what, size, last) in enumerate(events):
            body = os.urandom(size)
            if what == ROLL:
                retention.roll()
                continue
            if what == WHOLE:
                whole.add(message_of(body))
                appender.append_raw(message_of(body))
                continue
            chain, parts = chains.setdefault(what, (number, []))
            parts.append(body if parts else message_of(body))
            if what == OLD:
                named = struct.pack("<QII", chain, len(parts) - 1, last)
                appender.append_raw(MAGIC + named + parts[-1])
            else:
                write_part(appender, chain, parts, last)
            if last:
                whole.add(b"".join(parts))
                del chains[what]
    return whole


def write_part(appender: Appender, chain: int, parts: list[bytes], last: bool) -> None:
    """Write the latest part of a chain, and what makes it whole: a copy if the number is odd."""
    copied = chain % 2
    ending = 1 + copied if last else 0
    named = struct.pack("<QII", chain, len(parts) - 1, ending)
    event = PART + struct.pack("<I", 1 + len(named) + len(parts[-1])) + b"\x8a"
    appender.append_meta_data(event + named + parts[-1])
    message = b"".join(parts)
    if last and copied:
        appender.append_raw(message)
    elif last:
        named = struct.pack("<QIIQ", chain, len(parts), 0, len(message))
        appender.append_raw(REFERENCE + named + message[:4096])


def damage(queue: Path, share: float, how: str) -> None:
    """Cut the last file of a queue."""
    path = max(queue.glob("*.cq4"))
    entries = [(at, content) for at, content in documents(path) if content[:1] == RAW]
    if not entries:
        return
    places = [at for at, _ in entries]
    places.append(places[-1] + 4 + len(entries[-1][1]))
    if how == "byte":
        first = places[0]
        os.truncate(path, first + int(share * (places[-1] - first)))
    else:
        place = places[min(int(share * len(places)), len(places) - 2)]
        cut(path, place, dirty=how == "dirty entry")


def expected(queue: Path) -> list[bytes]:
    """Put together what entries are left, as the format says; the server's slow twin."""
    parts: dict[int, list[bytes]] = {}
    new = parts_of(queue)
    found = []
    for _, entry in LiveEntries(queue):
        data = entry[6:]
        if data.startswith(REFERENCE):
            chain, count, _, size = struct.unpack_from("<QIIQ", data, len(REFERENCE))
            found.append(b"".join(new[chain, part] for part in range(count)))
            assert len(found[-1]) == size
            continue
        if not data.startswith(MAGIC):
            found.append(data)
            continue
        chain, part, last = struct.unpack_from("<QII", data, len(MAGIC))
        if part == len(parts.setdefault(chain, [])):
            parts[chain].append(data[24:])
            if last:
                found.append(b"".join(parts.pop(chain)))
    return found


def everything(client: EngineClient, address: str) -> list[bytes]:
    """Take all that a queue has, and accept it."""
    receiver = client.receiver(address, 0)
    receiver.drain(1000)
    found = []
    data = b""

    def drained() -> bool:
        nonlocal data
        while receiver.current is not None:
            while part := receiver.recv(65536):
                data += part
            if receiver.current.partial:
                break
            found.append(data)
            data = b""
            client.accept(receiver)
        return receiver.current is None and receiver.credit == 0

    client.until(drained)
    receiver.close()
    # The server has read all outcomes when it answers.
    client.until(lambda: bool(receiver.state & Endpoint.REMOTE_CLOSED))
    return found


class TestAFileThatIsCut:
    # Few examples of many queues: each takes a server.
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
    @given(queues=st.lists(st.tuples(EVENTS, CUTS), min_size=8, max_size=12))
    def test_what_is_whole_comes_and_nothing_else(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        queues: list[tuple[list[tuple[int, int, bool]], tuple[float, str]]],
    ) -> None:
        """Wherever the cut is, and over several files."""
        folder = tmp_path_factory.mktemp("cut")
        store = folder / "store"
        whole, left = [], []
        for number, (events, (share, how)) in enumerate(queues):
            whole.append(write(store / f"q{number}", events))
            damage(store / f"q{number}", share, how)
            left.append(expected(store / f"q{number}"))
        # Recovery reports dropped entries, if there is anything behind the damage.
        running = running_server(folder, store=store, says=None)
        with running as server, EngineClient(server.port) as client:
            for number, messages in enumerate(left):
                found = everything(client, f"q{number}")
                assert found == messages
                assert whole[number].issuperset(found)
        for number in range(len(queues)):
            assert list(LiveEntries(store / f"q{number}")) == []


class TestAcrossFiles:
    @pytest.mark.parametrize("complete", [False, True])
    def test_a_chain_in_two_of_them(self, tmp_path: Path, complete: bool) -> None:
        """The server ends a file in the middle of it, and dies."""
        keys = {"store": tmp_path / "store", "roll_size": 65536}
        message = message_of(os.urandom(MEBIBYTE))
        small = DURABLE + head(50_000) + b"x" * 50_000
        with (
            running_server(tmp_path, **keys) as server,
            EngineClient(server.port) as producer,
            EngineClient(server.port) as consumer,
        ):
            sender, other = producer.sender(QUEUE, streaming=True), producer.sender(QUEUE)
            delivery = producer.start(sender, message[:100])
            streamed(producer, sender, message[100:200_000])
            # It takes the stream, and is busy with that.
            consumer.read(consumer.receiver(QUEUE), 100_000)
            receiver = consumer.receiver(QUEUE, credit=100)
            # What is done with makes the file one to be ended.
            while len(list((tmp_path / "store" / QUEUE).glob("*.cq4"))) < 2:
                producer.send(other, small)
                assert received(consumer, receiver, len(small), producer) == small
                producer.until(lambda: other.credit > 0)
            receiver.close()
            consumer.until(lambda: bool(receiver.state & Endpoint.REMOTE_CLOSED))
            streamed(producer, sender, message[200_000:-1])
            if complete:
                sender.stream(message[-1:])
                sender.advance()
                producer.until(lambda: delivery.settled)
            server.kill()
        with running_server(tmp_path, **keys) as again, EngineClient(again.port) as client:
            assert everything(client, QUEUE) == ([message] if complete else [])
        assert live(tmp_path / "store") == []


class TestAServerThatDies:
    @pytest.mark.parametrize("read", [100, 2 * MEBIBYTE, 3 * MEBIBYTE - 1])
    def test_while_it_delivers_it(self, tmp_path: Path, read: int) -> None:
        """Nobody has settled it, so it comes again, and whole."""
        store = tmp_path / "store"
        message = message_of(os.urandom(3 * MEBIBYTE))
        with (
            running_server(tmp_path, store=store) as server,
            EngineClient(server.port) as producer,
            EngineClient(server.port) as consumer,
        ):
            send(producer, producer.sender(QUEUE, streaming=True), message)
            consumer.read(consumer.receiver(QUEUE), read)
            server.kill()
        with running_server(tmp_path, store=store) as again, EngineClient(again.port) as client:
            assert everything(client, QUEUE) == [message]


class TestAFullDisk:
    def test_in_the_middle_of_one(self, tmp_path: Path) -> None:
        """It is refused for now, its parts go, and the next one has their room."""
        with small_disk(tmp_path / "disk") as disk:
            store = disk / "store"
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(MEBIBYTE))
            running = running_server(tmp_path, says="No space left", store=store)
            with running as server, EngineClient(server.port) as producer:
                sender = producer.sender(QUEUE, streaming=True)
                delivery = send(producer, sender, message_of(b"x" * 6 * MEBIBYTE))
                assert delivery.remote_state == Delivery.MODIFIED
                assert delivery.remote.failed
                wait_until(lambda: live(store) == [], "its parts are removed")
                assert everything(producer, QUEUE) == []
                ballast.unlink()
                message = message_of(os.urandom(600_000))
                assert send(producer, sender, message).remote_state == Delivery.ACCEPTED
                assert everything(producer, QUEUE) == [message]


def controller_of(clients: Clients, body: bytes, queue: str = QUEUE) -> Controller:
    """Return a controller of transactions on a queue, to which it has sent one message."""
    controller = Controller(clients, queue)
    sent = controller.producer.link.send(Message(body=body, durable=True))
    clients.wait(lambda: bool(sent.remote_state), "an outcome")
    return controller


class TestInATransaction:
    """The outcome of a message that is a chain is part of a transaction."""

    @pytest.mark.parametrize("crash", [False, True])
    def test_each_outcome(self, tmp_path: Path, crash: bool) -> None:
        """Each on a queue of its own, committed and rolled back."""
        outcomes = [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED]
        store = tmp_path / "store"
        cases = {
            f"{outcome}-{'rolled-back' if fail else 'committed'}": (outcome, fail)
            for outcome in outcomes
            for fail in (False, True)
        }
        # The queue has its file before the message: so that is written as it comes.
        # While its file is being made, a message would be taken in whole.
        for queue in cases:
            Appender(store / queue).close()
        body = os.urandom(600_000)
        with running_server(tmp_path, store=store) as server, Clients(server.port) as clients:
            for queue, (outcome, fail) in cases.items():
                controller = controller_of(clients, body, queue)
                assert len(parts_of(store / queue)) > 1, queue
                assert len(live(store, queue)) == 1, queue
                transaction = controller.declare()
                (got,) = controller.take(1)
                assert got.body == body, queue
                retire(transaction, got, int(outcome))
                controller.discharge(transaction, fail=fail)
            if crash:
                server.kill()
            else:
                check_all(clients, body, cases)
        if crash:
            with running_server(tmp_path, store=store) as server, Clients(server.port) as clients:
                check_all(clients, body, cases)
        for queue in cases:
            assert live(store, queue) == [], queue

    def test_a_crash_before_its_end(self, tmp_path: Path) -> None:
        # The queue has its file before the message: so that is written as it comes.
        keys = {"store": tmp_path / "store", "path": QUEUE}
        body = os.urandom(600_000)
        with running_server(tmp_path, **keys) as server, Clients(server.port) as clients:
            controller = controller_of(clients, body)
            transaction = controller.declare()
            retire(transaction, *controller.take(1))
            clients.sync(controller.connection)
            server.kill()
        with running_server(tmp_path, **keys) as again, Clients(again.port) as clients:
            check(clients, body, True)

    def test_one_larger_than_an_entry_is_not_committed(self, tmp_path: Path) -> None:
        """It would be one entry, as all that is sent in a transaction."""
        running = running_server(tmp_path, store=tmp_path / "store", says=QUEUE)
        with running as server, DurableClient(server.port) as client:
            coordinator, sender = client.coordinator(), client.sender(QUEUE)
            transaction = client.declare(coordinator)
            sent = sender.delivery("large")
            sent.local.data = [transaction]
            sent.update(TRANSACTIONAL)
            streamed(client, sender, message_of(b"x" * 17 * MEBIBYTE))
            sender.advance()
            assert client.outcome(sent) == TRANSACTIONAL
            discharge = Message(body=Described(DISCHARGE, [transaction, False]))
            ended = client.send(coordinator, bytes(discharge.encode()))
            assert client.outcome(ended) == Delivery.REJECTED
            assert ended.remote.condition.name == "amqp:transaction:rollback"
            assert client.drain(QUEUE) == []
        assert live(tmp_path / "store") == []


def check_all(clients: Clients, body: bytes, cases: dict[str, tuple[int, bool]]) -> None:
    """See which queues have their message after a transaction with an outcome, or its failure."""
    for queue, (outcome, fail) in cases.items():
        check(clients, body, fail or outcome in (Delivery.RELEASED, Delivery.MODIFIED), queue)


def check(clients: Clients, body: bytes, comes: bool, queue: str = QUEUE) -> None:
    """See that a queue has one message with this body, or none."""
    connection = clients.connect()
    assert clients.drain_queue(connection, queue) == ([body] if comes else []), queue
    clients.sync(connection)


class TestCutPoints:
    """A message of several sections, in any frames."""

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        sizes=st.lists(st.integers(0, 90_000), min_size=1, max_size=4),
        cuts=st.sets(st.integers(1, 100), max_size=5),
        later=st.sets(st.integers(100, 360_000), max_size=8),
        streaming_links=st.booleans(),
    )
    def test_it_comes_as_it_was_sent(
        self,
        durable_server: Server,
        sizes: list[int],
        cuts: set[int],
        later: set[int],
        streaming_links: bool,
    ) -> None:
        annotations = b"\x00\x53\x72\xc1\x07\x02\xa3\x01k\xa1\x01v"
        properties = b"\x00\x53\x73\xc0\x05\x01\xa1\x02id"
        message = DURABLE + annotations + properties
        message += b"".join(head(size) + os.urandom(size) for size in sizes)
        places = [0, *sorted(cut for cut in cuts | later if cut < len(message)), len(message)]
        port = durable_server.port
        with (
            EngineClient(port) as producer,
            EngineClient(port, streaming_links=streaming_links) as consumer,
        ):
            sender = producer.sender(QUEUE, streaming=True)
            delivery = producer.start(sender, message[: places[1]])
            for begin, end in itertools.pairwise(places[1:]):
                streamed(producer, sender, message[begin:end])
            sender.advance()
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED
            assert arrived(consumer, QUEUE) == message


@pytest.fixture(scope="module")
def durable_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with files, for all examples."""
    folder = tmp_path_factory.mktemp("durable")
    with running_server(folder, store=folder / "store") as server:
        yield server


def arrived(consumer: EngineClient, address: str) -> bytes:
    """Take the one message of a queue, by whichever link it comes."""
    base = consumer.receiver(address, 1)
    consumer.until(lambda: base.current is not None or bool(consumer.attached))
    link: Receiver = consumer.take() if consumer.attached else base
    data = bytearray()

    def ended() -> bool:
        while part := link.recv(65536):
            data.extend(part)
        return link.current is not None and not link.current.partial

    consumer.until(ended)
    consumer.accept(link)
    return bytes(data)


class TestAFileThatCannotBeOpened:
    """For want of descriptors or memory: the message stays, and comes to the next consumer."""

    @pytest.fixture
    def library(self, tmp_path: Path) -> Path:
        return compile_preload(Path(__file__).parents[2] / "faults" / "nth_call.c", tmp_path)

    @pytest.mark.parametrize("kind", [Kind.OPEN, Kind.MAPPING])
    def test_the_first_one(self, tmp_path: Path, library: Path, kind: Kind) -> None:
        message = message_of(os.urandom(MEBIBYTE))
        with self.running(tmp_path, library) as (server, faults):
            with EngineClient(server.port) as producer:
                send(producer, producer.sender(QUEUE, streaming=True), message)
            with EngineClient(server.port) as client:
                receiver = client.receiver(QUEUE, credit=0)
                faults.arm(kind, 1, lasting=True)
                receiver.flow(1)
                assert refused(client, receiver)
                assert faults.failed > 0
                faults.disarm()
                (found,) = everything(client, QUEUE)
            # Its header says that it was delivered before.
            assert found[-MEBIBYTE:] == message[-MEBIBYTE:]

    @pytest.mark.parametrize("kind", [Kind.OPEN, Kind.MAPPING])
    def test_the_second_one(self, tmp_path: Path, library: Path, kind: Kind) -> None:
        """The consumer has the beginning already: its delivery is aborted."""
        # Longer than an entry, so that it is sent from its parts.
        message = message_of(os.urandom(17 * MEBIBYTE))
        with (
            self.running(tmp_path, library, roll_size=65536) as (server, faults),
            EngineClient(server.port) as first,
            EngineClient(server.port) as consumer,
        ):
            send_over_two_files(server, tmp_path / "store" / QUEUE, message)
            link = first.receiver(QUEUE, credit=0)
            faults.arm(kind, 0)
            link.flow(1)
            first.read(link, len(message))
            calls = faults.seen
            assert calls > 1
            first.socket.close()
            link = consumer.receiver(QUEUE, credit=0)
            # The last one is that for the second file.
            faults.arm(kind, calls, lasting=True)
            link.flow(1)
            assert refused(consumer, link)
            assert faults.failed > 0
            faults.disarm()
            (found,) = everything(consumer, QUEUE)
            assert found[-17 * MEBIBYTE :] == message[-17 * MEBIBYTE :]

    @contextmanager
    def running(
        self, folder: Path, library: Path, **keys: object
    ) -> Iterator[tuple[Server, Faults]]:
        faults = Faults(folder, library)
        keys["store"] = folder / "store"
        with running_server(folder, environment=faults.environment, says="", **keys) as server:
            yield server, faults
            # Its lines about failed calls are not judged here.
            server.kill()
        faults.close()


def send_over_two_files(server: Server, queue: Path, message: bytes) -> None:
    """Store a long message whose file ends in its midst."""
    small = DURABLE + head(50_000) + b"x" * 50_000
    with (
        EngineClient(server.port) as producer,
        EngineClient(server.port) as busy,
        EngineClient(server.port) as consumer,
    ):
        sender, other = producer.sender(QUEUE, streaming=True), producer.sender(QUEUE)
        delivery = producer.start(sender, message[:100])
        streamed(producer, sender, message[100:200_000])
        # It takes the stream, and is busy with that.
        busy.read(busy.receiver(QUEUE), 100_000)
        receiver = consumer.receiver(QUEUE, credit=100)
        # What is done with makes the file one to be ended.
        while len(list(queue.glob("*.cq4"))) < 2:
            producer.send(other, small)
            assert received(consumer, receiver, len(small), producer) == small
            producer.until(lambda: other.credit > 0)
        receiver.close()
        consumer.until(lambda: bool(receiver.state & Endpoint.REMOTE_CLOSED))
        streamed(producer, sender, message[200_000:-1])
        sender.stream(message[-1:])
        sender.advance()
        producer.until(lambda: delivery.settled)
        assert delivery.remote_state == Delivery.ACCEPTED
        busy.socket.close()
        producer.sync()


def refused(client: EngineClient, link: Receiver) -> bool:
    """Receive until the server detaches the link; say whether it is for a fault of its own."""

    def detached() -> bool:
        while link.current is not None and not link.current.aborted and link.recv(65536):
            pass
        return bool(link.state & Endpoint.REMOTE_CLOSED)

    client.until(detached)
    return bool(link.remote_condition.name == "amqp:internal-error")
