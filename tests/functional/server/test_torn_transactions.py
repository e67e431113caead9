"""A transaction is in the queues' files whole or not at all, wherever a crash cuts it."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from proton import Delivery, Described, Message
from support.clients import Clients
from support.server import running_server

from quiver_fast.queuefile.dump import RAW_HEAD
from quiver_fast.queuefile.live import LiveEntries, Mark
from quiver_fast.queuefile.verify import verify_queue
from tests.functional.server.test_durability import small_disk
from tests.functional.server.test_transactions import DISCHARGE, Controller, retire

# What the server writes for the transaction of `whole`, in this order: the work as it
# came, then in each file that all is there, then the decision, then the other's mark.
ORDER = [
    ("a", b"quiver.begin"), ("a", b"three"), ("b", b"quiver.begin"), ("b", b"four"),
    ("b", b"quiver.prepared"), ("a", b"quiver.removed"), ("a", b"quiver.prepared"),
    ("b", b"quiver.commit"), ("a", b"quiver.commit"),
]  # fmt: skip
DECIDED = ORDER.index(("b", b"quiver.commit"))
END = 0xC0000000


def send(controller: Controller, transaction: bytes, address: str, body: str) -> None:
    controller.producer = controller.clients.producer(controller.connection, address)
    controller.begin_send(transaction, body, durable=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose server died after a transaction over both of its queues."""
    folder = tmp_path_factory.mktemp("whole")
    store = folder / "store"
    with running_server(folder, store=store) as server, Clients(server.port) as clients:
        controller = Controller(clients, "a")
        for body in ("one", "two"):
            sent = controller.producer.link.send(Message(body=body, durable=True))
            clients.wait(lambda sent=sent: bool(sent.remote_state), "an outcome")
        transaction = controller.declare()
        for received in controller.take(2):
            retire(transaction, received)
        send(controller, transaction, "a", "three")
        send(controller, transaction, "b", "four")
        controller.discharge(transaction)
        server.kill()
    return store


def file_of(store: Path, queue: str) -> Path:
    (path,) = (store / queue).glob("*.cq4")
    return path


def documents(path: Path) -> list[tuple[int, bytes]]:
    """Return the offset and content of each document of a file."""
    data = path.read_bytes()
    found, at = [], 0
    while at + 4 <= len(data):
        (header,) = struct.unpack_from("<I", data, at)
        if header in (0, END):
            break
        length = header & 0x3FFFFFFF
        found.append((at, data[at + 4 : at + 4 + length]))
        at = (at + 4 + length + 3) & ~3
    return found


def offsets(store: Path) -> list[tuple[str, int]]:
    """Return where the documents of ORDER are; they are all there, and in each file so ordered."""
    places = []
    for queue, name in ORDER:
        (place,) = (at for at, content in documents(file_of(store, queue)) if name in content)
        places.append((queue, place))
    for queue in "ab":
        mine = [at for owner, at in places if owner == queue]
        assert mine == sorted(mine)
    return places


def cut(path: Path, at: int, *, dirty: bool) -> None:
    """Leave a file as it was before the document at an offset was written.

    Args:
        dirty: its content is there already, but its header is not.
    """
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.seek(at)
        (header,) = struct.unpack("<I", stream.read(4))
        kept = header & 0x3FFFFFFF if dirty else 0
        stream.seek(at)
        stream.write(bytes(4))
        stream.seek(kept, 1)
        stream.write(bytes(size - at - 4 - kept))


def live(store: Path, queue: str) -> list[str]:
    """Return the bodies of a queue's messages, of which no transaction is open."""
    entries = LiveEntries(store / queue)
    assert entries.owed == Mark.MARK_NONE
    bodies = []
    for _, data in entries:
        message = Message()
        message.decode(data[RAW_HEAD.size :])
        bodies.append(str(message.body))
    return bodies


@pytest.mark.parametrize("written", range(len(ORDER) + 1))
def test_all_or_nothing(tmp_path: Path, whole: Path, written: int) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    done = set()
    for queue, at in offsets(whole)[written:]:
        if queue not in done:
            cut(file_of(store, queue), at, dirty=written % 2 == 1)
            done.add(queue)
    a, b = (["three"], ["four"]) if written > DECIDED else (["one", "two"], [])
    # Later work does not belong to the torn transaction, and does not complete it.
    with running_server(tmp_path, store=store) as server, Clients(server.port) as clients:
        controller = Controller(clients, "a")
        transaction = controller.declare()
        send(controller, transaction, "a", "later")
        controller.discharge(transaction)
        server.kill()
    assert live(store, "a") == [*a, "later"]
    assert live(store, "b") == b
    for queue in "ab":
        assert verify_queue(store / queue).deviations == []


def test_recovery_alone_ends_it(tmp_path: Path, whole: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    (_, at) = offsets(whole)[DECIDED]
    cut(file_of(store, "b"), at, dirty=False)
    (_, at) = offsets(whole)[-1]
    cut(file_of(store, "a"), at, dirty=False)
    for _ in range(2):
        with running_server(tmp_path, store=store):
            pass
        assert live(store, "a") == ["one", "two"]
        assert live(store, "b") == []
    # Once is enough.
    marks = [
        content for _, content in documents(file_of(store, "a")) if b"quiver.rollback" in content
    ]
    assert len(marks) == 1


def test_one_that_a_full_disk_cuts_short(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        store = disk / "store"
        running = running_server(tmp_path, store=store, says="No space left")
        with running as server, Clients(server.port) as clients:
            controller = Controller(clients, "a")
            transaction = controller.declare()
            for _ in range(50):
                send(controller, transaction, "a", "x" * 100_000)
            ended = controller.ask(Described(DISCHARGE, [transaction, False]))
            assert ended.remote_state == Delivery.REJECTED
            assert ended.remote.condition.name == "amqp:transaction:rollback"
            # Messages that are accepted later do not belong to the torn transaction.
            ballast.unlink()
            controller.producer = clients.producer(controller.connection, "a")
            later = controller.producer.link.send(Message(body="later", durable=True))
            clients.wait(lambda: bool(later.remote_state), "an outcome")
            assert later.remote_state == Delivery.ACCEPTED
            server.kill()
        assert live(store, "a") == ["later"]
