"""The address of a URL's path at a broker, and requests to a management node."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.management_node import ManagementNode
from support.scripted_peer import NeverAttaches, ScriptedPeer

from quiver_fast.errors import PeerError, QuiverError, UsageError
from quiver_fast.management.addresses import has_paths, node_address
from quiver_fast.management.queue_kinds import QueueKind, parse_arguments
from quiver_fast.management.queues import QueueManager
from quiver_fast.security.security import Security


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("queues/q0", "/queues/q0"),
        ("queues/a%20b", "/queues/a%20b"),
        ("exchanges/amq.topic/key", "/exchanges/amq.topic/key"),
        ("/queues/q0", "/queues/q0"),
        ("q0", "/queues/q0"),
        ("jobs/alpha", "/queues/jobs%2Falpha"),
        ("queues", "/queues/queues"),
        ("käse", "/queues/k%C3%A4se"),
        ("/amq/queue/q0", "/amq/queue/q0"),
    ],
)
def test_rabbitmq_4_has_paths(path: str, address: str) -> None:
    assert node_address(path, "RabbitMQ", "4.0.5") == address
    assert node_address(address, "RabbitMQ", "4.0.5") == address


@pytest.mark.parametrize(
    ("product", "version"),
    [
        ("RabbitMQ", "3.10.8"), ("RabbitMQ", None), ("RabbitMQ", "x"), ("RabbitMQ", ""),
        ("apache-activemq-artemis", "2.40.0"), (None, None), (None, "4.0.5"),
    ],
)  # fmt: skip
def test_others_get_the_path(product: str | None, version: str | None) -> None:
    assert not has_paths(product, version)
    for path in ("q0", "queues/q0", "/queues/q0"):
        assert node_address(path, product, version) == path


def test_later_versions_have_paths_too() -> None:
    assert has_paths("RabbitMQ", "4.0.5")
    assert has_paths("RabbitMQ", "10.1")
    assert has_paths("RabbitMQ", "5")


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_a_name_comes_back_from_its_address(name: str) -> None:
    path = quote(name, safe="")
    assert unquote(node_address(f"queues/{path}", "RabbitMQ", "4.0").split("/")[-1]) == name
    if not name.startswith(("/", "queues/", "exchanges/")):
        address = node_address(name, "RabbitMQ", "4.0")
        assert address.count("/") == 2
        assert unquote(address.removeprefix("/queues/")) == name


def manager(peer: ScriptedPeer, timeout: float = 10.0) -> QueueManager:
    return QueueManager("127.0.0.1", peer.port, Security(), timeout)


def test_declare_and_delete() -> None:
    with ManagementNode(["old"]) as node, manager(node) as queues:
        assert queues.deletes
        assert queues.broker == "RabbitMQ 4.0.5"
        assert queues.address("new") == "/queues/new"
        queues.declare("/queues/new")
        assert node.queues == {"old", "new"}
        queues.declare("/queues/old")
        queues.delete("/queues/old")
        # Another one's run may have deleted it already.
        queues.delete("/queues/old")
        assert node.queues == {"new"}
    assert node.requests == [
        ("GET", "/queues/new"), ("PUT", "/queues/new"), ("GET", "/queues/old"),
        ("DELETE", "/queues/old"), ("DELETE", "/queues/old"),
    ]  # fmt: skip
    assert set(node.reply_to) == {"$me"}


def test_a_queue_that_is_there_stays_as_it_is() -> None:
    with ManagementNode(["q"]) as node, manager(node) as queues:
        queues.declare("/queues/q")
    assert [method for method, _ in node.requests] == ["GET"]


QUORUM = QueueKind("quorum", (("x-max-length", 10), ("x-overflow", "drop-head")), durable=True)


def test_a_queue_of_a_kind_is_made_and_read_back() -> None:
    with ManagementNode() as node, manager(node) as queues:
        queues.declare("/queues/q", QUORUM)
        queues.declare("/queues/q", QUORUM)
        assert not queues.is_stream("/queues/q")
        queues.declare("/queues/s", QueueKind("stream"))
        assert queues.is_stream("/queues/s")
        assert not queues.is_stream("/queues/none")
        assert not queues.is_stream("/exchanges/amq.topic")
    assert node.made["q"] == {
        "x-queue-type": "quorum", "x-max-length": 10, "x-overflow": "drop-head",
    }  # fmt: skip
    assert [method for method, _ in node.requests[:4]] == ["GET", "PUT", "GET", "GET"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (QueueKind("stream"), "it is quorum, not stream"),
        (QueueKind(arguments=(("x-max-length", 9),)), "its x-max-length is 10, not 9"),
        (QueueKind("classic", (("x", True),)), "it is quorum, not classic and it has no x"),
    ],
)
def test_a_queue_of_another_kind_is_refused_and_stays(kind: QueueKind, words: str) -> None:
    with ManagementNode() as node, manager(node) as queues:
        queues.declare("/queues/q", QUORUM)
        with pytest.raises(QuiverError, match=f"'/queues/q' is there, but {words}$"):
            queues.declare("/queues/q", kind)
        assert node.queues == {"q"}


def test_a_queue_that_is_not_made_so_goes_again() -> None:
    class Forgets(ManagementNode):
        def described(self, name: str) -> dict[str, object]:
            return super().described(name) | {"arguments": {}, "durable": False}

    refused = pytest.raises(QuiverError, match=r"declared so: it is not durable and it has no x$")
    with Forgets() as node, manager(node) as queues, refused:
        queues.declare("/queues/q", QueueKind(arguments=(("x", 1),), durable=True))
    assert node.queues == set()


@pytest.mark.parametrize(
    ("kind", "flag"),
    [(QueueKind(routing="anycast"), "--routing"), (QueueKind("classic", routing="x"), "--routing")],
)
def test_rabbitmq_has_no_routing(kind: QueueKind, flag: str) -> None:
    refused = pytest.raises(QuiverError, match=rf"RabbitMQ 4\.0\.5 has no way .* with {flag}")
    with ManagementNode() as node, manager(node) as queues, refused:
        queues.declare("/queues/q", kind)
    assert node.requests == []


def test_others_make_no_queue_of_a_kind() -> None:
    refused = pytest.raises(QuiverError, match=r"this broker has no way .* with --queue-type")
    with ScriptedPeer() as peer, manager(peer) as queues, refused:
        queues.declare("q", QUORUM)


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], {}),
        (
            ["a=1", "b=-7", "c=true", "d=x=y", "e="],
            {"a": 1, "b": -7, "c": True, "d": "x=y", "e": ""},
        ),
        (["n=9223372036854775808"], {"n": "9223372036854775808"}),
    ],
)
def test_arguments(texts: list[str], found: dict[str, object]) -> None:
    assert dict(parse_arguments(texts)) == found


@pytest.mark.parametrize("texts", [["a"], ["=1"], [""], ["a=1", "a=2"]])
def test_no_arguments(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="--queue-argument"):
        parse_arguments(texts)


@pytest.mark.parametrize(
    "address", ["q", "queues/q", "/queues/", "/queues/a/b", "/queues/a%2", "/queues/a?b", "/x/q"]
)
def test_what_is_no_queue_is_not_asked_for(address: str) -> None:
    with ManagementNode() as node, manager(node) as queues:
        for ask in (queues.declare, queues.delete):
            with pytest.raises(QuiverError, match="is no queue's address"):
                ask(address)
    assert node.requests == []


def test_a_refusal_has_its_reason() -> None:
    refused = pytest.raises(QuiverError, match=r"cannot delete '/queues/q': not today")
    with ManagementNode(status="403") as node, manager(node) as queues, refused:
        queues.delete("/queues/q")


@pytest.mark.parametrize("status", ["", "soon", "-1", None])
def test_a_response_without_a_status(status: str | None) -> None:
    class Mute(ManagementNode):
        def serve(self, request: object) -> tuple[str, object]:
            return status, None  # type: ignore[return-value]

    with Mute() as node, manager(node) as queues, pytest.raises(QuiverError, match="has no status"):
        queues.delete("/queues/q")


def test_a_broker_without_a_management_node_makes_queues_by_attach() -> None:
    with ScriptedPeer() as peer, manager(peer) as queues:
        assert not queues.deletes
        assert queues.broker == "this broker"
        assert queues.address("queues/q") == "queues/q"
        queues.declare("q")
        assert peer.links == [("q", None)]
        assert peer.credit_seen == []


def test_a_refused_attach_is_a_queue_not_declared() -> None:
    refused = pytest.raises(QuiverError, match="amqp:not-found")
    with ManagementNode(version="3.10.8") as node, manager(node) as queues, refused:
        queues.declare("q")


def test_a_silent_broker_is_given_up() -> None:
    refused = pytest.raises(PeerError, match=r"did not attach a link to 'q' in time")
    with NeverAttaches() as peer, manager(peer, timeout=0.3) as queues, refused:
        queues.declare("q")
