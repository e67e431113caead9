"""Messages that are refused in a transaction (AMQP 1.0 part 4.4), frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sections import (
    declare,
    halves,
    opened,
    properties_to,
    section,
    sender,
)
from support.sections import settle as settle_all
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, message

Start = Callable[..., Server]


def declared(client: FrameClient, number: int) -> Value:
    """Declare a transaction with a session's delivery of that number; return its id."""
    if number == 0:
        attach_coordinator(client)
    return Value("binary", declare(client, number, handle=9))


def attach_coordinator(client: FrameClient) -> None:
    client.send(
        "attach", name="coordinator", handle=9, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("coordinator"),
    )  # fmt: skip
    client.expect("attach")
    client.wait_for_credit()


def discharged(client: FrameClient, identity: Value, number: int) -> Any:
    """Commit; return the coordinator's answer."""
    discharge = composite("discharge", txn_id=identity, fail=False)
    client.transfer(number, section(0x77, discharge), handle=9)
    while True:
        found = client.until("disposition").fields
        if found["first"] == number:
            return found["state"]


def to(address: str) -> bytes:
    """Return a message to an address."""
    return properties_to(address, 3_600_000) + message(b"x")


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
    with opened(either.port) as client:
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
    with sender(server.port, address) as client:
        one, two = (declared(client, number) for number in range(2))
        state = composite("transactional_state", txn_id=one)
        client.transfer(2, message(b"x" * 2000), settled=settled, state=state)
        assert client.until("detach").condition == "amqp:link:message-size-exceeded"
        answer = discharged(client, one, 3)
        assert answer.name == "rejected"
        assert answer.fields["error"].fields["condition"] == "amqp:transaction:rollback"
        assert discharged(client, two, 4).name == "accepted"


def test_a_refused_message_of_no_transaction(either: Server, address: str) -> None:
    with sender(either.port, address) as client:
        unknown = composite("transactional_state", txn_id=Value("binary", b"\xff" * 8))
        client.transfer(0, b"\x00\x53\x99\x45", settled=True, state=unknown)
        assert client.expect("detach").condition == "amqp:transaction:unknown-id"


# -- messages that nobody reads


def unknown() -> Value:
    return composite("transactional_state", txn_id=Value("binary", b"\xff" * 8))


def refused_link(client: FrameClient) -> int:
    """Have the server detach a link; return the number of the next delivery."""
    client.transfer(1, message(b"x"), state=unknown())
    assert client.until("detach").condition == "amqp:transaction:unknown-id"
    return 2


def after_our_detach(client: FrameClient, state: Value, **fields: Any) -> int:
    number = refused_link(client)
    client.transfer(number, message(b"lost"), state=state, **fields)
    return number + 1


def in_parts_after_our_detach(client: FrameClient, state: Value, **fields: Any) -> int:
    number = refused_link(client)
    client.transfer(number, message(b"lost")[:3], state=state, more=True, **fields)
    client.send("transfer", handle=0, payload=message(b"lost")[3:])
    return number + 1


def after_our_end(client: FrameClient, state: Value, **fields: Any) -> int:
    client.begin(channel=1)
    client.transfer(0, message(b"x"), handle=7, channel=1)
    assert client.until("end").condition == "amqp:session:unattached-handle"
    client.transfer(1, message(b"lost"), handle=7, channel=1, state=state, **fields)
    return 1


def without_a_link(client: FrameClient, state: Value, **fields: Any) -> int:
    client.begin(channel=1)
    client.transfer(0, message(b"lost"), handle=7, channel=1, state=state, **fields)
    assert client.until("end").condition == "amqp:session:unattached-handle"
    return 1


def by_a_refused_attach(client: FrameClient, state: Value, **fields: Any) -> int:
    client.send(
        "attach", name="refused", handle=5, role=False, initial_delivery_count=0,
        source=composite("source"), target=Value("null", None),
    )  # fmt: skip
    client.transfer(1, message(b"lost"), handle=5, state=state, **fields)
    client.until("detach")
    return 2


LOST = [
    after_our_detach, in_parts_after_our_detach, after_our_end, without_a_link,
    by_a_refused_attach,
]  # fmt: skip


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("lose", LOST)
def test_a_message_that_is_dropped(
    either: Server, address: str, lose: Callable[..., int], settled: bool
) -> None:
    """Part 4.4.4.1: a discharge must not succeed if a message of its transaction is lost."""
    with sender(either.port, address) as client:
        identity = declared(client, 0)
        state = composite("transactional_state", txn_id=identity)
        number = lose(client, state, settled=settled)
        rolled_back(discharged(client, identity, number))
        again = declared(client, number + 1)
        assert discharged(client, again, number + 2).name == "accepted"
    assert received(either, address) == 0


def test_a_message_that_its_sender_aborted_is_not_lost(server: Server, address: str) -> None:
    with sender(server.port, address) as client:
        identity = declared(client, 0)
        state = composite("transactional_state", txn_id=identity)
        number = refused_link(client)
        client.transfer(number, b"", state=state, aborted=True)
        assert discharged(client, identity, number + 1).name == "accepted"


def rolled_back(answer: Any) -> None:
    assert answer.name == "rejected"
    assert answer.fields["error"].fields["condition"] == "amqp:transaction:rollback"


def full(client: FrameClient, address: str, *, handle: int) -> int:
    """Fill a queue of 64 KiB; return the number of the next delivery."""
    client.open()
    client.begin()
    client.attach_sender(address)
    client.wait_for_credit()
    if handle:
        client.attach_sender(address, handle=handle)
        client.wait_for_credit()
    for number in range(3):
        client.transfer(number, message(bytes(22_000)))
        assert outcome_of(client, number) == "accepted"
    return 3


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("behind", [False, True], ids=["first", "behind another"])
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("end", ["commit", "rollback", "detach", "coordinator"])
def test_a_message_that_waits_for_room(
    start: Start, address: str, tmp_path: Path, end: str, settled: bool, behind: bool, stored: bool
) -> None:
    """The discharge does not wait, because room may never come: it fails if it was a commit."""
    server = start(queue_limit=65536, **({"store": tmp_path / "store"} if stored else {}))
    with FrameClient(server.port) as client:
        number = full(client, address, handle=1)
        attach_coordinator(client)
        identity = declared(client, number)
        number += 1
        state = composite("transactional_state", txn_id=identity)
        if behind:
            client.transfer(number, message(b"of none"), handle=1)
            number += 1
        waiting = number
        client.transfer(waiting, message(b"waits"), handle=1, settled=settled, state=state)
        number += 1
        if end == "detach":
            client.send("detach", handle=1, closed=True)
            client.until("detach")
        if end == "coordinator":
            client.send("detach", handle=9, closed=True)
            client.until("detach")
            number -= 1
        elif end == "rollback":
            client.transfer(
                number, section(0x77, composite("discharge", txn_id=identity, fail=True)), handle=9
            )
            assert outcome_of(client, number) == "accepted"
        else:
            rolled_back(discharged(client, identity, number))
        # Its link goes on when there is room.
        expected = behind and end != "detach"
        assert received(server, address, settle=True) == 3
        if end != "detach":
            if behind:
                assert outcome_of(client, waiting - 1) == "accepted"
            client.transfer(number + 1, message(b"after"), handle=1)
            assert outcome_of(client, number + 1) == "accepted"
            expected += 1
    assert received(server, address) == expected


def outcome_of(client: FrameClient, number: int) -> str:
    while True:
        found = client.until("disposition").fields
        if found["first"] <= number <= found.get("last", found["first"]):
            return str(found["state"].name)


def received(server: Server, address: str, *, settle: bool = False) -> int:
    """Return the number of messages in a queue; accept them if they should leave it."""
    count = 0
    with opened(server.port) as client:
        client.attach_receiver(address)
        client.give_credit(100, drain=True)
        while True:
            frame = client.read()
            count += frame.name == "transfer"
            if frame.name == "flow" and frame.fields.get("link_credit") == 0:
                break
        if settle:
            settle_all(client, "accepted", 0, count - 1)
            client.send("close")
            client.until("close")
    return count
