"""Clauses of AMQP 1.0, parts 3 to 5, that no other test holds; see `test_conformance.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite

REQUEST = 0x77  # amqp-value


def value(body: Value, *, code: int = REQUEST) -> bytes:
    return encode(Value("described", (Value("ulong", code), body)))


@pytest.fixture(name="client")
def opened_client(server: Server) -> Iterator[FrameClient]:
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        yield client


# -- nodes


@pytest.mark.parametrize("policy", [None, "link-detach", "session-end", "connection-close"])
@pytest.mark.parametrize("terminus", ["source", "target"])
def test_a_terminus_is_told_as_it_is(
    client: FrameClient, address: str, terminus: str, policy: str | None
) -> None:
    """Part 2.6.3: a queue's terminus ends with its link under every policy (3.5.5, 3.5.6)."""
    asked = composite(terminus, address=address, durable=1, expiry_policy=policy, timeout=600)
    attach = client.attach_receiver if terminus == "source" else client.attach_sender
    told = attach(address, **{terminus: asked}).fields[terminus].fields
    assert told["expiry_policy"] == "link-detach"
    assert (told.get("durable", 0), told.get("timeout", 0)) == (0, 0)


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [("queue", None, "move"), ("queue", "move", "move"), ("queue", "copy", "copy"),
     ("queue", "odd", "move"), ("topic", None, "copy"), ("topic", "move", "move")],
)  # fmt: skip
def test_a_source_names_its_distribution_mode(
    client: FrameClient, address: str, name: str, asked: str | None, told: str
) -> None:
    """Part 3.5.3: the sending end has two of them, so it says which."""
    mode = asked and Value("symbol", asked)
    source = composite("source", address=f"{name}-{address}", distribution_mode=mode)
    attach = client.attach_receiver("", source=source)
    assert attach.fields["source"].fields["distribution_mode"] == told


# -- transactions


def control(client: FrameClient, **source: Any) -> dict[str, Any]:
    """Attach to the coordinator; return its description in the attach."""
    target = composite("coordinator")
    attach = client.attach_sender("", source=composite("source", **source), target=target)
    client.wait_for_credit()
    fields: dict[str, Any] = attach.fields["target"].fields
    return fields


def declare(client: FrameClient) -> bytes:
    client.transfer(0, value(composite("declare")))
    txn_id: bytes = client.expect("disposition").fields["state"].fields["txn_id"]
    return txn_id


def test_the_coordinator_says_what_it_can(client: FrameClient) -> None:
    """Part 4.5.1; a transaction is its connection's, and its id has at most 32 bytes (4.5.4)."""
    assert control(client)["capabilities"] == [
        "amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn",
    ]  # fmt: skip
    assert 0 < len(declare(client)) <= 32


@pytest.mark.parametrize("kind", ["symbol", "string"])
def test_messages_are_not_acquired_in_a_transaction(
    client: FrameClient, address: str, kind: str
) -> None:
    """Part 4.4.3: a flow that asks for that ends its link; its other properties do not."""
    client.attach_receiver(address)
    asked = Value("map", ((Value("symbol", "other"), Value("uint", 1)),))
    client.give_credit(1, properties=asked)
    name = Value(kind, "txn-id")
    client.give_credit(1, properties=Value("map", (*asked.value, (name, Value("binary", b"x")))))
    if kind == "symbol":
        assert client.expect("detach").condition == "amqp:not-implemented"
    else:
        client.send("detach", handle=0)
        assert client.expect("detach").condition is None


# -- SASL
