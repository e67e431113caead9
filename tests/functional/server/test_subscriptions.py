"""Durable and shared subscriptions to topics, frame by frame, and over restarts."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sections import declare, outcome, section, settle
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import Frame, composite, message

Start = Callable[..., Server]
TOPIC = "topic/history"
NOT_FOUND, LOCKED, STOLEN = "amqp:not-found", "amqp:resource-locked", "amqp:link:stolen"
SELECTOR = Value("symbol", "apache.org:selector-filter:string")
DURABLE_HEADER = section(0x70, Value("list", (Value("boolean", True),)))


def body(number: int, *, durable: bool = True) -> bytes:
    """Return a message; a node may rewrite its header, not the rest."""
    return (DURABLE_HEADER if durable else b"") + message(b"%d" % number)


class Client(FrameClient):
    """A container with one session.

    Args:
        server: The server.
        container: Its container id.
        opened: Other fields of its open frame.
    """

    def __init__(self, server: Server, container: str = "jms", **opened: int) -> None:
        super().__init__(server.port)
        found = self.open(container_id=container, **opened)
        self.offered = found.fields["offered_capabilities"]
        self.begin()
        self.handles = 0
        # Deliveries of each link.
        self.taken: Counter[int] = Counter()

    def subscribe(
        self,
        topic: str,
        name: str,
        *capabilities: str,
        expiry: str = "never",
        durable: int = 2,
        **more: Value,
    ) -> Frame:
        """Attach a consumer; return the answer. `handles` - 1 is its handle."""
        self.handles += 1
        source = composite(
            "source", address=topic, durable=durable, expiry_policy=expiry,
            distribution_mode="copy", capabilities=symbols("topic", *capabilities), **more,
        )  # fmt: skip
        return self.attach_receiver(topic, handle=self.handles - 1, name=name, source=source)

    def look_up(self, name: str) -> Frame:
        """Attach without a source, as JMS clients do before they unsubscribe."""
        self.handles += 1
        return self.attach_receiver(
            "", handle=self.handles - 1, name=name, source=Value("null", None)
        )

    def refusal(self) -> str | None:
        """Return why the latest attach was refused, and confirm that."""
        condition = self.expect("detach").condition
        self.send("detach", handle=self.handles - 1, closed=True)
        return condition

    def credit(self, count: int, handle: int, **fields: Any) -> None:
        self.give_credit(count, handle=handle, delivery_count=self.taken[handle], **fields)

    def take(self, count: int, *, handle: int | None = None) -> list[bytes]:
        """Receive and accept; return the bodies."""
        handle = self.handles - 1 if handle is None else handle
        self.credit(count, handle)
        self.taken[handle] += count
        taken = []
        for _ in range(count):
            found = self.expect("transfer")
            taken.append(found.payload[found.payload.index(b"\x00\x53\x75") :])
            number = found.fields["delivery_id"]
            settle(self, "accepted", number, number)
        return taken

    def detach(self, *, closed: bool, handle: int | None = None) -> None:
        self.send(
            "detach", handle=self.handles - 1 if handle is None else handle, closed=closed
        )  # fmt: skip
        self.expect("detach")

    def is_empty(self) -> bool:
        """Say whether the latest consumer has nothing more to get: drain answers (part 2.6.7)."""
        self.credit(1, self.handles - 1, drain=True)
        while True:
            frame = self.read()
            if frame.name == "transfer":
                return False
            if frame.name == "flow" and frame.fields.get("link_credit") == 0:
                return True


def publish(server: Server, topic: str, *numbers: int, durable: bool = True) -> None:
    """Publish messages, each accepted."""
    with Client(server, "publisher") as client:
        client.attach_sender(
            topic, target=composite("target", address=topic, capabilities=symbols("topic"))
        )
        client.wait_for_credit()
        for at, number in enumerate(numbers):
            client.transfer(at, body(number, durable=durable))
            assert outcome(client) == "accepted"


def selecting(text: str, *, key: str = "jms", descriptor: Value = SELECTOR) -> Value:
    """Return a filter-set of one selector."""
    selector = Value("described", (descriptor, Value("string", text)))
    return Value("map", ((Value("symbol", key), selector),))


def bodies(*numbers: int) -> list[bytes]:
    return [message(b"%d" % number) for number in numbers]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with a store for a module's tests; each has topics of its own."""
    directory = tmp_path_factory.mktemp("stored")
    with running_server(directory, store=directory / "store") as server:
        yield server


@pytest.fixture(params=["stored", "server"])
def either(request: pytest.FixtureRequest) -> Server:
    """A server with a store, and one without."""
    found: Server = request.getfixturevalue(request.param)
    return found


def test_what_the_answer_says(stored: Server, server: Server) -> None:
    """Part 2.6.3: the terminus in place. Without a store, none is durable; none expires."""
    for where, durable in ((stored, 2), (server, 0)):
        with Client(where) as client:
            assert "SHARED-SUBS" in client.offered
            source = client.subscribe("topic/said", "said").fields["source"].fields
            assert source.get("durable", 0) == durable
            assert source["expiry_policy"] == "never"
            # Durable until its link goes is not kept.
            source = client.subscribe("topic/said", "other", expiry="link-detach")
            assert source.fields["source"].fields.get("durable", 0) == 0
            assert source.fields["source"].fields["expiry_policy"] == "link-detach"
            client.detach(closed=True, handle=0)


def test_it_is_kept_while_its_link_is_detached(either: Server, address: str) -> None:
    topic = f"topic/{address}"
    with Client(either) as client:
        client.subscribe(topic, "kept")
        client.detach(closed=False)
    publish(either, topic, 1, 2)
    publish(either, topic, 3, durable=False)
    with Client(either) as client:
        client.subscribe(topic, "kept")
        assert client.take(2) == bodies(1, 2)
        # The connection ends without a detach.
    with Client(either, "another") as client:
        client.subscribe(topic, "kept")
        assert client.is_empty()
        client.detach(closed=True)
    with Client(either) as client:
        client.subscribe(topic, "kept")
        assert client.take(1) == bodies(3)
        client.detach(closed=True)
        client.subscribe(topic, "kept")
        assert client.is_empty()
        client.detach(closed=True)


def test_closing_its_link_ends_it(either: Server, address: str) -> None:
    topic = f"topic/{address}"
    with Client(either) as client:
        client.subscribe(topic, "ended")
        client.detach(closed=True)
        publish(either, topic, 1)
        client.subscribe(topic, "ended")
        assert client.is_empty()
        client.detach(closed=True)


def test_unsubscribing_as_jms_does(either: Server, address: str) -> None:
    """Attach without a source, then close: part 2.6.3 and qpid-jms."""
    topic = f"topic/{address}"
    with Client(either) as client:
        client.subscribe(topic, "looked-up")
    with Client(either) as client:
        source = client.look_up("looked-up").fields["source"].fields
        assert source["address"] == topic
        assert source["expiry_policy"] == "never"
        client.detach(closed=True)
        assert client.look_up("looked-up").fields.get("source") is None
        assert client.refusal() == NOT_FOUND


@pytest.mark.parametrize("way", ["looked up", "kept", "shared"])
def test_an_attach_without_a_name_is_refused(either: Server, address: str, way: str) -> None:
    """A name is mandatory (part 2.7.3); the fuzzer found that its absence crashed the server."""
    nameless: Any = Value("null", None)
    with Client(either) as client:
        if way == "looked up":
            answer = client.look_up(nameless)
        else:
            wanted = ["shared"] if way == "shared" else []
            answer = client.subscribe(f"topic/{address}", nameless, *wanted)
        assert answer.fields.get("source") is None
        assert client.refusal() == "amqp:invalid-field"
    with Client(either) as client:
        client.subscribe(f"topic/{address}", "with-a-name")


def test_one_in_use_is_not_unsubscribed(either: Server, address: str) -> None:
    topic = f"topic/{address}"
    with Client(either) as user, Client(either) as other:
        user.subscribe(topic, "in-use")
        assert other.look_up("in-use").fields.get("source") is None
        assert other.refusal() == LOCKED
        user.detach(closed=True)


def test_a_link_of_the_same_name_takes_over(either: Server, address: str) -> None:
    """Part 2.6.1: the unsettled messages of the stolen link are available again."""
    topic = f"topic/{address}"
    with Client(either) as first, Client(either) as second:
        first.subscribe(topic, "stolen")
        publish(either, topic, 1, 2)
        first.give_credit(1)
        first.expect("transfer")
        second.subscribe(topic, "stolen")
        # The first link's messages are settled: they will not come by that link again.
        assert first.expect("disposition").fields["settled"]
        assert first.expect("detach").condition == STOLEN
        first.send("detach", handle=0, closed=True)
        assert second.take(2) == bodies(1, 2)
        # The first one's answer ends nothing.
        first.subscribe(f"{topic}/other", "sync", expiry="link-detach")
        publish(either, topic, 3)
        assert second.take(1) == bodies(3)
        second.detach(closed=True)


def test_another_topic_begins_anew(either: Server, address: str) -> None:
    """JMS: a consumer of that name with another topic replaces the subscription."""
    one, two = f"topic/{address}/1", f"topic/{address}/2"
    with Client(either) as client:
        client.subscribe(one, "moved")
        client.detach(closed=False)
        publish(either, one, 1)
        client.subscribe(two, "moved")
        publish(either, one, 2)
        publish(either, two, 3)
        assert client.take(1) == bodies(3)
        assert client.is_empty()
        client.detach(closed=True)


def test_consumers_share_a_subscription(either: Server, address: str) -> None:
    """As qpid-jms names them: by client id `|volatile1`, `|volatile2`, all of one queue."""
    topic = f"topic/{address}"
    terms: dict[str, Any] = {"expiry": "link-detach", "durable": 0}
    with Client(either) as one:
        one.subscribe(topic, "shared|volatile1", "shared", **terms)
        one.subscribe(topic, "shared|volatile2", "shared", **terms)
        with Client(either, "stranger") as stranger:
            stranger.subscribe(topic, "shared|volatile1", "shared", **terms)
            publish(either, topic, 1, 2)
            got = [one.take(1, handle=0), one.take(1, handle=1)]
            assert sorted(got) == sorted([bodies(1), bodies(2)])
            # Another container has a subscription of its own.
            assert stranger.take(2) == bodies(1, 2)
        one.detach(closed=True, handle=0)
        publish(either, topic, 3)
        assert one.take(1, handle=1) == bodies(3)
        publish(either, topic, 4)
        one.detach(closed=True, handle=1)
        # It went with its last consumer.
        one.subscribe(topic, "shared|volatile3", "shared", **terms)
        assert one.is_empty()


def test_containers_share_a_durable_subscription(either: Server, address: str) -> None:
    topic = f"topic/{address}"
    terms = ("shared", "global")
    with Client(either, "one") as one, Client(either, "two") as two:
        one.subscribe(topic, "all|global", *terms)
        two.subscribe(topic, "all|global2", *terms)
        publish(either, topic, 1, 2)
        assert sorted([one.take(1), two.take(1)]) == sorted([bodies(1), bodies(2)])
        publish(either, topic, 3)
        one.detach(closed=False)
        two.detach(closed=False)
        with Client(either, "three") as three:
            source = three.look_up("all|global").fields["source"].fields
            assert source["capabilities"] == ["topic", "shared", "global"]
            assert three.take(1) == bodies(3)
            three.detach(closed=True)
            assert three.look_up("all|global").fields.get("source") is None
            assert three.refusal() == NOT_FOUND


def test_a_shared_one_in_use_stays_with_its_topic(either: Server, address: str) -> None:
    with Client(either, "one") as one, Client(either, "two") as two:
        one.subscribe(f"topic/{address}", "fixed|global", "shared", "global")
        answer = two.subscribe("topic/elsewhere", "fixed|global2", "shared", "global")
        assert answer.fields.get("source") is None
        assert two.refusal() == LOCKED
        one.detach(closed=True)


def test_a_full_server_makes_no_more(start: Start, tmp_path: Path) -> None:
    """`max-queues` counts subscriptions that have a name."""
    server = start(store=tmp_path / "store", max_queues=4, path="queue0", addresses="topic/t")
    with Client(server) as client:
        for name in ("a", "b"):
            assert client.subscribe("topic/t", name).fields.get("source") is not None
        assert client.subscribe("topic/t", "c").fields.get("source") is None
        assert client.refusal() == "amqp:resource-limit-exceeded"
        # One that goes makes room.
        client.detach(closed=True, handle=0)
        assert client.subscribe("topic/t", "c").fields.get("source") is not None


@pytest.mark.parametrize("durability", ["none", "group"])
def test_it_survives_a_kill(start: Start, tmp_path: Path, durability: str) -> None:
    keys: dict[str, Any] = {"store": tmp_path / "store", "durability": durability}
    server = start(**keys)
    with Client(server) as client:
        client.subscribe("topic/killed", "mine")
        client.subscribe("topic/killed", "gone")
        client.detach(closed=True)
        client.subscribe("topic/killed", "ours|global", "shared", "global")
        client.subscribe("topic/killed", "memory", durable=0)
        publish(server, "topic/killed", 1, 2, 3)
        publish(server, "topic/killed", 4, durable=False)
        assert client.take(1, handle=0) == bodies(1)
        client.detach(closed=False, handle=0)
    server.kill()
    server = start(**keys)
    publish(server, "topic/killed", 5)
    with Client(server) as client:
        source = client.look_up("mine").fields["source"].fields
        assert (source["durable"], source["address"]) == (2, "topic/killed")
        assert client.take(3) == bodies(2, 3, 5)
        client.subscribe("topic/killed", "ours|global", "shared", "global")
        assert client.take(4) == bodies(1, 2, 3, 5)
        for name in ("gone", "memory"):
            assert client.look_up(name).fields.get("source") is None
            assert client.refusal() == NOT_FOUND
        client.detach(closed=True, handle=0)
        client.detach(closed=True, handle=1)
    assert server.end().code == 0
    server = start(**keys)
    with Client(server) as client:
        assert client.look_up("mine").fields.get("source") is None
        assert client.refusal() == NOT_FOUND
    assert list((tmp_path / "store" / "%subscriptions").iterdir()) == []


@pytest.mark.parametrize("seed", range(max(2, int(os.environ.get("QUIVER_FAST_KILLS", "0")) // 10)))
def test_any_history_of_kills(start: Start, tmp_path: Path, seed: int) -> None:
    """Each subscription is a list: a published message goes last, an accepted one is gone.

    Whatever is begun, read, ended and published, and however often the server is killed.
    """
    choose = random.Random(seed)
    keys: dict[str, Any] = {"store": tmp_path / "store", "roll_size": 65536}
    server = start(**keys)
    subscriptions: dict[str, list[int]] = {}
    published = 0
    for step in range(25):
        what = choose.choice(["publish", "publish", "read", "read", "end", "kill"])
        what = "kill" if step == 24 else what
        name = choose.choice("abc")
        if what == "publish":
            numbers = range(published, published + choose.randrange(1, 30))
            published = numbers.stop
            publish(server, TOPIC, *numbers)
            for kept in subscriptions.values():
                kept.extend(numbers)
        elif what == "kill":
            server.kill()
            server = start(**keys)
        else:
            kept = subscriptions.setdefault(name, [])
            count = choose.randrange(len(kept) + 1)
            with Client(server) as client:
                client.subscribe(TOPIC, name)
                assert client.take(count) == bodies(*kept[:count])
                client.detach(closed=what == "end")
            del kept[:count]
            if what == "end":
                del subscriptions[name]
    with Client(server) as client:
        for name, kept in subscriptions.items():
            client.subscribe(TOPIC, name)
            assert client.take(len(kept)) == bodies(*kept)
            assert client.is_empty()


def test_what_a_crash_left_of_one_that_was_ended(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "store" / "%subscriptions" / "left"
    folder.mkdir(parents=True)
    (folder / "20200101F.cq4").write_bytes(b"")
    damaged = tmp_path / "store" / "%subscriptions" / "damaged"
    damaged.mkdir()
    (damaged / "subscription.json").write_text("{")
    with running_server(tmp_path, store=tmp_path / "store", says="damaged") as server:
        publish(server, "queue0", 1)
    assert not folder.exists()
    assert damaged.exists()


def test_a_large_message_is_in_each_subscriptions_file(start: Start, tmp_path: Path) -> None:
    server = start(store=tmp_path / "store")
    large = DURABLE_HEADER + message(b"x" * 600_000)
    with Client(server) as client:
        for name in ("a", "b"):
            client.subscribe("topic/large", name)
            client.detach(closed=False)
        client.attach_sender("topic/large", handle=7)
        client.wait_for_credit()
        for at in range(0, len(large), 60_000):
            more = at + 60_000 < len(large)
            client.transfer(0, large[at : at + 60_000], handle=7, more=more)
        assert outcome(client) == "accepted"
    server.kill()
    server = start(store=tmp_path / "store")
    for name in ("a", "b"):
        with Client(server) as client:
            client.subscribe("topic/large", name)
            client.give_credit(1)
            found, frame = b"", client.expect("transfer")
            while frame.fields.get("more"):
                found += frame.payload
                frame = client.expect("transfer")
            found += frame.payload
            assert found.endswith(message(b"x" * 600_000))


def test_a_transaction_to_a_topic(start: Start, tmp_path: Path) -> None:
    """Its messages are in the subscriptions' files when it was committed, and only then."""
    server = start(store=tmp_path / "store")
    with Client(server) as client:
        for name in ("a", "b"):
            client.subscribe("topic/txn", name)
            client.detach(closed=False)
        for number, fail in ((1, False), (2, True), (3, False)):
            commit(client, number, fail=fail)
    server.kill()
    server = start(store=tmp_path / "store")
    for name in ("a", "b"):
        with Client(server) as client:
            client.subscribe("topic/txn", name)
            assert client.take(2) == bodies(1, 3)
            assert client.is_empty()


def commit(client: Client, number: int, *, fail: bool) -> None:
    """Send a message to `topic/txn` in a transaction, and discharge it."""
    base = 3 * (number - 1)
    if number == 1:
        client.send(
            "attach", name="coordinator", handle=8, role=False, initial_delivery_count=0,
            source=composite("source"), target=composite("coordinator"),
        )  # fmt: skip
        client.expect("attach")
        client.attach_sender("topic/txn", handle=9)
    declared = declare(client, base, handle=8)
    state = composite("transactional_state", txn_id=declared)
    client.transfer(base + 1, body(number), handle=9, state=state)
    client.expect("disposition")
    discharge = composite("discharge", txn_id=declared, fail=fail)
    client.transfer(base + 2, section(0x77, discharge), handle=8)
    assert outcome(client) == "accepted"


def test_a_selector_is_kept_with_its_subscription(
    start: Start, tmp_path: Path, address: str
) -> None:
    """Messages after a restart and before the consumer's attach are filtered too."""
    asked = selecting("n > 1")
    topic = f"topic/{address}"
    server = start(store=tmp_path / "store")
    with Client(server) as client:
        client.subscribe(topic, "some", filter=asked)
        client.detach(closed=False)
    server.end()
    server = start(store=tmp_path / "store")
    with Client(server, "publisher") as client:
        client.attach_sender(
            topic, target=composite("target", address=topic, capabilities=symbols("topic"))
        )
        client.wait_for_credit()
        for number in range(4):
            properties = Value("map", ((Value("string", "n"), Value("int", number)),))
            named = section(0x74, properties)
            client.transfer(number, DURABLE_HEADER + named + message(b"%d" % number))
            assert outcome(client) == "accepted"
    # Its file has no messages that do not match.
    server.kill()
    server = start(store=tmp_path / "store")
    with Client(server) as client:
        client.subscribe(topic, "some", filter=asked)
        assert client.take(2) == bodies(2, 3)
        assert client.is_empty()
