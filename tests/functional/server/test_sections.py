"""Fields of a transfer and sections of a message: passed, changed, dropped or refused.

`docs/server.md` has the table. Each way of a message through the server is tried: the short way
of whole messages, in two frames, from a file, after a restart, to browsers and subscriptions,
as a stream and over a trunk.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.sections import (
    CHUNK,
    Sent,
    annotations_of,
    declare,
    delivery,
    halves,
    outcome,
    pairs,
    properties_to,
    receive,
    receiver,
    section,
    send,
    sender,
    settle,
)  # fmt: skip
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import composite, message

BATCH = 0x80013700  # Azure's clients send batches so


SMALL = Value("uint", 7)
HEADER = section(0x70, Value("list", (Value("boolean", False),)))
DURABLE = section(0x70, Value("list", (Value("boolean", True),)))
FOR_THE_NODE = section(0x71, pairs("symbol", b"for"))
LONG_FOR_THE_NODE = section(0x71, pairs("symbol", bytes(40_000)))
ANNOTATIONS = section(0x72, pairs("symbol", b"all"))
PROPERTIES = section(0x73, Value("list", (Value("ulong", 7),)))
APPLICATION = section(0x74, pairs("string", b"v"))
DATA = message(b"data")
SEQUENCE = section(0x76, Value("list", (SMALL,)))
VALUE = section(0x77, Value("string", "abc"))
FOOTER = section(0x78, pairs("symbol", b"v"))


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Start a server with files; each call ends the one before and starts anew on its files."""
    with contextlib.ExitStack() as stack:

        def start() -> Server:
            stack.close()
            return stack.enter_context(running_server(tmp_path, store=tmp_path / "store"))

        yield start


# -- the ways of a message


class Ways:
    """Each sends messages through a server and returns how they come then."""

    def __init__(self, request: pytest.FixtureRequest, address: str) -> None:
        self.fixture = request.getfixturevalue
        self.address = address
        # How many of the messages come; None for all.
        self.expected: int | None = None

    def receive(self, client: FrameClient, messages: list[Sent]) -> list[Sent]:
        return receive(client, len(messages) if self.expected is None else self.expected)

    def at_once(self, messages: list[Sent]) -> list[Sent]:
        return self.by_a_queue(self.fixture("server"), messages)

    def in_two_frames(self, messages: list[Sent]) -> list[Sent]:
        return self.by_a_queue(self.fixture("server"), messages, frames=2)

    def from_a_file(self, messages: list[Sent]) -> list[Sent]:
        return self.by_a_queue(self.fixture("stored")(), messages)

    def by_a_queue(self, server: Server, messages: list[Sent], frames: int = 1) -> list[Sent]:
        with sender(server.port, self.address) as client:
            send(client, messages, frames=frames)
        with receiver(server.port, self.address) as client:
            return self.receive(client, messages)

    def after_a_release(self, messages: list[Sent]) -> list[Sent]:
        count = len(messages)
        found = self.at_once(messages)
        with receiver(self.fixture("server").port, self.address) as client:
            receive(client, count)
            settle(client, "released", 0, count - 1)
            again = receive(client, count)
        for (form, was), (same_form, now) in zip(found, again, strict=True):
            assert same_form == form
            # Its header says now that it was acquired; one of another form gets none.
            assert now.endswith(bare(was)) if form == 0 or was != bare(was) else now == was
        return found

    def to_a_browser(self, messages: list[Sent]) -> list[Sent]:
        server = self.fixture("server")
        with sender(server.port, self.address) as client:
            send(client, messages)
        copy = Value("symbol", "copy")
        with receiver(server.port, self.address, distribution_mode=copy) as client:
            return self.receive(client, messages)

    def to_a_topic(self, messages: list[Sent]) -> list[Sent]:
        server = self.fixture("server")
        topic = f"topic-{self.address}"
        with receiver(server.port, topic) as client, sender(server.port, topic) as producer:
            send(producer, messages)
            return self.receive(client, messages)

    def as_a_stream(self, messages: list[Sent]) -> list[Sent]:
        return self.streamed(self.fixture("server"), self.fixture("server"), messages)

    def over_a_trunk(self, messages: list[Sent]) -> list[Sent]:
        return self.streamed(*self.fixture("servers"), messages)

    def streamed(self, near: Server, far: Server, messages: list[Sent]) -> list[Sent]:
        streams = symbols("qd.streaming-deliveries")
        found = []
        with (
            receiver(far.port, self.address) as client,
            sender(near.port, self.address, capabilities=streams) as producer,
        ):
            for number, (form, payload) in enumerate(messages):
                first, second = halves(payload)
                producer.transfer(number, first, more=True, message_format=form)
                producer.transfer(number, second)
                found.append(delivery(client))
                settle(client, "accepted", number, number)
                assert outcome(producer) == "accepted"
        return found

    def after_a_restart(self, messages: list[Sent]) -> list[Sent]:
        start = self.fixture("stored")
        with sender(start().port, self.address) as client:
            send(client, messages)
        with receiver(start().port, self.address) as client:
            return self.receive(client, messages)

    def from_a_transaction(self, messages: list[Sent]) -> list[Sent]:
        start = self.fixture("stored")
        with sender(start().port, self.address) as client:
            client.attach_sender("", handle=1, target=composite("coordinator"))
            txn_id = declare(client, 0, handle=1)
            state = composite("transactional_state", txn_id=txn_id)
            for number, (form, payload) in enumerate(messages, 1):
                client.transfer(number, payload, message_format=form, state=state)
                assert outcome(client) == "transactional_state"
            discharge = composite("discharge", txn_id=txn_id, fail=False)
            client.transfer(len(messages) + 1, section(0x77, discharge), handle=1)
            assert outcome(client) == "accepted"
        with receiver(start().port, self.address) as client:
            return self.receive(client, messages)

    def to_a_subscription(self, messages: list[Sent]) -> list[Sent]:
        start = self.fixture("stored")
        topic = f"topic-{self.address}"
        lasting = {"durable": 2, "expiry_policy": Value("symbol", "never")}
        server = start()
        with receiver(server.port, topic, **lasting) as client:
            client.send("detach", handle=0)
            client.expect("detach")
        with sender(server.port, topic) as producer:
            send(producer, messages)
        with receiver(start().port, topic, **lasting) as client:
            return self.receive(client, messages)


every_way = pytest.mark.parametrize(
    "way",
    ["at_once", "in_two_frames", "from_a_file", "after_a_release", "to_a_browser", "to_a_topic",
     "as_a_stream", "over_a_trunk", "after_a_restart", "from_a_transaction", "to_a_subscription"],
)  # fmt: skip


def bare(payload: bytes) -> bytes:
    """Return a message without its header."""
    return payload[len(HEADER) :] if payload[:3] == HEADER[:3] else payload


@every_way
def test_the_message_format_passes(request: pytest.FixtureRequest, address: str, way: str) -> None:
    """And another form than AMQP's passes byte for byte, like AMQP's or not (part 2.7.5)."""
    payloads = [DURABLE + FOR_THE_NODE + DATA, b"\x01 of another form", DURABLE + b"\x01 unlike"]
    messages = [(form, payload) for form in (BATCH, 1, 2**32 - 1) for payload in payloads]
    stored = way in ("after_a_restart", "from_a_transaction", "to_a_subscription")
    # A restart drops messages that are not durable.
    messages = [each for each in messages if not stored or each[1].startswith(DURABLE)]
    assert getattr(Ways(request, address), way)(messages) == messages


@every_way
def test_all_sections_pass_but_those_for_the_node(
    request: pytest.FixtureRequest, address: str, way: str
) -> None:
    """Delivery annotations are for the next peer only (part 3.2.2)."""
    rest = ANNOTATIONS + PROPERTIES + APPLICATION + DATA + DATA + FOOTER
    stored = way in ("after_a_restart", "from_a_transaction", "to_a_subscription")
    headers = [DURABLE] if stored else [b"", DURABLE, HEADER]
    streamed = way in ("as_a_stream", "over_a_trunk")
    dropped = [b"", FOR_THE_NODE] if streamed else [b"", FOR_THE_NODE, LONG_FOR_THE_NODE]
    messages = [(0, header + each + rest) for header in headers for each in dropped]
    passed = [(0, header + rest) for header in headers for _ in dropped]
    assert getattr(Ways(request, address), way)(messages) == passed


# -- messages


LARGE = message(bytes(25_000))
MESSAGES = {
    "data": DATA,
    "data twice": DATA + DATA,
    "sequences": SEQUENCE + SEQUENCE,
    "value": VALUE,
    "null": b"\x00\x53\x77\x40",
    "described value": section(0x77, Value("described", (Value("symbol", "a"), SMALL))),
    "no body": PROPERTIES,
    "all": ANNOTATIONS + PROPERTIES + APPLICATION + VALUE + FOOTER,
    "empty list": b"\x00\x53\x73\x45" + DATA,
    "wide": b"\x00\x80" + bytes(7) + b"\x74\xd1\x00\x00\x00\x04\x00\x00\x00\x00" + DATA,
    "by name": b"\x00\xa3\x10amqp:data:binary\xa0\x01x",
    "large": PROPERTIES + LARGE + LARGE + FOOTER,
}
# Each begins with a good section.
MALFORMED = {
    "properties behind others": APPLICATION + PROPERTIES + DATA,
    "properties behind the body": DATA + PROPERTIES,
    "a header behind": PROPERTIES + HEADER + DATA,
    "annotations for the node behind": ANNOTATIONS + FOR_THE_NODE + DATA,
    "two bodies": DATA + SEQUENCE,
    "two other bodies": SEQUENCE + VALUE,
    "value twice": VALUE + VALUE,
    "footer before": FOOTER + DATA,
    "properties twice": PROPERTIES + PROPERTIES + DATA,
    "footer twice": DATA + FOOTER + FOOTER,
    "no section": DATA + b"\x00\x53\x79\x40",
    "no section either": PROPERTIES + b"\x00\x53\x6f\xa0\x00" + DATA,
    "no name of one": PROPERTIES + b"\x00\xa3\x09amqp:data\xa0\x01x",
    "no descriptor": DATA + b"\xa0\x01x",
    "properties in a map": ANNOTATIONS + section(0x73, pairs("string", b"")),
    "application properties in a list": PROPERTIES + section(0x74, Value("list", (SMALL,))),
    "annotations in bytes": HEADER + section(0x72, Value("binary", b"abc")),
    "data in a string": PROPERTIES + section(0x75, Value("string", "abc")),
    "sequence in a map": PROPERTIES + section(0x76, pairs("string", b"")),
    "footer in a list": DATA + section(0x78, Value("list", ())),
    "an odd map": PROPERTIES + b"\x00\x53\x74\xc1\x04\x01\xa1\x01k" + DATA,
    "an odd wide map": PROPERTIES + b"\x00\x53\x74\xd1\x00\x00\x00\x07\x00\x00\x00\x01\xa1\x01k",
    "no room for a count": ANNOTATIONS + b"\x00\x53\x73\xd0\x00\x00\x00\x02\x00\x00" + DATA,
    "more items than bytes": ANNOTATIONS + b"\x00\x53\x73\xc0\x02\x05\x40" + DATA,
    "a byte behind": DATA + b"\x00",
    "no constructor": PROPERTIES + b"\x00\x53\x75",
    "no such constructor": PROPERTIES + b"\x00\x53\x77\x10",
    "no such text": PROPERTIES + b"\x00\x53\x77\xa2\x01x",
    "no such boolean": PROPERTIES + b"\x00\x53\x77\x56\x02",
    "a value without its count": PROPERTIES + b"\x00\x53\x77\xc0\x00",
    "large, and one byte less": PROPERTIES + LARGE + LARGE[:-1],
    "large, and a byte behind": PROPERTIES + LARGE + LARGE + b"\x00",
    "large, and out of order": LARGE + LARGE + PROPERTIES,
    **{f"data without {n} bytes": PROPERTIES + DATA[:-n] for n in range(1, len(DATA))},
    **{f"a map without {n} bytes": DATA + FOOTER[:-n] for n in range(1, len(FOOTER))},
}


@pytest.mark.parametrize("frames", [1, 2])
def test_a_message_has_its_sections_in_order(server: Server, address: str, frames: int) -> None:
    """A payload that has not is *rejected* (part 3.2), and the next message of the link passes."""
    with sender(server.port, address) as client:
        for number, (name, payload) in enumerate((MESSAGES | MALFORMED).items()):
            # The largest are too long for one frame.
            parts = [payload] if frames == 1 and len(payload) < 30_000 else halves(payload)
            for part in parts:
                client.transfer(number, part, more=part is not parts[-1])
            assert outcome(client) == ("accepted" if name in MESSAGES else "rejected"), name
    with receiver(server.port, address) as client:
        assert [delivery(client)[1] for _ in MESSAGES] == list(MESSAGES.values())


# -- absolute-expiry-time


def expiring(milliseconds: int, *, ttl: int | None = None) -> bytes:
    """Return a durable message whose absolute-expiry-time is so far from now (part 3.2.4)."""
    time_to_live = Value("null", None) if ttl is None else Value("uint", ttl)
    header = Value("list", (Value("boolean", True), Value("null", None), time_to_live))
    at = Value("timestamp", time.time_ns() // 1_000_000 + milliseconds)
    properties = Value("list", (*[Value("null", None)] * 8, at))
    return section(0x70, header) + section(0x73, properties) + DATA


@pytest.mark.parametrize(
    "way", ["at_once", "in_two_frames", "from_a_file", "to_a_browser", "after_a_restart"]
)
def test_an_expired_message_does_not_come(
    request: pytest.FixtureRequest, address: str, way: str
) -> None:
    # One with a time to live of 1 ms may come before that is over.
    gone = [expiring(-1), expiring(-(10**9)), expiring(10**9, ttl=0), expiring(-1, ttl=10**9)]
    kept = [expiring(10**9), expiring(2**62)]
    messages = [(0, each) for each in [*gone, *kept]]
    ways = Ways(request, address)
    ways.expected = len(kept)
    assert getattr(ways, way)(messages) == messages[len(gone) :]


def test_a_message_expires_while_its_server_is_away(
    stored: Callable[[], Server], address: str
) -> None:
    server = stored()
    messages = [(0, expiring(1500)), (0, expiring(10**9))]
    with sender(server.port, address) as client:
        send(client, messages)
    server.end()
    time.sleep(1.6)
    with receiver(stored().port, address) as client:
        assert receive(client, 1) == messages[1:]


# -- Properties across two chunks of memory


def padded(properties: bytes, cut: int) -> bytes:
    """Return a message whose properties have the end of a chunk at ``cut``, by annotations."""
    return annotations_of(CHUNK - cut) + properties + DATA


@pytest.mark.parametrize("way", ["at_once", "in_two_frames", "from_a_file"])
def test_an_expiry_across_two_chunks(
    request: pytest.FixtureRequest, address: str, way: str
) -> None:
    cuts = range(0, len(properties_to(address, 1)) + 1, 3)
    gone = [padded(properties_to(address, -1), cut) for cut in cuts]
    kept = [padded(properties_to(address, 10**9), cut) for cut in cuts]
    ways = Ways(request, address)
    ways.expected = len(kept)
    messages = [(0, each) for each in [*gone, *kept]]
    assert getattr(ways, way)(messages) == messages[len(gone) :]


@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize("streaming", [False, True])
def test_an_address_across_two_chunks(
    server: Server, address: str, frames: int, streaming: bool
) -> None:
    """The anonymous terminus reads `to` wherever it stands; one that is too long is no address."""
    sent = [
        (0, padded(properties_to(address, 10**9), cut))
        for cut in range(len(properties_to(address, 1)) + 1)
    ]
    target = {"capabilities": symbols("qd.streaming-deliveries")} if streaming else {}
    with receiver(server.port, address) as client, sender(server.port, address) as producer:
        producer.attach_sender("", handle=1, target=composite("target", **target))
        producer.wait_for_credit()
        for number, (form, payload) in enumerate(sent):
            parts = [payload] if frames == 1 else [payload[:CHUNK], payload[CHUNK:]]
            for part in parts:
                producer.transfer(
                    number, part, handle=1, message_format=form, more=part is not parts[-1]
                )
            assert delivery(client) == (form, payload)
            settle(client, "accepted", number, number)
            assert outcome(producer) == "accepted"
        wide = padded(properties_to("y" * 5000, 10**9), 1000)
        producer.transfer(len(sent), wide[:CHUNK], handle=1, more=True)
        producer.transfer(len(sent), wide[CHUNK:], handle=1)
        assert outcome(producer) == "rejected"
