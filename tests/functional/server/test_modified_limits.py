"""Annotations of *modified* are bounded: by the limits of a message, of its queue, and of work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.sections import declare, delivery, section
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, message

Start = Callable[..., Server]
BODY = message(b"x" * 1000)


def annotations(*pairs: tuple[str, str]) -> Value:
    return Value("map", tuple((Value("symbol", key), Value("string", text)) for key, text in pairs))


def attached(server: Server, address: str, *messages: bytes) -> FrameClient:
    """Return a client with a consumer of a queue that has these messages."""
    client = FrameClient(server.port)
    client.open()
    client.begin(incoming_window=2**31 - 1)
    client.attach_sender(address)
    client.wait_for_credit()
    for number, payload in enumerate(messages):
        client.transfer(number, payload, settled=True)
    client.attach_receiver(address, handle=1)
    client.give_credit(10_000, handle=1, incoming_window=10**6)
    return client


def last_of(client: FrameClient, count: int, size: int) -> bytes:
    """Modify a message so often, each time with a new key; return it as it is in the end."""
    found = delivery(client)[1]
    for number in range(count):
        state = composite("modified", annotations=annotations((f"key-{number}", "v" * size)))
        client.send("disposition", role=True, first=number, settled=True, state=state)
        found = delivery(client)[1]
    return found


@pytest.mark.parametrize(
    ("keys", "value", "most"),
    [
        ({"max_message_size": 7000}, 500, 7000),
        ({"queue_limit": 65536}, 5000, 65536 + 65536 // 8),
        ({}, 5000, 65536 + 1100),
        ({}, 1, 256 * 16 + 1100),
    ],
    ids=["message", "queue", "bytes", "number"],
)
def test_new_annotations_each_time(
    start: Start, keys: dict[str, object], value: int, most: int
) -> None:
    """Those within the limit are kept, and the message stays as it is after that."""
    count = 2 * most // (value + 12) + 4
    with attached(start(**keys), "q", BODY) as client:
        found = last_of(client, count, value)
    assert most // 2 < len(found) <= most
    assert found.endswith(BODY)
    assert b"key-0" in found
    assert f"key-{count - 1}".encode() not in found


def test_a_key_that_is_there_can_change_at_the_limit(start: Start) -> None:
    with attached(start(max_message_size=7000), "q", BODY) as client:
        last_of(client, 20, 500)
        state = composite("modified", annotations=annotations(("key-0", "w" * 500)))
        client.send("disposition", role=True, first=20, settled=True, state=state)
        assert b"w" * 500 in delivery(client)[1]


def test_the_messages_of_a_queue_together(start: Start) -> None:
    """Annotations do not make a queue much larger than its limit."""
    with attached(start(queue_limit=65536), "q", *[BODY] * 20) as client:
        for _ in range(20):
            delivery(client)[1]
        text = annotations(("key", "v" * 20_000))
        state = composite("modified", annotations=text)
        client.send("disposition", role=True, first=0, last=19, settled=True, state=state)
        found = [delivery(client)[1] for _ in range(20)]
    assert 1 <= sum(len(each) > 20_000 for each in found) <= 3
    assert all(each.endswith(BODY) for each in found)


@pytest.mark.parametrize("fail", [False, True])
def test_in_a_transaction(start: Start, fail: bool) -> None:
    """The limit holds there too, and a rollback leaves the message as it was."""
    with attached(start(max_message_size=7000), "q", BODY, BODY) as client:
        for _ in range(2):
            delivery(client)[1]
        client.attach_sender("", handle=2, target=composite("coordinator"))
        client.wait_for_credit()
        transaction = declare(client, 2, handle=2)
        for number, size in enumerate((500, 7000)):
            outcome = composite("modified", annotations=annotations(("key", "v" * size)))
            state = composite("transactional_state", txn_id=transaction, outcome=outcome)
            client.send("disposition", role=True, first=number, settled=True, state=state)
        discharge = composite("discharge", txn_id=transaction, fail=fail)
        client.transfer(3, section(0x77, discharge), handle=2)
        frames = [client.read() for _ in range(3)]
    found = [frame.payload for frame in frames if frame.name == "transfer"]
    assert sorted(b"key" in each for each in found) == [False, not fail]
    assert max(map(len, found)) < 2000
