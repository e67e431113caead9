"""A reader of a stream that takes no more of it: the stream's sender and other readers go on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from proton import Delivery, Endpoint, Receiver, Sender
from support.engine_client import TIMEOUT, EngineClient
from support.server import Server, connected
from support.streams import head, received

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite

Start = Callable[..., Server]

SIZE = 3_000_000
MESSAGE = head(SIZE) + b"x" * SIZE
# More than the server holds before a message without the capability is a stream.
FIRST = 300_000
EXCEEDED = "amqp:link:message-size-exceeded"
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"

streaming = pytest.mark.parametrize("streaming", [False, True], ids=["large", "marked"])


def narrow(client: EngineClient, address: str, limit: int, credit: int = 10) -> Receiver:
    """Attach a receiver that takes messages of up to ``limit`` bytes."""
    link: Receiver = client.session().receiver(f"narrow-{id(client)}-{address}")
    link.source.address = address
    link.max_message_size = limit
    link.open()
    link.flow(credit)
    client.until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE))
    return link


def is_refused(link: Receiver) -> bool:
    """Say whether the server has detached a link because of its limit."""
    if not link.state & Endpoint.REMOTE_CLOSED:
        return False
    assert link.remote_condition.name == EXCEEDED
    return True


def push(producer: EngineClient, sender: Sender, data: bytes, *others: EngineClient) -> None:
    """Send bytes of the current delivery until the server has taken them all."""
    deadline = time.monotonic() + TIMEOUT
    while data or sender.session.outgoing_bytes:
        if data and sender.session.outgoing_bytes < 65536:
            data = data[sender.stream(data[:65536]) :]
        producer.pump(0.01)
        for other in others:
            other.pump(0)
        assert time.monotonic() < deadline, f"the sender stands, {len(data)} bytes before its end"


def finish(producer: EngineClient, sender: Sender, data: bytes, *others: EngineClient) -> None:
    """Send the rest of the current delivery."""
    push(producer, sender, data, *others)
    sender.advance()
    producer.pump(0)


@contextlib.contextmanager
def three(port: int) -> Iterator[tuple[EngineClient, EngineClient, EngineClient]]:
    """Connect a producer and two consumers."""
    with EngineClient(port) as producer, EngineClient(port) as one, EngineClient(port) as other:
        yield producer, one, other


@streaming
class TestTooLarge:
    """Part 2.7.3: a link with a limit gets no larger message, and is detached."""

    def test_the_sender_goes_on(self, server: Server, address: str, streaming: bool) -> None:
        """Without another reader it hears *released*. The next reader gets the next message."""
        with three(server.port) as (producer, bad, good):
            link = narrow(bad, address, 1000)
            sender = producer.sender(address, streaming=streaming)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            bad.until(lambda: is_refused(link))
            link.close()
            bad.pump(0)
            finish(producer, sender, MESSAGE[FIRST:])
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED
            receiver = good.receiver(address)
            producer.until(lambda: sender.credit > 0)
            producer.start(sender, MESSAGE[:FIRST])
            finish(producer, sender, MESSAGE[FIRST:], good)
            assert received(good, receiver, len(MESSAGE), producer) == MESSAGE

    def test_another_reader_gets_it(self, server: Server, address: str, streaming: bool) -> None:
        """Although the first one never answers the detach."""
        with three(server.port) as (producer, bad, good):
            link = narrow(bad, address, 1000)
            receiver = good.receiver(address, 0)
            sender = producer.sender(address, streaming=streaming)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            bad.until(lambda: is_refused(link))
            receiver.flow(10)
            finish(producer, sender, MESSAGE[FIRST:], good)
            assert received(good, receiver, len(MESSAGE), producer) == MESSAGE
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED

    def test_in_the_middle(self, server: Server, address: str, streaming: bool) -> None:
        """The bytes that it has are gone, so the sender hears *released*."""
        with three(server.port) as (producer, bad, good):
            link = narrow(bad, address, 1_000_000)
            sender = producer.sender(address, streaming=streaming)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            bad.read(link, 1000)
            push(producer, sender, MESSAGE[FIRST:], bad)
            bad.until(lambda: is_refused(link))
            assert link.current is None or link.current.aborted
            sender.advance()
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED
            receiver = good.receiver(address)
            producer.until(lambda: sender.credit > 0)
            producer.send(sender, head(1) + b"z")
            assert received(good, receiver, 9, producer) == head(1) + b"z"

    @pytest.mark.parametrize("limit", [1000, 1_000_000])
    def test_at_a_topic(self, server: Server, address: str, streaming: bool, limit: int) -> None:
        """Its other member gets all; the sender hears the worst outcome."""
        with three(server.port) as (producer, bad, good):
            topic = f"topic.{address}"
            link = narrow(bad, topic, limit)
            receiver = good.receiver(topic)
            sender = producer.sender(topic, streaming=streaming)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            finish(producer, sender, MESSAGE[FIRST:], good, bad)
            assert received(good, receiver, len(MESSAGE), producer, bad) == MESSAGE
            bad.until(lambda: is_refused(link))
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED

    @pytest.mark.parametrize("limit", [1000, 1_000_000])
    def test_on_a_link_for_streams(
        self, server: Server, address: str, streaming: bool, limit: int
    ) -> None:
        """The receiver's own link is detached too: each further stream would fail as well."""
        with (
            EngineClient(server.port) as producer,
            EngineClient(server.port, streaming_links=True) as bad,
        ):
            base = bad.receiver(address)
            sender = producer.sender(address, streaming=streaming)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            bad.until(lambda: bool(bad.attached))
            link = bad.attached.pop(0)
            link.session.open()
            link.max_message_size = limit
            link.open()
            link.flow(10)
            finish(producer, sender, MESSAGE[FIRST:], bad)
            bad.until(lambda: is_refused(link) and is_refused(base))
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED

    def test_behind_a_trunk(self, tmp_path: Path, address: str, streaming: bool) -> None:
        with (
            connected(tmp_path) as (near, far),
            EngineClient(near.port) as producer,
            EngineClient(far.port) as bad,
        ):
            link = narrow(bad, address, 1_000_000)
            producer.sender(address, streaming=True).close()
            sender = producer.sender(address, streaming=streaming)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            finish(producer, sender, MESSAGE[FIRST:], bad)
            bad.until(lambda: is_refused(link))
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED

    @pytest.mark.parametrize("limit", [1000, 1_000_000])
    def test_in_a_file(self, start: Start, tmp_path: Path, streaming: bool, limit: int) -> None:
        """The next reader gets the message from its beginning."""
        message = DURABLE + MESSAGE
        with three(start(store=tmp_path / "store").port) as (producer, bad, good):
            link = narrow(bad, "orders", limit)
            sender = producer.sender("orders", streaming=streaming)
            delivery = producer.start(sender, message[:FIRST])
            finish(producer, sender, message[FIRST:], bad)
            bad.until(lambda: is_refused(link))
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED
            assert received(good, good.receiver("orders"), len(MESSAGE)).endswith(MESSAGE)


class TestLeaves:
    """A reader without a window leaves in the middle of a stream, or is made to leave."""

    @pytest.mark.parametrize(
        "way", ["detach", "end", "close", "cut", "steal", "refused link", "refused session"]
    )
    def test_the_sender_goes_on(self, server: Server, address: str, way: str) -> None:
        with EngineClient(server.port) as producer, FrameClient(server.port) as reader:
            reader.open()
            reader.begin(incoming_window=2)
            reader.attach_receiver(address)
            reader.give_credit(10, incoming_window=2)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            reader.expect("transfer")
            leave(reader, way, address)
            finish(producer, sender, MESSAGE[FIRST:])
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.RELEASED

    @pytest.mark.parametrize("flow", [{"link_credit": 0}, {"link_credit": 10, "drain": True}])
    def test_credit_that_goes_does_not_end_the_stream(
        self, server: Server, address: str, flow: dict[str, object]
    ) -> None:
        """Credit is for deliveries, and this one has begun (part 2.6.7)."""
        with EngineClient(server.port) as producer, FrameClient(server.port) as reader:
            reader.open()
            reader.begin()
            reader.attach_receiver(address)
            reader.give_credit(10)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, MESSAGE[:FIRST])
            size = len(reader.expect("transfer").payload)
            reader.send(
                "flow", next_incoming_id=1, incoming_window=1000, next_outgoing_id=0,
                outgoing_window=1000, handle=0, delivery_count=1, **flow,
            )  # fmt: skip
            finish(producer, sender, MESSAGE[FIRST:])
            while size < len(MESSAGE):
                size += len(reader.expect("transfer").payload)
            reader.send("disposition", role=True, first=0, settled=True)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED


def leave(reader: FrameClient, way: str, address: str) -> None:
    """Leave a session with one receiving link; after a refusal do not answer it."""
    if way == "detach":
        reader.send("detach", handle=0, closed=True)
    elif way == "cut":
        reader.socket.close()
    elif way == "steal":
        reader.send(
            "begin", channel=1, next_outgoing_id=0, incoming_window=1000, outgoing_window=1000
        )
        source = composite("source", address=f"{address}-2")
        reader.send("attach", channel=1, name="from-0", handle=0, role=True, source=source)
        reader.until("attach")
    elif way == "refused link":
        reader.transfer(0, b"the wrong way")
        reader.until("detach")
    elif way == "refused session":
        reader.transfer(0, b"to nobody", handle=7)
        reader.until("end")
    else:
        reader.send(way)
