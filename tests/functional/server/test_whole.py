"""The short way of messages that are whole in one frame, between those that take the long way.

A producer mixes both on one link, in one write. Order and outcomes must not tell which way a
message took.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.sections import opened
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite, encode_frame, message

# Sections before a message's body. A node drops delivery annotations (part 3.2.2).
LEADS = {
    "header": b"\x00\x53\x70\xc0\x02\x01\x41",  # durable
    # As long, and not durable.
    "other header": b"\x00\x53\x70\xc0\x02\x01\x42",
    "wide header": b"\x00\x80" + bytes(7) + b"\x70\x45",  # the descriptor as an ulong of 8 bytes
    "properties": b"\x00\x53\x70\x45\x00\x53\x73\x45\x00\x53\x74\xd1"
    b"\x00\x00\x00\x08\x00\x00\x00\x02\xa1\x01k\x43",
    # As long, with an odd count of keys and values.
    "bad properties": b"\x00\x53\x70\x45\x00\x53\x73\x45\x00\x53\x74\xd1"
    b"\x00\x00\x00\x08\x00\x00\x00\x03\xa1\x01k\x43",
}
DROPPED = {"annotated": b"\x00\x53\x71\xc1\x01\x00"}
BAD = {"bad", "bad properties"}
# How a producer may send. Two frames, delivery annotations and what is no message go the long way.
KINDS = ["whole", "settled", *LEADS, *DROPPED, "two frames", "aborted", "bad"]
courses = st.lists(
    st.sampled_from([*KINDS, "whole", "whole", "settled", "header"]), min_size=1, max_size=30
)
numbers = itertools.count()


@pytest.fixture(scope="module", params=[None, "group"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server without files, and one whose durable messages wait for a sync."""
    directory = tmp_path_factory.mktemp("server")
    keys = {"store": directory / "store", "durability": request.param} if request.param else {}
    with running_server(directory, **keys) as running:
        yield running


def content(kind: str, number: int) -> bytes:
    """Return a message's bytes as they leave the server; its body is its number."""
    if kind == "bad":
        return b"\x40"
    return LEADS.get(kind, b"") + message(b"%d" % number)


def transfers(kind: str, number: int) -> bytes:
    """Return the frames of a delivery."""
    first = {"handle": 0, "delivery_id": number, "delivery_tag": b"t", "message_format": 0}
    data = DROPPED.get(kind, b"") + content(kind, number)
    if kind == "two frames":
        return encode_frame("transfer", **first, more=True, payload=data[:4]) + encode_frame(
            "transfer", handle=0, payload=data[4:]
        )
    if kind == "aborted":
        return encode_frame("transfer", **first, more=True, payload=data[:4]) + encode_frame(
            "transfer", handle=0, aborted=True
        )
    return encode_frame("transfer", **first, settled=kind == "settled", payload=data)


def outcomes(client: FrameClient, count: int) -> dict[int, str]:
    """Return the outcomes of so many deliveries by their ids."""
    found: dict[int, str] = {}
    while len(found) < count:
        fields = client.expect("disposition").fields
        assert fields["role"]
        assert fields["settled"]
        for number in range(fields["first"], fields.get("last", fields["first"]) + 1):
            assert number not in found
            found[number] = fields["state"].name
    return found


def receive(client: FrameClient, address: str, count: int, *, release: bool) -> list[bytes]:
    """Receive and settle so many messages; ``release`` gives them back instead."""
    client.open(container_id="receives")
    client.begin()
    client.attach_receiver(address)
    client.send(
        "flow", handle=0, next_incoming_id=0, incoming_window=1000, next_outgoing_id=0,
        outgoing_window=0, delivery_count=0, link_credit=count,
    )  # fmt: skip
    found = [client.expect("transfer") for _ in range(count)]
    assert [each.fields["delivery_id"] for each in found] == list(range(count))
    assert len({each.fields["delivery_tag"] for each in found}) == count
    if count:
        state = composite("released" if release else "accepted")
        client.send("disposition", role=True, first=0, last=count - 1, settled=True, state=state)
    client.send("close")
    client.read_to_end()
    return [each.payload for each in found]


@given(courses)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_both_ways_are_one(server: Server, course: list[str]) -> None:
    address = f"whole-{next(numbers)}"
    kept = [(kind, n) for n, kind in enumerate(course) if kind not in {"aborted", *BAD}]
    owed = {
        n: "rejected" if kind in BAD else "accepted"
        for n, kind in enumerate(course)
        if kind not in ("aborted", "settled")
    }
    with opened(server.port) as client:
        client.attach_sender(address)
        assert client.wait_for_credit() >= len(course)
        client.send_bytes(b"".join(transfers(kind, n) for n, kind in enumerate(course)))
        assert outcomes(client, len(owed)) == owed
        # All of it is in the queue: the server answers the end in its turn.
        client.send("close")
        client.read_to_end()
    expected = [content(kind, n) for kind, n in kept]
    with FrameClient(server.port) as client:
        assert receive(client, address, len(kept), release=True) == expected
    with FrameClient(server.port) as client:
        again = receive(client, address, len(kept), release=False)
    # Released messages come again in their order; their header says that they were acquired.
    assert [each[-len(message(b"%d" % n)) :] for each, (_, n) in zip(again, kept, strict=True)] == [
        message(b"%d" % n) for _, n in kept
    ]
