"""Streaming deliveries: contents, memory, many at once, and faults at every point."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Delivery, Endpoint, Receiver, Sender
from support.arrow_streams import peak_bytes, rearm_peak
from support.arrows import arguments, run_pyfast
from support.certificates import Certificates
from support.control import controlled
from support.engine_client import EngineClient
from support.examples import examples
from support.measured import Figure
from support.network import breaking_proxy
from support.processes import REPOSITORY, wait_until
from support.server import Server
from support.streams import BOTH, cpu_seconds, head, judged, many_begun, pair, received, rss, wave

MEBIBYTE = 1 << 20
QUIET = 0.3
Start = Callable[..., Server]

# A client in a process of its own, to be killed. Says a line when it is so far.
CHILD = """\
import sys
from support.engine_client import EngineClient
from support.streams import head
role, port, address, size, part = sys.argv[1], *map(str, sys.argv[2:])
client = EngineClient(int(port))
if role == "sender":
    sender = client.sender(address, streaming=True)
    client.start(sender, head(int(size)))
    sent = 0
    while sent < int(part):
        client.until(lambda: sender.session.outgoing_bytes < 65536)
        sent += sender.stream(b"x" * min(16384, int(part) - sent))
        client.pump(0)
    client.until(lambda: sender.session.outgoing_bytes == 0)
else:
    receiver = client.receiver(address)
    print("attached", flush=True)
    client.read(receiver, int(part))
print("there", flush=True)
while True:
    client.pump()
"""


def child(role: str, server: Server, address: str, size: int, part: int) -> subprocess.Popen[str]:
    """Start a sender or a receiver that stops after ``part`` of ``size`` bytes."""
    words = [role, str(server.port), address, str(size), str(part)]
    paths = f"{REPOSITORY / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_on(producer: EngineClient, sender: Sender, data: bytes) -> None:
    """Send more of the current delivery, as fast as it goes."""
    for start in range(0, len(data), 65536):
        producer.until(lambda: sender.session.outgoing_bytes < 131072)
        sender.stream(data[start : start + 65536])
        producer.pump(0)


def push(producer: EngineClient, senders: list[Sender], seconds: float) -> None:
    """Send as much as there is room for, on all of them in turn, until nothing moves."""
    quiet = 0
    while quiet < seconds / 0.01:
        quiet += 1
        for sender in senders:
            if sender.session.outgoing_bytes < 65536:
                sender.stream(b"x" * 65536)
                quiet = 0
        producer.pump(0.01)


class TestContent:
    @BOTH
    def test_a_hundred_megabytes_arrive_as_they_were_sent(
        self, server: Server, address: str, request: pytest.FixtureRequest, measures: bool
    ) -> None:
        """Twenty, if none looks at the memory."""
        figure = judged(request, measures)
        blocks = [os.urandom(MEBIBYTE) for _ in range(4)]
        last = 100 if measures else 20
        size = last * MEBIBYTE
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            start = head(size)
            producer.start(sender, start)
            link = consumer.take()
            sent, got, count, number = zlib.crc32(start), 0, 0, 0
            rearm_peak(server.process.pid)
            before = rss(server)
            while count < size + len(start):
                if number < last and sender.session.outgoing_bytes < MEBIBYTE:
                    sent = zlib.crc32(blocks[number % 4], sent)
                    sender.stream(blocks[number % 4])
                    number += 1
                    if number == last:
                        sender.advance()
                producer.pump(0)
                consumer.pump(0)
                while link.current is not None and (part := link.recv(MEBIBYTE)):
                    got = zlib.crc32(part, got)
                    count += len(part)
            assert (got, count) == (sent, size + len(start))
            grown = peak_bytes(server.process.pid) - before
            figure("bytes held at most", grown, at_most=16 * MEBIBYTE, unit="B")

    @settings(
        max_examples=examples(50),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=5),
        cuts=st.sets(st.integers(1, 1600), max_size=12),
        streaming_links=st.booleans(),
        capability=st.booleans(),
        node=st.sampled_from(["queue", "topic"]),
    )
    def test_cut_anywhere(
        self,
        server: Server,
        address: str,
        bodies: list[bytes],
        cuts: set[int],
        streaming_links: bool,
        capability: bool,
        node: str,
    ) -> None:
        """Header, annotations, properties and several data sections, in any pieces."""
        header = b"\x00\x53\x70\xc0\x04\x02\x41\x50\x07"
        annotations = b"\x00\x53\x72\xc1\x07\x02\xa3\x01k\xa1\x01v"
        properties = b"\x00\x53\x73\xc0\x05\x01\xa1\x02id"
        message = header + annotations + properties
        message += b"".join(head(len(body)) + body for body in bodies)
        places = [0, *sorted(cut for cut in cuts if cut < len(message)), len(message)]
        parts = [message[a:b] for a, b in itertools.pairwise(places)]
        # The example before may still have a consumer at its address.
        own = f"{node}.{address}-{os.urandom(8).hex()}"
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            base = consumer.receiver(own)
            sender = producer.sender(own, streaming=capability)
            producer.start(sender, parts[0])
            for part in parts[1:]:
                sender.stream(part)
                producer.pump(0)
            sender.advance()
            producer.until(lambda: sender.session.outgoing_bytes == 0)
            consumer.until(lambda: bool(consumer.attached) or base.queued > 0)
            link = consumer.take() if consumer.attached else base
            assert received(consumer, link, len(message), producer) == message

    @pytest.mark.parametrize("frame", [512, 4096, 65536])
    def test_small_frames_and_windows(self, start: Start, address: str, frame: int) -> None:
        body = os.urandom(300_000)
        with pair(start(max_frame_size=frame), streaming_links=False) as (producer, consumer):
            session = consumer.connection.session()
            session.incoming_capacity = 65536
            session.open()
            receiver = consumer.receiver(address, session=session)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(len(body)))
            sender.stream(body)
            sender.advance()
            data = b""

            def done() -> bool:
                nonlocal data
                producer.pump(0)
                if receiver.current is not None:
                    data += receiver.recv(65536) or b""
                return len(data) == len(body) + 8

            consumer.until(done)
            assert data == head(len(body)) + body

    @BOTH
    def test_through_tls(
        self, start: Start, certificates: Certificates, tmp_path: Path,
        request: pytest.FixtureRequest, measures: bool,
    ) -> None:  # fmt: skip
        """Large bodies are streams once so much of them has come as a stream may hold."""
        server = start(scheme="amqps", **certificates.server.keys())
        common: dict[str, object] = {
            "scheme": "amqps", "trust_store": certificates.authority,
            "count": 3, "body_size": 20 * MEBIBYTE,
        }  # fmt: skip
        with controlled(tmp_path, *arguments("receive", server.port, **common)) as receiver:
            # A queue that nobody receives from holds whole messages.
            receiver.wait_ready()
            rearm_peak(server.process.pid)
            before = rss(server)
            sender = run_pyfast(*arguments("send", server.port, **common))
            for end in (sender, receiver.end()[0]):
                assert (end.code, end.stderr, len(end.lines)) == (0, "", 3)
        judged(request, measures)(
            "peak of three bodies of 20 MiB", peak_bytes(server.process.pid) - before,
            at_most=16 * MEBIBYTE, unit="B",
        )  # fmt: skip


class TestManyAtOnce:
    @pytest.mark.parametrize("streaming_links", [False, True])
    def test_sixty_four(self, server: Server, address: str, streaming_links: bool) -> None:
        """Fragments of all interleave, each with its own bytes."""
        with pair(server, streaming_links=streaming_links) as (producer, consumer):
            senders, links, starts = many_begun(producer, consumer, address, streaming_links)
            for sender in senders:
                sender.stream(sender.name.encode()[:2])
                sender.advance()
            producer.pump(0)
            numbers = set()
            for link, start in zip(links, starts, strict=True):
                whole = start + received(consumer, link, 2999, producer)
                numbers.add(whole[8])
                assert set(whole[8:3006]) == {whole[8]}
            assert numbers == set(range(64))

    def test_an_unread_one_stops_no_other(self, server: Server, address: str) -> None:
        """Neither on the consumer's connection nor on the producer's."""
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            unread, other = (producer.sender(address, streaming=True) for _ in range(2))
            producer.start(unread, head(1 << 30))
            consumer.take()
            push(producer, [unread], QUIET)
            producer.start(other, head(4 * MEBIBYTE))
            link = consumer.take()
            got = len(consumer.read(link, 8))
            for _ in range(64):
                send_on(producer, other, b"x" * 65536)
                got += len(consumer.read(link, 1))
            other.advance()
            received(consumer, link, 4 * MEBIBYTE + 8 - got, producer)


@pytest.mark.measured
class TestMemory:
    @pytest.mark.parametrize(("shared", "limit"), [(True, 448 << 10), (False, 1 << 20)])
    def test_stalled_streams(
        self, start: Start, address: str, shared: bool, limit: int, figure: Figure
    ) -> None:
        """32 of them on one connection, or each on its own; and nothing of them stays."""
        server = start()
        count = 32
        clients: list[EngineClient] = []

        def client(**options: bool) -> EngineClient:
            clients.append(EngineClient(server.port, **options))
            return clients[-1]

        # Memory that the first connections allocate for good is not a stream's.
        with pair(server, streaming_links=True) as (producer, consumer):
            consumer.receiver(address)
            wave(producer, consumer, [producer.sender(address, streaming=True)], [])
        before = rss(server)
        consumers = [client(streaming_links=True) for _ in range(1 if shared else count)]
        producers = [client() for _ in range(1 if shared else count)]
        for number, each in enumerate(consumers):
            each.receiver(f"{address}-{number}")
        senders = []
        for number in range(count):
            producer = producers[number % len(producers)]
            consumer = consumers[number % len(consumers)]
            name = f"{address}-{number % len(consumers)}"
            senders.append(producer.sender(name, streaming=True))
            producer.start(senders[-1], head(1 << 30))
            consumer.take()
        for producer in producers:
            own = [sender for sender in senders if sender.connection == producer.connection]
            push(producer, own, 0.1)
        held = (rss(server) - before) / count
        figure("bytes held by a stream", held, at_most=limit, unit="B")
        cpu = cpu_seconds(server)
        producers[0].rest(1.0)
        figure("CPU of a second", cpu_seconds(server) - cpu, at_most=0.05, unit="s")
        for each in clients:
            each.socket.close()
        began = time.monotonic()
        wait_until(lambda: rss(server) - before <= 2 * MEBIBYTE, "memory is returned")
        figure("time until it is returned", time.monotonic() - began, at_most=1.5, unit="s")


class TestFaults:
    SIZE = 2 * MEBIBYTE

    @pytest.mark.parametrize("part", [1, MEBIBYTE, SIZE - 1])
    @pytest.mark.parametrize("streaming_links", [False, True])
    def test_the_sender_is_killed(
        self, server: Server, address: str, part: int, streaming_links: bool
    ) -> None:
        with EngineClient(server.port, streaming_links=streaming_links) as consumer:
            base = consumer.receiver(address)
            process = child("sender", server, address, self.SIZE, part)
            link = consumer.take() if streaming_links else base
            assert len(consumer.read(link, part + 8)) == part + 8
            assert line(process) == "there"
            seen = link.current
            assert seen.partial
            process.send_signal(signal.SIGKILL)
            process.wait()
            consumer.until(lambda: seen.aborted)

    @pytest.mark.parametrize("part", [9, MEBIBYTE, SIZE + 7])
    def test_the_receiver_is_killed(self, server: Server, address: str, part: int) -> None:
        with EngineClient(server.port) as producer:
            process = child("receiver", server, address, self.SIZE, part)
            assert line(process) == "attached"
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(self.SIZE))
            send_on(producer, sender, b"x" * (part - 8))
            producer.until(lambda: sender.session.outgoing_bytes == 0)
            assert line(process) == "there"
            process.send_signal(signal.SIGKILL)
            process.wait()
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            send_on(producer, sender, b"x" * (self.SIZE + 8 - part))
            sender.advance()
            producer.until(lambda: delivery.settled)

    @pytest.mark.parametrize("how", ["fin", "rst", "silence"])
    def test_the_network_breaks(self, start: Start, address: str, how: str) -> None:
        # As long as a client of this test may have no time to say that it is there.
        server = start(idle_timeout=3 if how == "silence" else 30)
        with (
            EngineClient(server.port) as consumer,
            breaking_proxy(server.port, 500_000, how) as proxy,
            EngineClient(proxy.port) as producer,
        ):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(MEBIBYTE))
            send_on(producer, sender, b"x" * 60_000)
            producer.until(lambda: sender.session.outgoing_bytes == 0)
            consumer.read(receiver, 60_000)
            seen = receiver.current
            for _ in range(20):
                sender.stream(b"x" * 30_000)
                producer.pump(0.01)
                consumer.beat()

            def aborted() -> bool:
                producer.pump(0)
                consumer.beat()
                while not seen.aborted and receiver.recv(65536):
                    pass
                return bool(seen.aborted)

            consumer.until(aborted)

    def test_too_large(self, start: Start, address: str) -> None:
        """The sender's link is closed with the error of AMQP, and the message is aborted."""
        with pair(start(max_message_size=MEBIBYTE), streaming_links=False) as (producer, consumer):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(2 * MEBIBYTE))
            seen = None

            def refused() -> bool:
                nonlocal seen
                if sender.state & Endpoint.REMOTE_CLOSED:
                    return True
                if sender.session.outgoing_bytes < 65536:
                    sender.stream(b"x" * 65536)
                consumer.pump(0)
                seen = receiver.current or seen
                while receiver.current is not None and not seen.aborted and receiver.recv(65536):
                    pass
                return False

            producer.until(refused)
            assert sender.remote_condition.name == "amqp:link:message-size-exceeded"
            assert seen is not None
            consumer.until(lambda: bool(seen.aborted))
            again = producer.sender(address, streaming=True)
            producer.send(again, head(1) + b"z")

    def test_a_stream_that_waits_behind_another_is_released(
        self, server: Server, address: str
    ) -> None:
        with EngineClient(server.port) as producer:
            with EngineClient(server.port) as consumer:
                receiver = consumer.receiver(address)
                first = producer.start(producer.sender(address, streaming=True), head(9) + b"a")
                consumer.read(receiver, 9)
                second = producer.start(producer.sender(address, streaming=True), head(9) + b"b")
                consumer.rest(0.1)
            for delivery in (first, second):
                producer.until(lambda delivery=delivery: delivery.remote_state == Delivery.RELEASED)


class TestMulticast:
    def test_the_slowest_paces(self, server: Server, address: str) -> None:
        topic = f"topic.{address}"
        with pair(server, streaming_links=False) as (producer, consumer):
            slow, fast = consumer.receiver(topic, 0), consumer.receiver(topic)
            sender = producer.sender(topic, streaming=True)
            producer.start(sender, head(1 << 30))
            push(producer, [sender], QUIET)
            got = len(consumer.read(fast, 1)) + len(drained(consumer, fast))
            assert got <= MEBIBYTE
            slow.flow(1)
            consumer.read(slow, 65536)
            push(producer, [sender], 0.05)
            assert consumer.read(fast, 1)

    def test_the_senders_death_aborts_at_all(self, server: Server, address: str) -> None:
        topic = f"topic.{address}"
        with EngineClient(server.port) as consumer:
            receivers = [consumer.receiver(topic) for _ in range(3)]
            with EngineClient(server.port) as producer:
                producer.start(producer.sender(topic, streaming=True), head(9) + b"x")
                for receiver in receivers:
                    consumer.read(receiver, 9)
                seen = [receiver.current for receiver in receivers]
            consumer.until(lambda: all(delivery.aborted for delivery in seen))

    def test_accepted_when_all_have_accepted(self, server: Server, address: str) -> None:
        topic = f"topic.{address}"
        with pair(server, streaming_links=False) as (producer, consumer):
            receivers = [consumer.receiver(topic) for _ in range(2)]
            sender = producer.sender(topic, streaming=True)
            delivery = producer.start(sender, head(2) + b"a")
            # It is a stream by then: a message that comes whole is accepted at once.
            consumer.read(receivers[0], 9)
            sender.stream(b"b")
            sender.advance()
            producer.pump(0)
            received(consumer, receivers[0], 1)
            producer.rest(QUIET)
            assert delivery.remote_state == 0
            received(consumer, receivers[1], 10)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED


def drained(consumer: EngineClient, receiver: Receiver) -> bytes:
    """Read until nothing more comes."""
    data = b""
    quiet = 0
    while quiet < 10:
        consumer.pump(0.02)
        part = receiver.recv(MEBIBYTE) if receiver.current is not None else None
        data += part or b""
        quiet = 0 if part else quiet + 1
    return data
