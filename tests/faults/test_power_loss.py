"""After a power loss what was accepted under `group` is there, and recovery never fails.

A server's writes and syncs are recorded. Hypothesis picks a moment, and for each page that
no sync covers which of its versions is on disk; then the store is recovered as after a boot.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Delivery, Sender
from support.durable_client import DurableClient, encoded
from support.examples import examples
from support.preload import compile_preload, preloading
from support.server import running_server
from support.write_log import Choose, Disk, Record, read_log

from quiver_fast.queuefile import restart
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.queuefile.dump import RAW_HEAD
from quiver_fast.queuefile.live import LiveEntries, was_committed
from quiver_fast.queuefile.verify import verify_queue

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
LOSSES = int(os.environ.get("QUIVER_FAST_LOSSES", "150"))
QUEUES = ("a", "b")
ROUNDS = 30
# Messages of a page and more, and of less: so pages tear messages, and messages share pages.
SIZES = (40, 700, 9000)
# A stream in fragments: parts and the entry that copies them.
STREAM = 90_000
FRAGMENTS = 4
ANOTHER_BOOT = 12345
# Many intervals of the policy `interval`, in which nothing comes; and how long they may take.
QUIET = 0.5
PATIENCE = 60.0


@dataclass
class Recorded:
    """A run's log, and when in it the server had told what."""

    store: Path
    records: list[Record] = field(default_factory=list)
    # By queue and number: the length of the log when the client knew it was accepted.
    accepted: dict[tuple[str, int], int] = field(default_factory=dict)
    # By queue and number: when its removal was sent.
    removed: dict[tuple[str, int], int] = field(default_factory=dict)
    # Numbers of one queue that stand and fall together.
    together: list[tuple[str, set[int]]] = field(default_factory=list)
    sent: dict[int, bytes] = field(default_factory=dict)


def record(folder: Path, library: Path, durability: str) -> Recorded:
    """Have a server store, remove, commit and roll; return what was recorded."""
    run = Recorded(folder / "store")
    log = folder / "log"
    environment = {
        **preloading(library), "QUIVER_WRITES": str(log), "QUIVER_STORE": str(run.store),
    }  # fmt: skip
    keys = {"store": run.store, "durability": durability, "roll_size": 65536}
    with running_server(folder, environment=environment, **keys) as server:
        with DurableClient(server.port) as client:
            work(client, run, lambda: log.stat().st_size)
            client.rest(QUIET)
            if durability != "group":
                client.until(lambda: is_on_disk(read_log(log), run.store), PATIENCE)
        server.kill()
    run.records = read_log(log)
    return run


def is_on_disk(records: list[Record], store: Path) -> bool:
    """Say whether syncs cover all that the queues' files have."""
    disk = Disk(records, store)
    files = {
        record.file for record in records if record.kind == b"C" and b".cq4" in record.content
        and any(f"/{queue}/".encode() in record.content for queue in QUEUES)
    }  # fmt: skip
    pages = (page for file in files for page in disk.files[file].pages.values())
    return all(page.safe == len(page.values) for page in pages)


def work(client: DurableClient, run: Recorded, now: Callable[[], int]) -> None:
    """Fill two queues, empty one of them again, and commit to the other."""
    coordinator = client.coordinator()
    senders = {queue: client.sender(queue) for queue in QUEUES}
    streams = client.sender("b")
    receiver = client.receiver("a", credit=10_000)
    number = 0

    def message(queue: str) -> bytes:
        nonlocal number
        number += 1
        run.sent[number] = encoded(number, SIZES[number % len(SIZES)])
        return run.sent[number]

    for round_ in range(ROUNDS):
        sent = {}
        for _ in range(6):
            queue = QUEUES[number % 2]
            data = message(queue)
            sent[number] = queue, client.send(senders[queue], data)
        for key, (queue, delivery) in sent.items():
            assert client.outcome(delivery) == Delivery.ACCEPTED
            run.accepted[queue, key] = now()
        if round_ % 3 == 0:
            commit(client, run, coordinator, senders["b"], message, now)
        if round_ % 5 == 1:
            stream(client, streams, encoded(0, STREAM), aborted=True)
            number += 1
            run.sent[number] = encoded(number, STREAM)
            delivery = stream(client, streams, run.sent[number])
            assert client.outcome(delivery) == Delivery.ACCEPTED
            run.accepted["b", number] = now()
        while client.has_message(receiver) and round_ > 2:
            key, delivery = client.take_number(receiver)
            run.removed["a", key] = now()
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
        client.pump(0)
    # The last document of a file: no index of an entry tells that it was synced.
    commit(client, run, coordinator, senders["b"], message, now)


def stream(
    client: DurableClient, sender: Sender, data: bytes, *, aborted: bool = False
) -> Delivery:
    """Send a message in fragments, each of which the server has before the next one goes."""
    delivery: Delivery = sender.delivery(f"stream-{id(data)}-{len(data)}")
    for begin in range(0, len(data), len(data) // FRAGMENTS):
        sender.stream(data[begin : begin + len(data) // FRAGMENTS])
        client.sync()
    if aborted:
        delivery.abort()
    else:
        sender.advance()
    client.sync()
    return delivery


def commit(
    client: DurableClient, run: Recorded, coordinator: Sender, sender: Sender,
    message: Callable[[str], bytes], now: Callable[[], int],
) -> None:  # fmt: skip
    """Send two messages to one queue in a transaction."""
    transaction = client.declare(coordinator)
    numbers = set()
    for _ in range(2):
        client.send_in(transaction, sender, message("b"))
        numbers.add(max(run.sent))
    assert client.discharge(coordinator, transaction)
    for number in numbers:
        run.accepted["b", number] = now()
    run.together.append(("b", numbers))


@pytest.fixture(scope="module", params=["group", "interval:20"])
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Recorded]]:
    source = Path(__file__).with_name("write_log.c")
    library = compile_preload(source, tmp_path_factory.mktemp("library"))
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        run = record(Path(folder), library, request.param)
        print(f"{request.param}: {len(run.records)} records, {len(run.accepted)} accepted")
        yield request.param, run


@pytest.fixture(scope="module", autouse=True)
def after_a_boot() -> Iterator[None]:
    """Have recovery take this for another boot than that of the recorded server."""
    before = restart.boot_id
    restart.boot_id = lambda: ANOTHER_BOOT
    yield
    restart.boot_id = before


def recover(store: Path, durability: str) -> dict[str, list[int]]:
    """Open all queues as a server does; return the numbers of their live messages."""
    files = QueueDirectory(store, durability=durability)
    contents = {}

    def committed(transaction: int, home: str) -> bool:
        return files.holds(home) and was_committed(store / home, transaction)

    for name in files.names():
        files.appender(name)
    for name in files.names():
        contents[name] = [bytes(data[RAW_HEAD.size :]) for _, data in
                          LiveEntries(store / name, committed)]  # fmt: skip
    files.close()
    for name in contents:
        assert verify_queue(store / name).deviations == []
    return contents


def syncs_of(run: Recorded, queue: str, name: bytes) -> list[tuple[int, int]]:
    """Return begin and end of the syncs of a queue's files with a name, in their order."""
    files = {record.file for record in run.records if record.kind == b"C"
             and f"/{queue}/".encode() in record.content and name in record.content}  # fmt: skip
    begun = {record.number: record.end for record in run.records if record.kind == b"B"}
    return [(begun[record.number], record.end) for record in run.records
            if record.kind == b"E" and record.file in files]  # fmt: skip


def synced_until(run: Recorded, queue: str, moment: int) -> int:
    """Return until when what was accepted is on disk at a moment.

    A sync covers what came before it, for certain what came before the end of the one
    before. It counts when the queue's table, which tells how far it came, is on disk as well.
    """
    told = [begin for begin, end in syncs_of(run, queue, b"metadata.cq4t") if end <= moment]
    ends = [end for _, end in syncs_of(run, queue, b".cq4.partial")]
    counted = [end for end in ends if told and end <= told[-1]]
    return counted[-2] if len(counted) > 1 else 0


def test_power_loss(recorded: tuple[str, Recorded]) -> None:
    durability, run = recorded

    @given(st.data())
    @settings(max_examples=examples(LOSSES))
    def loses(data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(run.records)), "records")
        generator = data.draw(st.randoms(use_true_random=False), "what reached the disk")
        lazy = data.draw(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]), "share of what did not")

        def choose(changes: int) -> int:
            if changes == 0 or generator.random() < lazy:
                return 0
            return generator.randint(0, changes)

        judge_loss(durability, run, count, choose)

    loses()


def lost_all(changes: int) -> int:
    """Nothing reached the disk that no sync covers."""
    return 0


def test_what_stood_long_is_there(recorded: tuple[str, Recorded]) -> None:
    """Whatever the policy: also when nothing came after it that could tell of it."""
    durability, run = recorded
    judge_loss(durability, run, len(run.records), lost_all, known=len(run.records) << 32)


def test_what_was_accepted_is_there_at_once(recorded: tuple[str, Recorded]) -> None:
    """The power may fail as soon as a client knows of an acceptance."""
    durability, run = recorded
    ends = [record.end for record in run.records]
    for known in sorted(set(run.accepted.values())):
        judge_loss(durability, run, bisect_left(ends, known) + 1, lost_all)


def test_a_disk_that_does_not_sync_is_found_out(recorded: tuple[str, Recorded]) -> None:
    """The judgement itself: it must notice what a sync would have saved."""
    durability, run = recorded
    lying = Recorded(**vars(run))
    files = {record.file for record in run.records if b".cq4." in record.content[-20:]}
    lying.records = [
        record for record in run.records if record.kind != b"E" or record.file not in files
    ]
    with pytest.raises(AssertionError, match="is lost"):
        judge_loss(durability, lying, len(lying.records), lost_all, known=len(run.records) << 32)


def judge_loss(
    durability: str, run: Recorded, count: int, choose: Choose, known: int | None = None
) -> None:
    """Recover what a power loss left after so many records, and compare with what was told.

    Args:
        known: what was accepted until then must be there; None: as the policy says.
    """
    moment = run.records[count - 1].end if count else 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        store = Path(folder) / "store"
        Disk(run.records[:count], run.store).restore(store, choose)
        contents = recover(store, durability)
    numbers_of = {data: number for number, data in run.sent.items()}
    there = {}
    for queue in QUEUES:
        # Nothing but what was sent, byte for byte, once and in order.
        there[queue] = [numbers_of[data] for data in contents.get(queue, [])]
        assert there[queue] == sorted(set(there[queue]))
        until = known
        if until is None:
            until = moment if durability == "group" else synced_until(run, queue, moment)
        for (name, number), accepted in run.accepted.items():
            removed = run.removed.get((name, number), moment + 1)
            if name == queue and accepted <= until and removed > moment:
                assert number in there[queue], f"{number} of {queue} is lost"
            if name == queue and known is not None and removed <= moment:
                assert number not in there[queue], f"{number} of {queue} is back"
    for queue, numbers in run.together:
        assert len({number in there[queue] for number in numbers}) == 1, numbers
