"""Servers that are connected to each other, and what passes between them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from proton import Condition, Delivery
from support.certificates import Certificates
from support.engine_client import EngineClient
from support.processes import run, wait_until
from support.server import Server, command, connected, running_server
from support.streams import BOTH, head, judged, received

QUIET = 0.3


@pytest.fixture(scope="module", params=["toward the listener", "toward the connector"])
def way(request: pytest.FixtureRequest, servers: tuple[Server, Server]) -> tuple[Server, Server]:
    """Return the producer's server and the consumer's."""
    first, second = servers
    return (second, first) if request.param == "toward the listener" else (first, second)


def wait_until_known(client: EngineClient, *addresses: str) -> None:
    """Return when a client's server knows of consumers of all addresses, wherever they are.

    Senders of streams have credit from then on. Servers hear of addresses in the order in which
    their first consumers came.
    """
    for address in addresses:
        client.sender(address, streaming=True).close()
    client.sync()


class TestSmallMessages:
    def test_they_reach_the_other_servers_consumer(
        self, way: tuple[Server, Server], address: str
    ) -> None:
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            receiver = consumer.receiver(address, credit=100)
            sender = producer.sender(address)
            for number in range(100):
                producer.until(lambda: sender.credit > 0)
                producer.send(sender, head(4) + b"%04d" % number)
            for number in range(100):
                assert received(consumer, receiver, 12, producer) == head(4) + b"%04d" % number

    def test_what_came_before_the_consumer_follows_it(
        self, way: tuple[Server, Server], address: str
    ) -> None:
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            delivery = producer.send(producer.sender(address), head(1) + b"x")
            producer.until(lambda: delivery.settled)
            assert received(consumer, consumer.receiver(address), 9) == head(1) + b"x"

    def test_consumers_here_come_first(self, way: tuple[Server, Server], address: str) -> None:
        with EngineClient(way[0].port) as near, EngineClient(way[1].port) as far:
            there = far.receiver(address)
            here = near.receiver(address)
            sender = near.sender(address)
            for _ in range(10):
                near.send(sender, head(1) + b"x")
                received(near, here, 9)
            far.rest(QUIET)
            assert there.current is None

    def test_when_they_leave_the_others_get_it(
        self, way: tuple[Server, Server], address: str
    ) -> None:
        with EngineClient(way[0].port) as near, EngineClient(way[1].port) as far:
            there = far.receiver(address)
            here = near.receiver(address, credit=1)
            sender = near.sender(address)
            near.send(sender, head(1) + b"1")
            near.send(sender, head(1) + b"2")
            near.until(lambda: here.queued == 1)
            far.rest(QUIET)
            assert there.current is None
            here.close()
            near.pump()
            for body in (b"1", b"2"):
                assert received(far, there, 9).endswith(head(1) + body)

    def test_a_slow_consumer_leaves_them_where_they_are(
        self, way: tuple[Server, Server], address: str
    ) -> None:
        """A late consumer on the producer's server gets most of three times the credit."""
        with EngineClient(way[0].port) as near, EngineClient(way[1].port) as far:
            far.receiver(address, credit=0)
            sender = near.sender(address)
            for _ in range(3000):
                near.until(lambda: sender.credit > 0)
                near.send(sender, head(100) + b"x" * 100)
            far.rest(QUIET)
            here = near.receiver(address, credit=3000)
            near.until(lambda: here.queued >= 1900)

    def test_requests_are_answered(self, way: tuple[Server, Server], address: str) -> None:
        """A temporary node of one server is known to the other while it is used."""
        with EngineClient(way[0].port) as asking, EngineClient(way[1].port) as answering:
            answers = asking.session().receiver("answers")
            answers.source.dynamic = True
            answers.open()
            answers.flow(1)
            asking.until(lambda: bool(answers.remote_source.address))
            to = answers.remote_source.address
            answering.send(answering.sender(to), head(1) + b"y")
            assert asking.read(answers, 9) == head(1) + b"y"

    def test_larger_ones_pass_whole(self, way: tuple[Server, Server], address: str) -> None:
        body = bytes(range(256)) * 800
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            receiver = consumer.receiver(address)
            delivery = producer.send(producer.sender(address), head(len(body)) + body)
            assert received(consumer, receiver, len(body) + 8) == head(len(body)) + body
            producer.until(lambda: delivery.remote_state == Delivery.ACCEPTED)


class TestTopics:
    def test_each_subscriber_gets_one_copy(self, way: tuple[Server, Server], address: str) -> None:
        topic = f"topic.{address}"
        with EngineClient(way[0].port) as near, EngineClient(way[1].port) as far:
            receivers = [(far, far.receiver(topic)), (far, far.receiver(topic))]
            wait_until_known(near, topic)
            receivers.append((near, near.receiver(topic)))
            for body in (b"1", b"2"):
                near.send(near.sender(topic), head(1) + body)
                for client, receiver in receivers:
                    assert received(client, receiver, 9) == head(1) + body
            near.rest(QUIET)
            far.rest(QUIET)
            assert all(receiver.current is None for _, receiver in receivers)

    def test_streams_reach_all(self, way: tuple[Server, Server], address: str) -> None:
        topic = f"topic.{address}"
        with EngineClient(way[0].port) as near, EngineClient(way[1].port) as far:
            receivers = [(far, far.receiver(topic))]
            wait_until_known(near, topic)
            receivers.append((near, near.receiver(topic)))
            sender = near.sender(topic, streaming=True)
            delivery = near.start(sender, head(4) + b"ab")
            for client, receiver in receivers:
                assert client.read(receiver, 10) == head(4) + b"ab"
            sender.stream(b"cd")
            sender.advance()
            near.pump(0)
            for client, receiver in receivers:
                assert received(client, receiver, 2) == b"cd"
            near.until(lambda: delivery.settled)
            assert delivery.remote_state == Delivery.ACCEPTED


class TestStreams:
    @pytest.mark.parametrize("streaming_links", [False, True])
    @pytest.mark.parametrize(
        "outcome", [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED]
    )
    def test_they_pass_while_incomplete_and_keep_their_outcome(
        self, way: tuple[Server, Server], address: str, streaming_links: bool, outcome: int
    ) -> None:
        with (
            EngineClient(way[0].port) as producer,
            EngineClient(way[1].port, streaming_links=streaming_links) as consumer,
        ):
            base = consumer.receiver(address)
            consumer.rest(0.05)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(4) + b"ab")
            receiver = consumer.take() if streaming_links else base
            # The first section that the consumer sees is the producer's own.
            assert consumer.read(receiver, 10) == head(4) + b"ab"
            assert receiver.current.partial
            sender.stream(b"cd")
            sender.advance()
            producer.pump(0)
            assert consumer.read(receiver, 2) == b"cd"
            consumer.until(lambda: not receiver.current.partial)
            producer.rest(0.05)
            assert delivery.remote_state == 0
            if outcome == Delivery.REJECTED:
                receiver.current.local.condition = Condition("app:no", "because")
            receiver.current.update(outcome)
            receiver.current.settle()
            consumer.pump(0)
            producer.until(lambda: delivery.settled)
            assert delivery.remote_state == outcome
            if outcome == Delivery.REJECTED:
                assert delivery.remote.condition == Condition("app:no", "because")

    def test_sections_before_the_body_stay(self, way: tuple[Server, Server], address: str) -> None:
        header = b"\x00\x53\x70\xc0\x04\x02\x40\x50\x07"
        annotations = b"\x00\x53\x72\xc1\x09\x02\xa3\x03own\xa1\x01v"
        start = header + annotations + head(4) + b"ab"
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            receiver = consumer.receiver(address)
            consumer.rest(0.05)
            sender = producer.sender(address, streaming=True)
            producer.start(sender, start)
            assert consumer.read(receiver, len(start)) == start
            sender.stream(b"cd")
            sender.advance()
            producer.pump(0)
            assert received(consumer, receiver, 2) == b"cd"

    def test_presettled_ones_arrive_settled(self, way: tuple[Server, Server], address: str) -> None:
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            receiver = consumer.receiver(address)
            consumer.rest(0.05)
            sender = producer.sender(address, streaming=True, settled=True)
            producer.start(sender, head(3) + b"ab")
            assert consumer.read(receiver, 10) == head(3) + b"ab"
            sender.stream(b"c")
            sender.current.settle()
            producer.pump(0)
            consumer.read(receiver, 1)
            consumer.until(lambda: not receiver.current.partial)
            assert receiver.current.settled

    @BOTH
    def test_backpressure_passes_both(
        self,
        way: tuple[Server, Server],
        address: str,
        request: pytest.FixtureRequest,
        measures: bool,
    ) -> None:
        figure = judged(request, measures)
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            receiver = consumer.receiver(address, credit=0)
            consumer.rest(0.05)
            sender = producer.sender(address, streaming=True)
            before = [server.process.memory_info().rss for server in way]
            producer.start(sender, head(1 << 30))
            sent = 0
            for _ in range(300):
                if sender.session.outgoing_bytes < 65536:
                    sender.stream(b"x" * 65536)
                    sent += 65536
                producer.pump(0.002)
            assert sent < 16 << 20
            for name, server, rss in zip(("the first", "the next"), way, before, strict=True):
                held = server.process.memory_info().rss - rss
                figure(f"bytes held by {name}", held, at_most=3 << 20, unit="B")
            receiver.flow(1)
            consumer.read(receiver, 1 << 18)

    def test_sequential_streams_to_many_addresses(
        self, way: tuple[Server, Server], address: str
    ) -> None:
        """Links for streams serve one address after the other."""
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            for number in range(5):
                name = f"{address}-{number}"
                receiver = consumer.receiver(name)
                consumer.rest(0.05)
                sender = producer.sender(name, streaming=True)
                producer.start(sender, head(4) + b"ab")
                assert consumer.read(receiver, 10) == head(4) + b"ab"
                sender.stream(b"%02d" % number)
                sender.advance()
                producer.pump(0)
                assert received(consumer, receiver, 2) == b"%02d" % number


class TestFaults:
    @pytest.mark.parametrize("how", ["abort", "fin"])
    def test_a_sender_that_goes_aborts_there(
        self, way: tuple[Server, Server], address: str, how: str
    ) -> None:
        with EngineClient(way[1].port) as consumer:
            receiver = consumer.receiver(address)
            with EngineClient(way[0].port) as producer:
                consumer.rest(0.05)
                sender = producer.sender(address, streaming=True)
                delivery = producer.start(sender, head(100) + b"x")
                consumer.read(receiver, 9)
                seen = receiver.current
                if how == "abort":
                    delivery.abort()
                    producer.pump(0)
            consumer.until(lambda: seen.aborted)

    def test_a_receiver_that_goes_releases_here(
        self, way: tuple[Server, Server], address: str
    ) -> None:
        with EngineClient(way[0].port) as producer:
            with EngineClient(way[1].port) as consumer:
                receiver = consumer.receiver(address)
                consumer.rest(0.05)
                sender = producer.sender(address, streaming=True)
                delivery = producer.start(sender, head(1000) + b"x")
                consumer.read(receiver, 9)
            producer.until(lambda: delivery.remote_state in (Delivery.RELEASED, Delivery.MODIFIED))
            sender.stream(b"x" * 999)
            sender.advance()
            producer.until(lambda: delivery.settled)

    @pytest.mark.parametrize("outcome", [Delivery.ACCEPTED, Delivery.REJECTED])
    def test_early_settlement_passes_both(
        self, way: tuple[Server, Server], address: str, outcome: int
    ) -> None:
        with EngineClient(way[0].port) as producer, EngineClient(way[1].port) as consumer:
            receiver = consumer.receiver(address)
            consumer.rest(0.05)
            sender = producer.sender(address, streaming=True)
            delivery = producer.start(sender, head(1_000_000) + b"x" * 10)
            consumer.read(receiver, 18)
            receiver.current.update(outcome)
            receiver.current.settle()
            consumer.pump(0)
            producer.until(lambda: delivery.remote_state == outcome)
            sender.stream(b"x" * 999_990)
            sender.advance()
            producer.until(lambda: delivery.settled)
            producer.start(sender, head(3) + b"abc")
            assert consumer.read(receiver, 11) == head(3) + b"abc"

    def test_a_server_that_is_not_there_yet(self, tmp_path: Path, address: str) -> None:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(running_server(tmp_path))
            port = first.port
            first.end()
            far = stack.enter_context(running_server(tmp_path, connect=f"127.0.0.1:{port}"))
            consumer = stack.enter_context(EngineClient(far.port))
            receiver = consumer.receiver(address)
            consumer.rest(0.4)
            again = tmp_path / "again"
            again.mkdir()
            near = stack.enter_context(running_server(again, port=port, trunks="*"))
            producer = stack.enter_context(EngineClient(port))
            producer.send(producer.sender(address), head(1) + b"x")
            assert received(consumer, receiver, 9) == head(1) + b"x"
            assert near.process.is_running()


class TestSeveralConnections:
    def test_streams_share_them(self, server: Server, address: str) -> None:
        """Three connections of one other server, whose consumer is known by the first."""
        with contextlib.ExitStack() as stack:
            trunks = [
                stack.enter_context(EngineClient(server.port, trunk=True, streaming_links=True))
                for _ in range(3)
            ]
            producer = stack.enter_context(EngineClient(server.port))
            trunks[0].receiver(address)
            for number in range(6):
                sender = producer.sender(address, streaming=True)
                producer.start(sender, head(1 << 20) + b"%d" % number)
            for trunk in trunks:
                trunk.until(lambda trunk=trunk: len(trunk.attached) == 2)
            found = [trunk.read(trunk.take(), 9)[-1:] for trunk in trunks for _ in range(2)]
            assert sorted(found) == [b"%d" % number for number in range(6)]

    def test_streams_pass_over_them(self, tmp_path: Path, address: str) -> None:
        with (
            connected(tmp_path, connect_count=3) as (near, far),
            EngineClient(near.port) as producer,
            EngineClient(far.port, streaming_links=True) as consumer,
        ):
            consumer.receiver(address)
            for number in range(6):
                sender = producer.sender(address, streaming=True)
                producer.start(sender, head(1 << 20) + b"%d" % number)
                assert consumer.read(consumer.take(), 9).endswith(b"%d" % number)

    def test_order_is_kept(self, tmp_path: Path, address: str) -> None:
        with (
            connected(tmp_path, connect_count=3) as (near, far),
            EngineClient(near.port) as producer,
            EngineClient(far.port) as consumer,
        ):
            receiver = consumer.receiver(address, credit=300)
            consumer.rest(0.2)
            sender = producer.sender(address)
            for number in range(200):
                producer.until(lambda: sender.credit > 0)
                producer.send(sender, head(4) + b"%04d" % number)
            for number in range(200):
                assert received(consumer, receiver, 12, producer) == head(4) + b"%04d" % number


class TestThreeServers:
    def test_one_between_two_serves_both(self, tmp_path: Path, address: str) -> None:
        with contextlib.ExitStack() as stack:
            left = stack.enter_context(running_server(tmp_path, trunks="*"))
            right = stack.enter_context(running_server(tmp_path, trunks="*"))
            both = f"127.0.0.1:{left.port},127.0.0.1:{right.port}"
            middle = stack.enter_context(running_server(tmp_path, connect=both))
            producer = stack.enter_context(EngineClient(middle.port))
            consumers = [stack.enter_context(EngineClient(s.port)) for s in (left, right)]
            receivers = [consumer.receiver(address) for consumer in consumers]
            probes = [f"{address}-{number}" for number in range(2)]
            for consumer, probe in zip(consumers, probes, strict=True):
                consumer.receiver(probe)
            wait_until_known(producer, *probes)
            sender = producer.sender(address)
            for _ in range(10):
                producer.send(sender, head(1) + b"x")
            for consumer, receiver in zip(consumers, receivers, strict=True):
                consumer.until(lambda receiver=receiver: receiver.queued == 5)

    def test_a_triangle_of_topics_has_no_circles(self, tmp_path: Path, address: str) -> None:
        topic = f"topic.{address}"
        with contextlib.ExitStack() as stack:
            one = stack.enter_context(running_server(tmp_path, trunks="*"))
            two = stack.enter_context(
                running_server(tmp_path, trunks="*", connect=f"127.0.0.1:{one.port}")
            )
            both = f"127.0.0.1:{one.port},127.0.0.1:{two.port}"
            three = stack.enter_context(running_server(tmp_path, connect=both))
            clients = [stack.enter_context(EngineClient(s.port)) for s in (one, two, three)]
            receivers = [client.receiver(topic, 100) for client in clients]
            probes = [f"{address}-{number}" for number in range(3)]
            for client, probe in zip(clients, probes, strict=True):
                client.receiver(probe)
            for number, client in enumerate(clients):
                wait_until_known(client, *probes[:number], *probes[number + 1 :])
            for number, client in enumerate(clients):
                client.send(client.sender(topic), head(1) + b"%d" % number)
            for client, receiver in zip(clients, receivers, strict=True):
                client.until(lambda receiver=receiver: receiver.queued == 3)
            for client in clients:
                client.rest(QUIET)
            assert [receiver.queued for receiver in receivers] == [3, 3, 3]


class TestConnecting:
    def test_by_tls_with_a_user(
        self, tmp_path: Path, address: str, certificates: Certificates
    ) -> None:
        with (
            running_server(
                tmp_path,
                scheme="amqps",
                user="u",
                password="p",
                trunks="u",
                **certificates.server.keys(),
            ) as near,  # fmt: skip
            running_server(
                tmp_path,
                connect=f"amqps://127.0.0.1:{near.port}",
                connect_user="u",
                connect_password="p",
                connect_trust_store=certificates.authority,
            ) as far,
            EngineClient(far.port) as client,
        ):
            wait_until(
                lambda: any(
                    c.status == "ESTABLISHED" and c.laddr.port == near.port
                    for c in near.process.net_connections("tcp")
                ),
                "the trunk",
            )
            client.receiver(address)
            client.rest(QUIET)
            established = [
                c for c in far.process.net_connections("tcp") if c.status == "ESTABLISHED"
            ]
            assert any(c.raddr.port == near.port for c in established)

    @pytest.mark.parametrize(
        ("keys", "reason"),
        [
            ({"connect": "http://localhost"}, "is not amqp[s]://HOST[:PORT]"),
            ({"connect": "u:p@localhost"}, "connect-user"),
            ({"connect": "localhost:0x"}, "the port is no number"),
            ({"connect": "localhost", "connect_user": "u"}, "connect-user needs connect-password"),
        ],
    )
    def test_what_cannot_be(self, keys: dict[str, object], reason: str) -> None:
        finished = run(command(1, **keys))
        assert finished.code == 2
        assert reason in finished.stderr

    def test_to_itself_is_refused(self, tmp_path: Path, address: str) -> None:
        from support.processes import free_port

        port = free_port()
        with (
            running_server(tmp_path, port=port, trunks="*", connect=f"127.0.0.1:{port}") as server,
            EngineClient(server.port) as client,
        ):
            receiver = client.receiver(address)
            client.send(client.sender(address), head(1) + b"x")
            assert received(client, receiver, 9) == head(1) + b"x"
