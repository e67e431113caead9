"""No frame of the server is larger than the peer takes (parts 2.4.1 and 2.7.1)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import pytest
from support.certificates import Certificates
from support.server import Server, running_server
from support.streams import head

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import Frame, composite

Start = Callable[..., Server]

LIMITS = [512, 513, 1024]
TOO_SMALL = "amqp:frame-size-too-small"
# Its characters have two bytes, so that a cut may fall into one.
LONG = "ä" * 12_000
FIRST = head(2000) + b"x" * 1000


class SmallClient(FrameClient):
    """A client that takes frames of up to ``limit`` bytes, and judges each."""

    limit = 512

    def read(self) -> Frame:
        """Read one frame, and see that it is not too large."""
        found = super().read()
        assert self.largest <= self.limit
        return found

    def begin_with(self, limit: int) -> None:
        """Open with this limit, and begin a session."""
        self.limit = limit
        self.open(max_frame_size=limit)
        self.begin()


@pytest.fixture(params=LIMITS)
def limit(request: pytest.FixtureRequest) -> int:
    """The max-frame-size of a client."""
    number: int = request.param
    return number


@pytest.fixture(scope="module", params=["clear", "tls"])
def port(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
) -> Iterator[tuple[int, bool]]:
    """A server's port, and whether to speak TLS to it."""
    within_tls = request.param == "tls"
    keys = {"scheme": "amqps", **certificates.server.keys()} if within_tls else {}
    with running_server(tmp_path_factory.mktemp("sizes"), **keys) as server:
        yield server.port, within_tls


@pytest.fixture
def connect(port: tuple[int, bool]) -> Iterator[Callable[[], SmallClient]]:
    """Connect clients to the server."""
    clients: list[SmallClient] = []

    def make() -> SmallClient:
        client = SmallClient(port[0])
        clients.append(client)
        if port[1]:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            client.socket = context.wrap_socket(client.socket)
        return client

    yield make
    for client in clients:
        client.socket.close()


Connect = Callable[[], SmallClient]


def filters(text: str) -> Value:
    """Return a filter set with one selector."""
    key = Value("symbol", "apache.org:selector-filter:string")
    described = Value("described", (Value("symbol", key.value), Value("string", text)))
    return Value("map", ((key, described),))


LONG_ATTACHES = {
    "address": lambda name: {"source": composite("source", address=name + "a" * 1200)},
    "filter": lambda name: {
        "source": composite("source", address=name, filter=filters(f"a = '{'b' * 1200}'"))
    },
    "default outcome": lambda name: {
        "source": composite(
            "source", address=name,
            default_outcome=composite(
                "rejected", error=composite("error", condition="d", description="e" * 990)
            ),
        )
    },
    "target": lambda name: {
        "source": composite("source", address=name),
        "target": composite("target", address="t" * 1200),
    },
    "refused": lambda name: {
        "source": composite("source", address=f"{name}\0{'n' * 1200}"),
        "target": composite("target", address="t" * 1200),
    },
}  # fmt: skip


class TestAttach:
    @pytest.mark.parametrize("part", LONG_ATTACHES)
    def test_an_answer_that_does_not_fit_is_a_refusal(
        self, connect: Connect, address: str, limit: int, part: str
    ) -> None:
        """An attach without the terminus, then a detach (part 2.6.3); other links go on."""
        client = connect()
        client.begin_with(limit)
        fields = LONG_ATTACHES[part](address)
        attach = client.attach_receiver(address, handle=1, **fields)
        assert "source" not in attach.fields
        detach = client.until("detach")
        assert detach.condition is not None
        client.send("detach", handle=1, closed=True)
        client.attach_sender(address, handle=2)
        client.wait_for_credit()

    def test_a_larger_limit_gets_it_all(self, connect: Connect, address: str) -> None:
        client = connect()
        client.begin_with(4096)
        for number, part in enumerate(["filter", "default outcome", "target"]):
            fields = LONG_ATTACHES[part](address)
            attach = client.attach_receiver("", handle=number, name=part, **fields)
            assert attach.fields["source"].fields["address"] == address

    @pytest.mark.parametrize("size", range(100, 130))
    def test_an_answer_that_just_fits(self, connect: Connect, address: str, size: int) -> None:
        """Each is either whole or a refusal."""
        client = connect()
        client.begin_with(512)
        outcome = composite("rejected", error=composite("error", condition="c" * size))
        source = composite("source", address="a" * (size + 80), default_outcome=outcome)
        attach = client.attach_receiver("", source=source)
        if "source" not in attach.fields:
            assert client.until("detach").condition == TOO_SMALL

    @pytest.mark.parametrize("size", [400, 1000, 60_000])
    def test_a_long_name(self, connect: Connect, address: str, limit: int, size: int) -> None:
        """Without room for the name in an answer, the connection is closed."""
        client = connect()
        client.begin_with(limit)
        client.send(
            "attach", name="n" * size, handle=0, role=True,
            source=composite("source", address=address),
        )  # fmt: skip
        first = client.until("attach" if size < limit - 50 else "close")
        assert first.condition in (None, TOO_SMALL)


class TestErrors:
    def test_a_detach_with_a_long_description(self, start: Start, limit: int) -> None:
        """The server names the address that is not there."""
        with SmallClient(start(addresses=",").port) as client:
            client.begin_with(limit)
            client.send(
                "attach", name="n", handle=0, role=True,
                source=composite("source", address="ä" * 600),
            )  # fmt: skip
            error = client.until("detach").fields["error"]
            assert error.fields["condition"] == "amqp:not-found"
            assert error.fields["description"].startswith("there is no address 'ääää")

    @pytest.mark.parametrize("early", [False, True])
    def test_a_reason_of_a_streams_consumer(
        self, connect: Connect, address: str, limit: int, early: bool
    ) -> None:
        """The producer hears the beginning of it, without the details."""
        consumer, producer = connect(), connect()
        consumer.begin_with(65536)
        consumer.attach_receiver(address)
        consumer.give_credit(10)
        producer.begin_with(limit)
        target = composite("target", address=address, capabilities=["qd.streaming-deliveries"])
        producer.attach_sender(address, target=target)
        producer.wait_for_credit()
        producer.transfer(0, FIRST, more=True)
        consumer.until("transfer")
        if not early:
            producer.send("transfer", handle=0, payload=b"x" * 1000)
            while consumer.until("transfer").fields.get("more"):
                pass
        info = Value("map", ((Value("symbol", "details"), Value("string", LONG)),))
        error = composite("error", condition="app:no", description=LONG, info=info)
        consumer.send(
            "disposition",
            role=True,
            first=0,
            settled=True,
            state=composite("rejected", error=error),
        )
        state = producer.until("disposition").fields["state"]
        assert state.name == "rejected"
        error = state.fields["error"].fields
        assert error["condition"] == "app:no"
        assert len(error["description"]) > 100
        assert LONG.startswith(error["description"])
        assert "info" not in error


class TestBeforeOpen:
    """Frames of SASL have at most 512 bytes (part 5.3.1)."""

    @pytest.mark.parametrize("size", [20, 300, 400, 480])
    def test_a_challenge_repeats_the_clients_nonce(self, start: Start, size: int) -> None:
        """Without room for it, the connection ends."""
        with SmallClient(start(user="u", password="p").port) as client:
            client.exchange_header(b"AMQP\x03\x01\x00\x00")
            client.expect("sasl_mechanisms")
            nonce = b"n" * size
            client.send(
                "sasl_init", mechanism="SCRAM-SHA-256", initial_response=b"n,,n=u,r=" + nonce
            )
            found = client.read_to_end() if size > 400 else [client.read()]
            assert [each.name for each in found] in (["sasl_challenge"], ["sasl_outcome"], [])
