"""Messages that are refused in a transaction (AMQP 1.0 part 4.4), frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.amqp_codec import Value, encode
from support.amqp_frames import FrameClient, composite, message
from support.server import Server, running_server

Start = Callable[..., Server]


def declared(client: FrameClient, number: int) -> Value:
    """Declare a transaction with a session's delivery of that number; return its id."""
    if number == 0:
        client.send(
            "attach", name="coordinator", handle=9, role=False, initial_delivery_count=0,
            source=composite("source"), target=composite("coordinator"),
        )  # fmt: skip
        client.expect("attach")
        client.wait_for_credit()
    client.transfer(number, request(composite("declare")), handle=9)
    state = client.expect("disposition").fields["state"]
    return Value("binary", state.fields["txn_id"])


def request(what: Value) -> bytes:
    return encode(Value("described", (Value("ulong", 0x77), what)))


def discharged(client: FrameClient, identity: Value, number: int) -> Any:
    """Commit; return the coordinator's answer."""
    client.transfer(
        number, request(composite("discharge", txn_id=identity, fail=False)), handle=9
    )  # fmt: skip
    while True:
        found = client.until("disposition").fields
        if found["first"] == number:
            return found["state"]


def to(address: str) -> bytes:
    """Return a message to an address."""
    fields = Value("list", (Value("null", None), Value("null", None), Value("string", address)))
    return encode(Value("described", (Value("ulong", 0x73), fields))) + message(b"x")


REFUSED = {
    "no message": ("queue", b"\x00\x53\x99\x45", "amqp:decode-error"),
    "empty": ("queue", b"", "amqp:decode-error"),
    "no address": (None, message(b"x"), "amqp:precondition-failed"),
    "unknown address": (None, to("$none"), "amqp:not-found"),
    "address no string": (None, to("a\0b"), None),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("stored")
    with running_server(folder, store=folder / "store") as running:
        yield running


@pytest.fixture(params=["stored", "server"])
def either(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_message(
    either: Server, address: str, what: str, settled: bool, parts: int
) -> None:
    """Part 4.4.4.1: nobody hears that a settled one is refused, so its transaction fails."""
    target, payload, why = REFUSED[what]
    with FrameClient(either.port) as client:
        client.open()
        client.begin()
        client.attach_sender(
            address, target=composite("target", **({"address": address} if target else {}))
        )
        client.wait_for_credit()
        identity = declared(client, 0)
        state = composite("transactional_state", txn_id=identity)
        good = to(address)
        client.transfer(1, good, settled=True, state=state)
        more = {"delivery_id": 2, "delivery_tag": b"2", "message_format": 0}
        for part in range(parts):
            half = payload if parts == 1 else halves(payload)[part]
            client.send(
                "transfer", handle=0, payload=half, settled=settled, more=part < parts - 1,
                state=state, **(more if part == 0 else {}),
            )  # fmt: skip
        if not settled:
            found = client.expect("disposition").fields
            assert (found["first"], found["settled"]) == (2, True)
            assert found["state"].name == "transactional_state"
            assert found["state"].fields["txn_id"] == identity.value
            outcome = found["state"].fields["outcome"]
            assert outcome.name == "rejected"
            assert why is None or outcome.fields["error"].fields["condition"] == why
        answer = discharged(client, identity, 3)
        if settled:
            assert answer.name == "rejected"
            assert answer.fields["error"].fields["condition"] == "amqp:transaction:rollback"
        else:
            assert answer.name == "accepted"
        # The coordinator and the link go on.
        again = declared(client, 4)
        client.transfer(5, good, state=composite("transactional_state", txn_id=again))
        assert client.expect("disposition").fields["state"].name == "transactional_state"
        assert discharged(client, again, 6).name == "accepted"
    count = 1 if settled else 2
    assert received(either, address) == count


@pytest.mark.parametrize("settled", [True, False])
def test_a_message_beyond_the_limit(start: Start, address: str, settled: bool) -> None:
    """Its link ends, and its transaction fails; another one goes on."""
    server = start(max_message_size=1000)
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        client.attach_sender(address)
        client.wait_for_credit()
        one, two = (declared(client, number) for number in range(2))
        state = composite("transactional_state", txn_id=one)
        client.transfer(2, message(b"x" * 2000), settled=settled, state=state)
        assert client.until("detach").condition == "amqp:link:message-size-exceeded"
        answer = discharged(client, one, 3)
        assert answer.name == "rejected"
        assert answer.fields["error"].fields["condition"] == "amqp:transaction:rollback"
        assert discharged(client, two, 4).name == "accepted"


def test_a_refused_message_of_no_transaction(either: Server, address: str) -> None:
    with FrameClient(either.port) as client:
        client.open()
        client.begin()
        client.attach_sender(address)
        client.wait_for_credit()
        unknown = composite("transactional_state", txn_id=Value("binary", b"\xff" * 8))
        client.transfer(0, b"\x00\x53\x99\x45", settled=True, state=unknown)
        assert client.expect("detach").condition == "amqp:transaction:unknown-id"


def halves(payload: bytes) -> list[bytes]:
    return [payload[: len(payload) // 2], payload[len(payload) // 2 :]]


def received(server: Server, address: str) -> int:
    """Return the number of messages in a queue."""
    count = 0
    with FrameClient(server.port) as client:
        client.open()
        client.begin()
        client.attach_receiver(address)
        client.give_credit(100, drain=True)
        while True:
            frame = client.read()
            count += frame.name == "transfer"
            if frame.name == "flow" and frame.fields.get("link_credit") == 0:
                return count
