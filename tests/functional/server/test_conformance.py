"""Answers of ours that no case of quiver-conform demands of every server (parts 2 to 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.sections import declare, delivery, opened, receiver, send, sender, settle
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, message

BODY = message(b"whole")


@pytest.fixture(name="client")
def opened_client(server: Server) -> Iterator[FrameClient]:
    with opened(server.port) as client:
        yield client


# -- links


@pytest.mark.parametrize("terminus", ["null", "unknown"])
def test_a_link_without_a_target_is_detached(client: FrameClient, terminus: str) -> None:
    """Part 2.6.3: our attach says that there is no terminus, and the detach follows at once."""
    unknown = Value("described", (Value("ulong", 0x99), Value("list", ())))
    target = None if terminus == "null" else unknown
    assert "target" not in client.attach_sender("none", target=target).fields
    assert client.expect("detach").fields["closed"]


def test_an_incomplete_map_of_a_sender_is_refused(client: FrameClient, address: str) -> None:
    """Part 2.7.3: nothing old is resumed."""
    client.attach_sender(address, unsettled=Value("map", ()), incomplete_unsettled=True)
    assert client.expect("detach").condition == "amqp:invalid-field"


def test_an_outcome_of_the_consumers_own_counts(server: Server, address: str) -> None:
    """It is not replaced by the default-outcome of the source (part 3.5.3)."""
    with sender(server.port, address) as client:
        send(client, [(0, BODY)])
    with receiver(server.port, address, default_outcome=composite("released")) as client:
        delivery(client)
        settle(client, "accepted", 0, 0)
        client.send("close")
        client.read_to_end()
    with sender(server.port, address) as client, receiver(server.port, address) as reader:
        send(client, [(1, BODY)])
        assert delivery(reader) == (1, BODY)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_the_settle_modes_of_a_link(client: FrameClient, address: str, mode: int) -> None:
    """Part 2.7.3."""
    said = client.attach_sender(address, snd_settle_mode=mode, rcv_settle_mode=1).fields
    client.wait_for_credit()
    # We settle first for every mode that the producer asks for, and say so.
    assert (said["snd_settle_mode"], said.get("rcv_settle_mode", 0)) == (mode, 0)
    said = client.attach_receiver(address, handle=1, rcv_settle_mode=mode % 2).fields
    assert said.get("rcv_settle_mode", 0) == mode % 2
    client.transfer(0, BODY)
    assert client.expect("disposition").fields["settled"]


@pytest.mark.parametrize("mode", ["snd_settle_mode", "rcv_settle_mode"])
def test_settle_modes_are_known_ones(client: FrameClient, mode: str) -> None:
    """Part 2.7.3."""
    client.send("attach", name="odd", handle=0, role=True, source=None, **{mode: 9})
    assert client.expect("close").condition == "amqp:invalid-field"


# -- nodes


@pytest.mark.parametrize("durable", [1, 2])
@pytest.mark.parametrize(
    "policy", [None, "link-detach", "session-end", "connection-close", "never"]
)
@pytest.mark.parametrize("terminus", ["source", "target"])
def test_a_terminus_is_told_as_it_is(
    client: FrameClient, address: str, terminus: str, policy: str | None, durable: int
) -> None:
    """Part 2.6.3: a queue's terminus ends with its link under every policy (3.5.5, 3.5.6)."""
    asked = {"address": address, "durable": durable, "expiry_policy": policy, "timeout": 600}
    attach = client.attach_receiver if terminus == "source" else client.attach_sender
    told = attach(address, **{terminus: composite(terminus, **asked)}).fields[terminus].fields
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


# A map of a default-outcome is kept with its link; it has a limit.
LONG = Value("map", ((Value("symbol", "a"), Value("string", "x" * 1100)),))


def test_a_default_outcome_that_is_too_long_is_refused(client: FrameClient, address: str) -> None:
    outcome = composite("modified", annotations=LONG)
    source = composite("source", address=address, default_outcome=outcome)
    client.attach_receiver(address, source=source)
    assert client.expect("detach").condition == "amqp:invalid-field"


def test_the_rest_of_a_source_with_a_default_outcome_is_echoed_too(
    client: FrameClient, address: str
) -> None:
    fields: dict[str, Any] = {"address": address, "distribution_mode": Value("symbol", "copy")}
    plain = client.attach_receiver(address, source=composite("source", **fields))
    client.send("detach", handle=0, closed=True)
    client.expect("detach")
    fields["default_outcome"] = composite("modified", delivery_failed=True)
    found = client.attach_receiver(address, source=composite("source", **fields), name="b")
    assert found.fields["name"] == "b"
    echoed = dict(found.fields["source"].fields)
    assert echoed.pop("default_outcome").fields == {"delivery_failed": True}
    assert echoed == plain.fields["source"].fields
    assert set(found.fields) == set(plain.fields)


# -- transactions


def test_the_coordinator_says_what_it_can(client: FrameClient) -> None:
    """Part 4.5.1; a transaction is its connection's, and its id is not empty (4.5.4)."""
    said = client.attach_sender("", target=composite("coordinator")).fields["target"].fields
    assert said["capabilities"] == [
        "amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn",
    ]  # fmt: skip
    client.wait_for_credit()
    assert declare(client, 0)


def test_other_properties_of_a_flow_acquire_nothing(client: FrameClient, address: str) -> None:
    """Part 4.4.3 speaks of the symbol txn-id alone."""
    client.attach_receiver(address)
    text = (Value("string", "txn-id"), Value("binary", b"x"))
    for pair in ((Value("symbol", "other"), Value("uint", 1)), text):
        client.give_credit(1, properties=Value("map", (pair,)))
    client.send("detach", handle=0)
    assert client.expect("detach").condition is None
