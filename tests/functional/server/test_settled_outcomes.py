"""What the server says when it settles a delivery whose outcome came unsettled (part 3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.sections import declare, section, sender
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import Composite, composite, message

NOTES = Value("map", ((Value("symbol", "x-opt-a"), Value("string", "b")),))
REASON = composite("error", condition="amqp:not-allowed", description="never")
FLAGS = [(True, False), (False, True), (True, True), (False, False)]

# Each outcome of a consumer, and the name and fields of the server's answer.
OUTCOMES: dict[str, tuple[Value, str, dict[str, Any]]] = {
    "accepted": (composite("accepted"), "accepted", {}),
    "rejected": (composite("rejected", error=REASON), "rejected", {}),
    "released": (composite("released"), "released", {}),
} | {
    f"modified {failed} {undeliverable}": (
        composite("modified", delivery_failed=failed, undeliverable_here=undeliverable,
                  annotations=NOTES),
        "modified",
        {name: True for name, given in (
            ("delivery_failed", failed), ("undeliverable_here", undeliverable)) if given},
    )
    for failed, undeliverable in FLAGS
}  # fmt: skip
# Of no meaning for a message: it counts as accepted.
OUTCOMES["declared"] = (composite("declared", txn_id=b"x"), "accepted", {})


@pytest.fixture
def client(server: Server, address: str) -> Iterator[FrameClient]:
    """A consumer with one unsettled message."""
    with sender(server.port, address) as connection:
        connection.transfer(0, message(b"x"))
        connection.expect("disposition")
        connection.attach_receiver(address, handle=1)
        connection.give_credit(1, handle=1)
        connection.expect("transfer")
        yield connection


def answer(client: FrameClient) -> tuple[str, dict[str, Any]]:
    """Return the state of the disposition that settles the message."""
    found = client.expect("disposition").fields
    assert (found["role"], found["settled"], found["first"]) == (False, True, 0)
    state: Composite = found["state"]
    return state.name, {name: value for name, value in state.fields.items() if value}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_answer_is_the_outcome(client: FrameClient, outcome: str) -> None:
    state, name, fields = OUTCOMES[outcome]
    client.send("disposition", role=True, first=0, settled=False, state=state)
    assert answer(client) == (name, fields)


@pytest.mark.parametrize("outcome", [each for each in OUTCOMES if each != "declared"])
def test_the_answer_of_a_commit_is_the_outcome(client: FrameClient, outcome: str) -> None:
    state, name, fields = OUTCOMES[outcome]
    client.send("attach", name="control", handle=2, role=False, initial_delivery_count=0,
                source=composite("source"), target=composite("coordinator"))  # fmt: skip
    client.expect("attach")
    client.wait_for_credit()
    transaction = declare(client, 1, handle=2)
    enlisted = composite("transactional_state", txn_id=transaction, outcome=state)
    client.send("disposition", role=True, first=0, settled=False, state=enlisted)
    client.transfer(2, section(0x77, composite("discharge", txn_id=transaction)), handle=2)
    found = [client.expect("disposition").fields for _ in range(2)]
    (settled,) = (each for each in found if not each["role"])
    assert settled["settled"]
    assert settled["state"].name == name
    assert {key: given for key, given in settled["state"].fields.items() if given} == fields
