"""The default outcome of a consumer's source (part 3.5.3)."""

from __future__ import annotations

import pytest
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, message

BODY = message(b"x")
FAILED = composite("modified", delivery_failed=True)
LONG = Value("map", ((Value("symbol", "a"), Value("string", "x" * 1100)),))


def put(server: Server, address: str) -> None:
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        client.attach_sender(address)
        client.wait_for_credit()
        client.transfer(0, BODY)
        assert client.expect("disposition").fields["state"].name == "accepted"
        client.send("close")
        client.read_to_end()


def left(server: Server, address: str) -> list[bytes]:
    """Return the messages that are in a queue, by a link that drains it."""
    with FrameClient(server.port) as client:
        client.open(container_id="looks")
        client.begin()
        client.attach_receiver(address)
        client.give_credit(10, drain=True)
        found = []
        while (frame := client.read()).name == "transfer":
            found.append(frame.payload)
        assert frame.name == "flow"
        return found


def test_an_outcome_of_the_consumers_own_counts(server: Server, address: str) -> None:
    put(server, address)
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        source = composite("source", address=address, default_outcome=composite("released"))
        client.attach_receiver(address, source=source)
        client.give_credit(1)
        client.expect("transfer")
        accepted = composite("accepted")
        client.send("disposition", role=True, first=0, settled=True, state=accepted)
        client.send("close")
        client.read_to_end()
    assert left(server, address) == []


def test_the_rest_of_the_source_is_echoed_too(server: Server, address: str) -> None:
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        fields = {"address": address, "distribution_mode": Value("symbol", "copy")}
        plain = client.attach_receiver(address, source=composite("source", **fields))
        client.send("detach", handle=0, closed=True)
        client.expect("detach")
        fields["default_outcome"] = FAILED
        found = client.attach_receiver(address, source=composite("source", **fields), name="b")
        assert found.fields["name"] == "b"
        echoed = dict(found.fields["source"].fields)
        assert echoed.pop("default_outcome").fields == {"delivery_failed": True}
        assert echoed == plain.fields["source"].fields
        assert set(found.fields) == set(plain.fields)


@pytest.mark.parametrize(
    "outcome",
    [
        composite("received", section_number=0, section_offset=0),
        composite("declared", txn_id=b"x"),
        composite("modified", annotations=LONG),
        Value("string", "accepted"),
    ],
    ids=["received", "declared", "long", "string"],
)  # fmt: skip
def test_what_is_no_outcome_is_refused(server: Server, address: str, outcome: Value) -> None:
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        source = composite("source", address=address, default_outcome=outcome)
        client.attach_receiver(address, source=source)
        assert client.expect("detach").condition == "amqp:invalid-field"
