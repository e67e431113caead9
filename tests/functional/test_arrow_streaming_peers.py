"""The arrow's streams against python-qpid-proton: parts, aborts, links of their own, content."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator

import proton
import psutil
import pytest
from proton import Delivery, Endpoint, Receiver, Sender
from support.arrow_streams import ENDLESS, Recorded
from support.arrows import arguments, pyfast
from support.engine_client import STREAMING_DELIVERIES, STREAMING_LINKS, EngineClient
from support.judgement import assert_clean, assert_error
from support.measured import Figure
from support.processes import Finished, Running, free_port


def head(time: int, announced: int | None = None) -> bytes:
    """Return a message's application properties."""
    entries = b"\xa1\x08SendTime\x81" + struct.pack(">q", time)
    if announced is not None:
        entries = b"\xa1\x08BodySize\x81" + struct.pack(">q", announced) + entries
    count = 2 if announced is None else 4
    return b"\x00\x53\x74\xc1" + bytes([len(entries) + 1, count]) + entries


def data(size: int, content: bytes | None = None) -> bytes:
    """Return a data section of ``size`` bytes, of which ``content`` is there."""
    body = b"x" * size if content is None else content
    return b"\x00\x53\x75\xb0" + struct.pack(">I", size) + body


def now() -> int:
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def arrow(operation: str, **options: object) -> Iterator[tuple[Running, EngineClient]]:
    """Run an arrow that listens, connected to by a client."""
    port = free_port()
    keys = {"streaming": 1, "count": 1, **options}
    words = arguments(operation, port, connection_mode="server", channel_mode="passive", **keys)
    with Running(pyfast(*words)) as running:
        running.wait_until_listening(port)
        with EngineClient(port, streaming_links=True) as client:
            yield running, client


def end_of_stream(client: EngineClient, sender: Sender) -> None:
    """Tell that the delivery is whole."""
    sender.advance()
    client.pump(0)


def ended(running: Running, client: EngineClient) -> Finished:
    """Answer the arrow's close, for which it waits; return how it ended."""
    client.until(
        lambda: client.closed_by_peer or bool(client.connection.state & Endpoint.REMOTE_CLOSED)
    )
    client.connection.close()
    client.until(lambda: running.process.poll() is not None)
    return running.wait()


def feed(client: EngineClient, sender: Sender, data: bytes) -> None:
    sender.stream(data)
    client.pump(0)


# -- receiving


def test_a_message_in_many_parts() -> None:
    message = head(now(), 900) + data(300) + data(600)
    with arrow("receive") as (running, client):
        sender = client.sender("q", streaming=True)
        delivery = client.start(sender, message[:1])
        for at in range(1, len(message), 7):
            feed(client, sender, message[at : at + 7])
        end_of_stream(client, sender)
        client.until(lambda: delivery.remote_state == Delivery.ACCEPTED)
        assert STREAMING_LINKS in client.connection.remote_offered_capabilities
        end = ended(running, client)
    assert_clean(end)
    told = Recorded.by(end)
    assert (len(told.transfers), told.whole, told.body_bytes) == (1, 1, 900)


def test_the_first_bytes_have_a_latency_of_their_own() -> None:
    sent = now()
    with arrow("receive") as (running, client):
        sender = client.sender("q", streaming=True)
        client.start(sender, head(sent) + data(20, b"x" * 10))
        # The part that stands still is recorded while the message is not whole.
        client.until(lambda: running.stdout_so_far().endswith(",10\n"))
        client.rest(0.6)
        feed(client, sender, b"x" * 10)
        end_of_stream(client, sender)
        end = ended(running, client)
    told = Recorded.by(end)
    ((_, first),) = told.first_byte
    received = int(told.transfers[0].split(",")[1])
    assert sent <= first < received - 500
    assert any(line.startswith("B,") and line.endswith(",10") for line in end.lines)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (data(4, b"xxyx"), "no 'x'"),
        (data(10, b"xxxx"), "ends within a section, after 4 bytes"),
        (data(10) + b"\x00\x53", "ends within a section, after 10 bytes"),
        (data(9), "a body of 9 bytes and announced 10"),
        (data(5) + data(6), "a body of 11 bytes and announced 10"),
        (b"\x00\x53\x77\xa1\x02xx", "not made of Data sections"),
        (b"xxxxx", "not made of Data sections"),
    ],
)
def test_a_wrong_body_fails_the_run(content: bytes, complaint: str) -> None:
    with arrow("receive", count=2) as (running, client):
        sender = client.sender("q", streaming=True)
        client.send(sender, head(now(), 10) + data(10))
        client.send(sender, head(now(), 10) + content)
        end = ended(running, client)
    assert_error(end, "message 2", complaint)
    assert len(Recorded.by(end).transfers) == 1


@pytest.mark.parametrize("streaming", [0, 1])
@pytest.mark.parametrize("sent", [1, 60, 200_000])
def test_an_aborted_delivery_is_counted_and_fails_the_run(streaming: int, sent: int) -> None:
    message = head(now(), 1_000_000) + data(1_000_000)
    with arrow("receive", count=0, duration=0, streaming=streaming) as (running, client):
        sender = client.sender("q", streaming=True)
        client.send(sender, head(now(), 10) + data(10))
        delivery = client.start(sender, message[:sent])
        client.rest(0.1)
        delivery.abort()
        client.send(sender, head(now(), 10) + data(10))
        client.connection.close()
        end = ended(running, client)
    assert_error(end, "1 deliveries were aborted", within=60)
    assert len(Recorded.by(end).transfers) == 2


def test_an_abort_of_the_last_message_is_what_is_told() -> None:
    with arrow("receive") as (running, client):
        sender = client.sender("q", streaming=True)
        delivery = client.start(sender, head(now()) + data(100, b"x"))
        client.rest(0.1)
        delivery.abort()
        client.connection.close()
        assert_error(ended(running, client), "1 deliveries were aborted")


def test_a_link_that_ends_within_a_message_fails_the_run() -> None:
    with arrow("receive", count=0, duration=0) as (running, client):
        sender = client.sender("q", streaming=True)
        client.start(sender, head(now()) + data(100, b"x"))
        client.rest(0.1)
        client.connection.close()
        assert_error(ended(running, client), "within message 1")


def stream_link(client: EngineClient, session: proton.Session | None = None) -> Sender:
    """Attach a link as a server does for a stream: no addresses, a session of its own or not."""
    link: Sender = (session or client.session()).sender(f"stream-{time.monotonic_ns()}")
    link.open()
    return link


@pytest.mark.parametrize("shared", [False, True])
def test_streams_on_links_of_their_own(shared: bool) -> None:
    """Many at once, interleaved; a small message overtakes them on the base link."""
    count = 20
    with arrow("receive", count=2 * count + 1) as (running, client):
        base = client.sender("q")
        session = client.session() if shared else None
        links = [stream_link(client, session) for _ in range(count)]
        client.until(lambda: all(link.credit > 0 for link in links))
        deliveries = [client.start(link, head(now(), 500) + data(500, b"x")) for link in links]
        small = client.send(base, head(now()) + data(3))
        client.until(lambda: small.remote_state == Delivery.ACCEPTED)
        assert not any(delivery.settled for delivery in deliveries)
        for link in links:
            feed(client, link, b"x" * 499)
            end_of_stream(client, link)
        client.until(lambda: all(delivery.settled for delivery in deliveries))
        # A finished link takes the next stream.
        client.until(lambda: all(link.credit > 0 for link in links))
        for link in links:
            client.send(link, head(now(), 7) + data(7))
        client.until(lambda: running.process.poll() is not None)
        end = running.wait()
    assert_clean(end)
    told = Recorded.by(end)
    assert (len(told.transfers), told.body_bytes) == (2 * count + 1, 3 + count * 507)


def test_stream_links_come_and_go() -> None:
    with arrow("receive", count=51) as (running, client):
        base = client.sender("q")
        for _ in range(50):
            link = stream_link(client)
            client.until(lambda link=link: link.credit > 0)
            delivery = client.send(link, head(now(), 50) + data(50))
            client.until(lambda delivery=delivery: delivery.settled)
            link.close()
            link.session.close()
            client.until(lambda link=link: bool(link.state & Endpoint.REMOTE_CLOSED))
            client.until(lambda link=link: bool(link.session.state & Endpoint.REMOTE_CLOSED))
        client.send(base, head(now()) + data(3))
        assert_clean(ended(running, client))


def test_a_stream_link_that_ends_within_a_message_fails_the_run() -> None:
    with arrow("receive", count=1) as (running, client):
        base = client.sender("q")
        link = stream_link(client)
        client.until(lambda: link.credit > 0)
        client.start(link, head(now(), 50) + data(50, b"x"))
        client.rest(0.1)
        link.close()
        client.until(lambda: bool(link.state & Endpoint.REMOTE_CLOSED))
        client.send(base, head(now()) + data(3))
        assert_error(ended(running, client), "1 deliveries were aborted")


def test_a_link_in_the_other_direction_is_refused() -> None:
    with arrow("receive") as (running, client):
        base = client.sender("q")
        link = client.session().receiver("wrong-way")
        link.open()
        client.until(lambda: bool(link.state & Endpoint.REMOTE_CLOSED))
        assert link.remote_condition.name == "amqp:not-allowed"
        client.send(base, head(now()) + data(3))
        assert_clean(ended(running, client))


# -- sending


def offered(capabilities: proton.Data) -> object:
    """Return the one capability of a terminus."""
    capabilities.rewind()
    capabilities.next()
    return capabilities.get_object()


def receiver(client: EngineClient, window: int = 0) -> Receiver:
    session = client.connection.session()
    if window:
        session.incoming_capacity = window
    session.open()
    return client.receiver("q", session=session)


@pytest.mark.parametrize("window", [0, 65_536, 200_000], ids=str)
def test_a_receiver_reads_the_parts(window: int) -> None:
    size = 3_000_000
    with arrow("send", body_size=size) as (running, client):
        link = receiver(client, window)
        assert offered(link.remote_target.capabilities) == STREAMING_DELIVERIES
        message = proton.Message()
        encoded = client.read(link, size + 50)
        client.until(lambda: not link.current.partial)
        encoded += link.recv(1000) or b""
        message.decode(encoded)
        assert bytes(message.body) == b"x" * size
        assert message.properties["BodySize"] == size
        client.accept(link)
        end = ended(running, client)
    assert_clean(end)
    assert Recorded.by(end).body_bytes == size


# A piece of the body in whole frames of 64 KiB.
PIECE = 65_536 - 96


@pytest.mark.parametrize("frame", [512, 65_536, 1_000_000])
@pytest.mark.parametrize("size", [2 * PIECE, 2 * PIECE + 1, 9 * PIECE + 70])
def test_a_body_goes_in_frames_of_any_size(frame: int, size: int) -> None:
    """One that is too large would close the connection."""
    port = free_port()
    words = arguments("send", port, connection_mode="server", channel_mode="passive", count=2,
                      body_size=size, streaming=1)  # fmt: skip
    with Running(pyfast(*words)) as running:
        running.wait_until_listening(port)
        with EngineClient(port, streaming_links=True, max_frame=frame) as client:
            link = receiver(client)
            for _ in range(2):
                encoded = client.read(link, size)
                while link.current.partial:
                    client.pump()
                    encoded += link.recv(1 << 20) or b""
                message = proton.Message()
                message.decode(encoded)
                assert bytes(message.body) == b"x" * size
                client.accept(link)
            client.until(lambda: bool(client.connection.state & Endpoint.REMOTE_CLOSED))
        end = running.wait()
    assert_clean(end)
    assert Recorded.by(end).body_bytes == 2 * size


@contextlib.contextmanager
def unread() -> Iterator[tuple[Running, EngineClient]]:
    """Run an arrow that sends an endless body to a receiver that does not read it."""
    with arrow("send", body_size=ENDLESS) as (running, client):
        link = receiver(client, 100_000)
        client.until(lambda: link.current is not None)
        client.rest(0.3)
        yield running, client
        assert link.current.pending <= 200_000


def test_a_receiver_that_does_not_read_stops_the_sender() -> None:
    with unread() as (running, client):
        client.rest(0.2)
        assert running.process.poll() is None


@pytest.mark.measured
def test_a_sender_that_is_stopped_takes_nothing(figure: Figure) -> None:
    """Without a window nothing is sent, nor kept, nor does it take CPU time."""
    with unread() as (running, client):
        process = psutil.Process(running.process.pid)
        before = sum(process.cpu_times()[:2])
        client.rest(1.0)
        taken = sum(process.cpu_times()[:2]) - before
        figure("CPU of a second", taken, at_most=0.1, unit="s")
        figure("memory", process.memory_info().rss, at_most=40_000_000, unit="B")


@pytest.mark.parametrize(
    ("state", "name"),
    [(Delivery.REJECTED, "1 rejected"), (Delivery.RELEASED, "1 released")],
)
def test_an_early_outcome_ends_the_body(state: int, name: str) -> None:
    with arrow("send", body_size=ENDLESS) as (running, client):
        link = receiver(client)
        client.read(link, 100)
        delivery = link.current
        delivery.update(state)
        delivery.settle()
        end = ended(running, client)
    assert_error(end, name, within=60)


def test_an_early_acceptance_is_one() -> None:
    with arrow("send", body_size=ENDLESS) as (running, client):
        link = receiver(client)
        client.read(link, 100)
        client.accept(link)
        assert_clean(ended(running, client))
