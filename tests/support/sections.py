"""Messages of sections that tests make, and clients that send and receive them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import Frame, composite

# A message-format, and the bytes of a message.
Sent = tuple[int, bytes]
# The server's chunks of memory.
CHUNK = 32768


def section(code: int, body: Value) -> bytes:
    return encode(Value("described", (Value("ulong", code), body)))


def pairs(kind: str, content: bytes) -> Value:
    """Return a map of one entry."""
    return Value("map", ((Value(kind, "key"), Value("binary", content)),))


def opened(port: int, **fields: object) -> FrameClient:
    """Return a client with a session; these are fields of its open."""
    client = FrameClient(port)
    client.open(**fields)
    client.begin()
    return client


@contextlib.contextmanager
def sender(port: int, address: str, **target: object) -> Iterator[FrameClient]:
    with opened(port, container_id="sends") as client:
        client.attach_sender(address, target=composite("target", address=address, **target))
        client.wait_for_credit()
        yield client


@contextlib.contextmanager
def receiver(port: int, address: str, **source: object) -> Iterator[FrameClient]:
    with opened(port, container_id="receives") as client:
        client.attach_receiver(address, source=composite("source", address=address, **source))
        client.give_credit(100)
        yield client


def send(client: FrameClient, messages: Iterable[Sent], *, frames: int = 1) -> None:
    """Send messages in so many frames each; all of them have to be accepted."""
    for number, (form, payload) in enumerate(messages):
        parts = [payload] if frames == 1 else halves(payload)
        for part in parts:
            more = part is not parts[-1]
            client.transfer(number, part, more=more, message_format=form)
        assert outcome(client) == "accepted", payload


def put(port: int, address: str, *payloads: bytes) -> None:
    """Put messages into a queue."""
    with sender(port, address) as client:
        send(client, [(0, each) for each in payloads])


def declare(client: FrameClient, number: int, *, handle: int = 0) -> bytes:
    """Declare a transaction by a delivery on the link to the coordinator; return its id."""
    client.transfer(number, section(0x77, composite("declare")), handle=handle)
    txn_id: bytes = client.expect("disposition").fields["state"].fields["txn_id"]
    return txn_id


def outcome(client: FrameClient) -> str | None:
    state = client.expect("disposition").fields.get("state")
    return None if state is None else str(state.name)


def receive(client: FrameClient, count: int) -> list[Sent]:
    return [delivery(client) for _ in range(count)]


def delivery(client: FrameClient) -> Sent:
    first = client.expect("transfer")
    frames: list[Frame] = [first]
    while frames[-1].fields.get("more"):
        frames.append(client.expect("transfer"))
    return first.fields.get("message_format", 0), b"".join(each.payload for each in frames)


def settle(client: FrameClient, state: str, first: int, last: int) -> None:
    said = composite(state)
    client.send("disposition", role=True, first=first, last=last, settled=True, state=said)


def halves(payload: bytes) -> list[bytes]:
    return [payload[: len(payload) // 2], payload[len(payload) // 2 :]]


def annotations_of(size: int) -> bytes:
    filler = b"x" * 1000
    filler += b"x" * (size - len(annotations(filler)))
    assert len(annotations(filler)) == size
    return annotations(filler)


def annotations(filler: bytes) -> bytes:
    return section(0x72, Value("map", ((Value("symbol", "x-f"), Value("binary", filler)),)))


def properties_to(address: str, milliseconds: int) -> bytes:
    at = Value("timestamp", time.time_ns() // 1_000_000 + milliseconds)
    null = Value("null", None)
    fields = (Value("string", "id"), null, Value("string", address), *[null] * 5, at)
    return section(0x73, Value("list", fields))


def properties(*fields: Value) -> bytes:
    return section(0x73, Value("list", fields))


def nulls(count: int) -> tuple[Value, ...]:
    return (Value("null", None),) * count
