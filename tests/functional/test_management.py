"""The address of a URL's path at a broker, and requests to a management node."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.management_node import ManagementNode
from support.scripted_peer import NeverAttaches, ScriptedPeer

from quiver_fast.errors import PeerError, QuiverError
from quiver_fast.management.addresses import has_paths, node_address
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
