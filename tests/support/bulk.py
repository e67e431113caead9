"""Frames in bulk, and clients for the operations of tests/complexity."""

from __future__ import annotations

import numpy as np

from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite, decode_frame, encode_frame, message
from support.complexity import Bench
from support.fast_frames import DIGITS, NUMBER, copies
from support.floods import Flood

WINDOW = 2**31 - 1
BODY = message(b"x" * 16)


def header(ttl_ms: int | None = None, durable: bool = False) -> bytes:
    """Return a header section (part 3.2.1)."""
    fields = [Value("boolean", durable), Value("null", None)]
    if ttl_ms is not None:
        fields.append(Value("uint", ttl_ms))
    return encode(Value("described", (Value("ulong", 0x70), Value("list", tuple(fields)))))


def to(address: str) -> bytes:
    """Return a properties section that names an address (part 3.2.4)."""
    fields = (Value("null", None), Value("null", None), Value("string", address))
    return encode(Value("described", (Value("ulong", 0x73), Value("list", fields))))


def transfers(numbers: object, payload: bytes, *, handle: int = 0, **fields: object) -> bytes:
    """Return transfers of these delivery numbers, settled by default."""
    template = encode_frame(
        "transfer", handle=handle, delivery_id=NUMBER, delivery_tag=DIGITS.encode(),
        payload=payload, **{"message_format": 0, "settled": True, **fields},
    )  # fmt: skip
    return copies(template, numbers)  # type: ignore[arg-type]


def dispositions(numbers: object, state: str, *, settled: bool = True, **fields: object) -> bytes:
    """Return a disposition for each delivery."""
    template = encode_frame(
        "disposition", role=True, first=NUMBER, settled=settled, state=composite(state, **fields)
    )
    return copies(template, numbers)  # type: ignore[arg-type]


def flow(credit: int, *, handle: int = 0, count: int = 0, incoming: int = 0) -> bytes:
    """Return a flow that gives credit on a receiving link."""
    return encode_frame(
        "flow", next_incoming_id=incoming, incoming_window=WINDOW, next_outgoing_id=0,
        outgoing_window=WINDOW, handle=handle, delivery_count=count, link_credit=credit,
    )  # fmt: skip


class Producer:
    """A sending link that sends as credit comes."""

    def __init__(self, bench: Bench, address: str | None, **fields: object) -> None:
        self.client = bench.client()
        self.client.kept = {"flow"}
        target = composite("target", address=address)
        self.client.attach_sender(address or "", target=target, **fields)
        self.sent = self.limit = 0
        self.window = 64

    def credit(self) -> int:
        """Return the number of deliveries up to which the server has given credit."""
        for found in self.client.frames:
            fields = decode_frame(found).fields
            window = fields.get("next_incoming_id", 0) + fields["incoming_window"]
            self.window = max(self.window, window)
            told = fields.get("delivery_count", 0) + fields.get("link_credit", 0)
            self.limit = max(self.limit, told)
        self.client.frames.clear()
        return min(self.limit, self.window)

    def send(self, count: int, payload: bytes, **fields: object) -> None:
        """Send messages as fast as credit allows."""
        end = self.sent + count
        while self.sent < end:
            while self.credit() <= self.sent:
                self.client.pump(b"", lambda: bool(self.client.frames))
            until = min(self.limit, self.window, end)
            self.client.pump(transfers(range(self.sent, until), payload, **fields))
            self.sent = until


def fill(bench: Bench, address: str, count: int, payload: bytes = BODY) -> None:
    """Fill a queue with so many messages, from a client that stays."""
    producer = Producer(bench, address)
    producer.send(count, payload)
    producer.client.echo()


def holding(bench: Bench, address: str, count: int) -> Flood:
    """Return a consumer that has got so many messages and settled none."""
    fill(bench, address, count)
    client = bench.client()
    client.attach_receiver(address)
    client.pump(flow(count), lambda: client.seen["transfer"] >= count)
    return client


def shuffled(count: int) -> np.ndarray:
    """Return the numbers below ``count`` in a random order, the same each time."""
    return np.random.default_rng(1).permutation(count)
