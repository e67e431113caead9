"""Streams between two servers: large, many, stalled, and with every way to lose them."""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from proton import Delivery, Receiver, Sender, Terminus
from support.arrow_streams import peak_bytes, rearm_peak
from support.engine_client import EngineClient
from support.network import PROXY_SECONDS, Passage, Proxy
from support.processes import wait_until
from support.server import Server, connected, running_server
from support.streams import (
    BOTH,
    WAYS,
    Arriving,
    cpu_seconds,
    head,
    judged,
    leave,
    many_begun,
    passes,
    received,
    route,
    rss,
    send_all,
)

Start = Callable[..., Server]
MEBIBYTE = 1 << 20
QUIET = 0.2
SIZE = 40_000
# After how much of a message somebody goes.
PARTS = [9, SIZE // 2, SIZE + 7]
MESSAGE = head(SIZE) + b"x" * SIZE
# The servers, by number.
NAMES = ["the first", "the next"]


class TestLarge:
    @BOTH
    def test_a_hundred_megabytes(
        self,
        servers: tuple[Server, Server],
        address: str,
        request: pytest.FixtureRequest,
        measures: bool,
    ) -> None:
        """As they were sent, and in constant memory of both servers.

        Twenty, if none looks at their memory.
        """
        figure = judged(request, measures)
        blocks = [os.urandom(MEBIBYTE) for _ in range(4)]
        count = 100 if measures else 20
        size = count * MEBIBYTE
        with (
            EngineClient(servers[0].port) as producer,
            EngineClient(servers[1].port, streaming_links=True) as consumer,
        ):
            consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, head(size))
            link = consumer.take()
            arriving = Arriving(consumer, link)
            before = [rss(server) for server in servers]
            for server in servers:
                rearm_peak(server.process.pid)
            sent = zlib.crc32(head(size))
            for number in range(count):
                sent = zlib.crc32(blocks[number % 4], sent)
                while sender.session.outgoing_bytes >= MEBIBYTE:
                    producer.pump(0)
                    arriving.take()
                sender.stream(blocks[number % 4])
            sender.advance()
            arriving.wait(size + 8, producer)
            assert (arriving.count, arriving.crc) == (size + 8, sent)
            for name, server, was in zip(NAMES, servers, before, strict=True):
                grown = peak_bytes(server.process.pid) - was
                figure(f"bytes held at most by {name}", grown, at_most=4 * MEBIBYTE, unit="B")

    @pytest.mark.parametrize("streaming_links", [False, True])
    def test_sixty_four_at_once(
        self, servers: tuple[Server, Server], address: str, streaming_links: bool
    ) -> None:
        """Fragments of all interleave, each with its own bytes."""
        with (
            EngineClient(servers[0].port) as producer,
            EngineClient(servers[1].port, streaming_links=streaming_links) as consumer,
        ):
            senders, links, starts = many_begun(producer, consumer, address, streaming_links)
            for sender in senders:
                sender.current.abort() if sender is senders[0] else sender.advance()
            producer.pump(0)
            numbers = set()
            for link, begun in zip(links, starts, strict=True):
                if begun[8] == 0:
                    consumer.until(
                        lambda link=link: (
                            producer.pump(0) or link.current is None or link.current.aborted
                        )
                    )
                    continue
                whole = begun + received(consumer, link, 2997, producer)
                assert set(whole[8:]) == {whole[8]}
                numbers.add(whole[8])
            assert numbers == set(range(1, 64))


class TestStalled:
    @BOTH
    def test_it_costs_neither_server_any_time(
        self,
        servers: tuple[Server, Server],
        address: str,
        request: pytest.FixtureRequest,
        measures: bool,
    ) -> None:
        """And goes on as it was."""
        figure = judged(request, measures)
        message = head(4 * MEBIBYTE) + os.urandom(4 * MEBIBYTE)
        with (
            EngineClient(servers[0].port) as producer,
            EngineClient(servers[1].port) as consumer,
        ):
            receiver = consumer.receiver(address, credit=0)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, message[:100])
            given = 100 + push(producer, sender, message[100:])
            assert given < len(message)
            spent = [cpu_seconds(server) for server in servers]
            producer.rest(1.0 if measures else 0.1)
            for name, server, before in zip(NAMES, servers, spent, strict=True):
                cpu = cpu_seconds(server) - before
                figure(f"CPU of a second of {name}", cpu, at_most=0.05, unit="s")
            receiver.flow(1)
            passes(producer, sender, message, consumer, receiver, given)


def push(producer: EngineClient, sender: Sender, data: bytes) -> int:
    """Send until nothing moves; return how much that was."""
    given = quiet = 0
    while quiet < 20:
        quiet += 1
        if sender.session.outgoing_bytes < 65536 and given < len(data):
            given += sender.stream(data[given : given + 65536])
            quiet = 0
        producer.pump(0.01)
    return given


class TestTheSendingServerGoes:
    """A client in its place sends what it would, and leaves in the middle."""

    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("way", ["abort", *WAYS])
    def test_the_consumer_sees_it_aborted(
        self, server: Server, address: str, way: str, part: int, streaming_links: bool
    ) -> None:
        with (
            EngineClient(server.port, trunk=True) as trunk,
            EngineClient(server.port, streaming_links=streaming_links) as consumer,
        ):
            base = consumer.receiver(address)
            sender = trunk.sender(None)
            trunk.start(sender, route(address) + MESSAGE[:part])
            link = consumer.take() if streaming_links else base
            assert consumer.read(link, part) == MESSAGE[:part]
            seen = link.current
            assert seen.partial
            leave(trunk, sender, way)
            consumer.until(lambda: seen.aborted)
            seen.settle()
            # The next is a message of its own.
            with EngineClient(server.port, trunk=True) as again:
                sender = again.sender(None)
                again.start(sender, route(address) + head(2) + b"y")
                assert consumer.read(link, 9) == head(2) + b"y"

    @pytest.mark.parametrize("way", WAYS)
    def test_before_all_of_the_route_came(self, server: Server, address: str, way: str) -> None:
        """Nobody hears of it, and who comes next is served."""
        with (
            EngineClient(server.port, trunk=True) as trunk,
            EngineClient(server.port, trunk=True) as again,
            EngineClient(server.port) as consumer,
        ):
            receiver = consumer.receiver(address)
            sender = trunk.sender(None)
            trunk.start(sender, route(address)[:-1])
            leave(trunk, sender, way)
            sender = again.sender(None)
            again.start(sender, route(address) + head(1) + b"y")
            sender.advance()
            assert received(consumer, receiver, 9, again) == head(1) + b"y"


class TestTheReceiverGoes:
    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("way", WAYS)
    def test_the_sender_hears_released(
        self,
        servers: tuple[Server, Server],
        address: str,
        way: str,
        part: int,
        streaming_links: bool,
    ) -> None:
        with EngineClient(servers[0].port) as producer:
            with EngineClient(servers[1].port, streaming_links=streaming_links) as consumer:
                base = consumer.receiver(address)
                sender = producer.sender(address, streaming=True)
                delivery = producer.start(sender, MESSAGE[:part])
                link = consumer.take() if streaming_links else base
                consumer.read(link, part)
                leave(consumer, link, way)
                producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            sender.stream(MESSAGE[part:])
            sender.advance()
            producer.until(lambda: delivery.settled)
            # It gives back what credit it has, and gets some when the next receiver is known.
            producer.until(lambda: sender.drain_mode)
            sender.drained()
            producer.pump(0)
            with EngineClient(servers[1].port) as other:
                receiver = other.receiver(address)
                producer.until(lambda: sender.credit > 0)
                producer.start(sender, head(2) + b"y")
                assert other.read(receiver, 9) == head(2) + b"y"


class TestAServerIsKilled:
    @pytest.mark.parametrize("part", PARTS)
    def test_the_consumers(self, tmp_path: Path, address: str, part: int) -> None:
        with (
            connected(tmp_path) as (near, far),
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, MESSAGE[:part])
            consumer.read(receiver, part)
            far.kill()
            producer.until(lambda: delivery.remote_state == Delivery.RELEASED)
            sender.stream(MESSAGE[part:])
            sender.advance()
            producer.until(lambda: delivery.settled)

    @pytest.mark.parametrize("part", PARTS)
    def test_the_producers(self, tmp_path: Path, address: str, part: int) -> None:
        with (
            connected(tmp_path) as (near, far),
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, MESSAGE[:part])
            consumer.read(receiver, part)
            seen = receiver.current
            near.kill()
            consumer.until(lambda: seen.aborted)
            # A producer of the other server is heard at once.
            with EngineClient(far.port) as other:
                seen.settle()
                other.send(other.sender(address), head(1) + b"y")
                assert received(consumer, receiver, 9) == head(1) + b"y"


class TestNetwork:
    """A slow line between the two servers, and one that stands still for a while."""

    @pytest.mark.parametrize(
        ("pause", "every"), [(0.002, 16384), (0.3, MEBIBYTE)], ids=["delay", "stall"]
    )
    def test_a_stream_arrives_intact(
        self, tmp_path: Path, address: str, pause: float, every: int
    ) -> None:
        message = head(2 * MEBIBYTE) + os.urandom(2 * MEBIBYTE)
        with (
            running_server(tmp_path, trunks="*") as near,
            Proxy(near.port, pause=pause, every=every) as proxy,
            running_server(tmp_path, connect=f"127.0.0.1:{proxy.port}") as far,
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, message[:100])
            passes(producer, sender, message, consumer, receiver, 100)

    @pytest.mark.parametrize("how", ["fin", "rst", "silence"])
    def test_it_breaks(self, tmp_path: Path, address: str, how: str) -> None:
        """Released where it comes from and aborted where it goes; then all is made again."""
        # As long as a client of this test may have no time to say that it is there.
        idle = 3 if how == "silence" else 30
        with (
            running_server(tmp_path, trunks="*", idle_timeout=idle) as near,
            Proxy(near.port) as proxy,
            running_server(tmp_path, connect=f"127.0.0.1:{proxy.port}", idle_timeout=idle) as far,
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            receiver = consumer.receiver(address)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, MESSAGE[: SIZE // 2])
            consumer.read(receiver, SIZE // 2)
            seen = receiver.current
            producer.beat()
            proxy.cut(how)
            until_all(
                [producer, consumer],
                lambda: delivery.remote_state == Delivery.RELEASED and bool(seen.aborted),
            )
            seen.settle()
            sender.stream(MESSAGE[SIZE // 2 :])
            sender.advance()
            until_all([producer, consumer], lambda: delivery.settled)
            producer.send(producer.sender(address), head(1) + b"y")
            until_all([producer, consumer], lambda: receiver.current is not None)
            assert consumer.read(receiver, 9) == head(1) + b"y"


def until_all(clients: list[EngineClient], condition: Callable[[], bool]) -> None:
    """Pump all clients until a condition holds, and keep them from being idle too long."""

    def holds() -> bool:
        for client in clients:
            client.beat()
            client.pump(0)
        return condition()

    clients[0].until(holds)


class TestSeveralConnections:
    """Two connections between two servers, through a proxy that can tell them apart."""

    def test_the_announcement_moves_and_other_streams_go_on(
        self, tmp_path: Path, address: str
    ) -> None:
        with two_connections(tmp_path) as (proxy, producer, consumer):
            before = [each.passed for each in proxy.passages]
            receivers = [consumer.receiver(address) for _ in range(2)]
            sender = producer.sender(address, streaming=True)
            announcing = busiest(proxy, before)
            senders = [sender, producer.sender(address, streaming=True)]
            deliveries = [producer.start(each, head(SIZE)) for each in senders]
            for receiver in receivers:
                consumer.read(receiver, 8)
            seen = [receiver.current for receiver in receivers]
            # It cannot be made again, so later messages come by the other one.
            proxy.accepting = False
            proxy.cut("rst", announcing)
            consumer.until(lambda: sum(bool(each.aborted) for each in seen) == 1)
            producer.until(
                lambda: sum(each.remote_state == Delivery.RELEASED for each in deliveries) == 1
            )
            rest = next(number for number in (0, 1) if not deliveries[number].remote_state)
            alive = next(number for number in (0, 1) if not seen[number].aborted)
            send_all(producer, senders[rest], MESSAGE[8:], lambda: None)
            assert received(consumer, receivers[alive], SIZE, producer) == MESSAGE[8:]
            producer.until(lambda: deliveries[rest].remote_state == Delivery.ACCEPTED)
            # The other has the address now.
            seen[1 - alive].settle()
            producer.send(producer.sender(address), head(1) + b"y")
            consumer.until(lambda: any(each.queued for each in receivers))

    def test_streams_use_both(self, tmp_path: Path, address: str) -> None:
        with two_connections(tmp_path) as (proxy, producer, consumer):
            receivers = [consumer.receiver(address) for _ in range(2)]
            senders = [producer.sender(address, streaming=True) for _ in range(2)]
            before = [each.passed for each in proxy.passages]
            for sender in senders:
                producer.start(sender, MESSAGE[:-1])
            for receiver in receivers:
                consumer.read(receiver, SIZE + 7)
            for passage, was in zip(proxy.passages, before, strict=True):
                # The proxy counts the bytes that it has passed on.
                passed = partial(lambda each, least: each.passed >= least, passage, was + SIZE)
                wait_until(passed, "a stream on each")

    def test_one_without_channels_is_spared(self, server: Server, address: str) -> None:
        """Though it runs no streams and has the announcement."""
        with (
            EngineClient(server.port, trunk=True, streaming_links=True, channel_max=1) as full,
            EngineClient(server.port, trunk=True, streaming_links=True) as free,
            EngineClient(server.port) as producer,
        ):
            full.receiver(address)
            for _ in range(3):
                producer.start(producer.sender(address, streaming=True), head(9) + b"x")
            links = [free.take() for _ in range(3)]
            assert len({link.session for link in links}) == 3
            assert all(free.read(link, 9).endswith(head(9) + b"x") for link in links)
            full.rest(QUIET)
            assert full.attached == []


@contextlib.contextmanager
def two_connections(tmp_path: Path) -> Iterator[tuple[Proxy, EngineClient, EngineClient]]:
    """Yield a proxy between two servers, with a producer at one and a consumer at the other."""
    with (
        running_server(tmp_path, trunks="*") as near,
        Proxy(near.port) as proxy,
        running_server(tmp_path, connect=f"127.0.0.1:{proxy.port}", connect_count=2) as far,
        EngineClient(near.port) as producer,
        EngineClient(far.port) as consumer,
    ):
        wait_until(
            lambda: len(proxy.passages) == 2 and all(each.passed for each in proxy.passages),
            "both connections",
        )
        # Their open frames have come as well: both servers had time, and sent nothing more.
        passed, quiet = 0, 0
        while quiet < 10:
            producer.sync()
            consumer.sync()
            time.sleep(2 * PROXY_SECONDS)
            before, passed = passed, sum(each.passed for each in proxy.passages)
            quiet = quiet + 1 if passed == before else 0
        yield proxy, producer, consumer


def busiest(proxy: Proxy, before: list[int]) -> Passage:
    """Return the connection that carried most."""
    moved = [each.passed - was for each, was in zip(proxy.passages, before, strict=True)]
    return proxy.passages[moved.index(max(moved))]


class TestThreeServers:
    """Messages that came over a trunk and stay there."""

    @pytest.mark.parametrize("shape", ["line", "triangle"])
    def test_messages_follow_the_consumers(self, tmp_path: Path, address: str, shape: str) -> None:
        with contextlib.ExitStack() as stack:
            one = stack.enter_context(running_server(tmp_path, trunks="*"))
            two = stack.enter_context(
                running_server(tmp_path, trunks="*", connect=f"127.0.0.1:{one.port}")
            )
            targets = [two] if shape == "line" else [one, two]
            connect = ",".join(f"127.0.0.1:{each.port}" for each in targets)
            three = stack.enter_context(running_server(tmp_path, connect=connect))
            producer, middle, last = (
                stack.enter_context(EngineClient(each.port)) for each in (one, two, three)
            )
            leaving = middle.receiver(address, credit=0)
            sender = producer.sender(address)
            middle.rest(QUIET)
            for number in range(10):
                delivery = producer.send(sender, head(1) + b"%d" % number)
            producer.until(lambda: delivery.settled)
            look = middle.session().receiver("look")
            look.source.address = address
            look.source.distribution_mode = Terminus.DIST_MODE_COPY
            look.open()
            look.flow(20)
            middle.until(lambda: look.queued == 10)
            look.close()
            # They are with the second server now, whose consumer goes.
            receiver = last.receiver(address, credit=100)
            last.rest(QUIET)
            assert receiver.queued == 0
            leaving.close()
            middle.pump()
            last.until(lambda: receiver.queued == 10)
            found = sorted(received(last, receiver, 9)[-1:] for _ in range(10))
            assert found == [b"%d" % number for number in range(10)]
            last.rest(QUIET)
            assert receiver.queued == 0


class TestTooLarge:
    """The other server takes no message of this size: it stays where it is, others pass."""

    @pytest.mark.parametrize("stored", [False, True])
    @pytest.mark.parametrize("limit", [100_000, 600_000])
    def test_what_follows_arrives(self, tmp_path: Path, limit: int, stored: bool) -> None:
        """Also if it is a stream there when that is found out."""
        address = "orders"
        message = durable(stored) + head(MEBIBYTE) + os.urandom(MEBIBYTE)
        with (
            running_server(
                tmp_path, trunks="*", store=tmp_path / "store" if stored else None
            ) as near,
            running_server(
                tmp_path, connect=f"127.0.0.1:{near.port}", max_message_size=limit
            ) as far,
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            sender = producer.sender(address)
            delivery = producer.start(sender, message[:100])
            send_all(producer, sender, message[100:], lambda: None)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED
            receiver = consumer.receiver(address)
            for body in (b"1", b"2"):
                producer.send(sender, durable(stored) + head(1) + body)
            whole: list[bytes] = []
            consumer.until(lambda: len(taken(consumer, receiver, whole)) == 2)
            assert [each[-1:] for each in whole] == [b"1", b"2"]
            here = producer.receiver(address)
            got = received(producer, here, len(message))
            assert got.endswith(message[len(durable(stored)) :])


def durable(really: bool) -> bytes:
    """Return a header section, or nothing."""
    return b"\x00\x53\x70\xc0\x02\x01\x41" if really else b""


def taken(consumer: EngineClient, receiver: Receiver, whole: list[bytes]) -> list[bytes]:
    """Take what messages have come whole, and let those go that were aborted."""
    consumer.pump(0)
    while receiver.current is not None and not receiver.current.partial:
        if receiver.current.aborted:
            receiver.current.settle()
            continue
        whole.append(receiver.recv(65536))
        consumer.accept(receiver)
    while receiver.current is not None and receiver.current.partial and receiver.recv(65536):
        pass
    return whole
