"""Sections that come after the first frame of a stream: as in one frame, nothing goes on before."""

from __future__ import annotations

import time

import pytest
from support.sections import (
    annotations_of,
    delivery,
    nulls,
    outcome,
    properties,
    properties_to,
    receiver,
    section,
    sender,
    settle,
)
from support.server import Server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, symbols
from quiver_fast.conform.wire.frames import composite, message

DATA = message(b"data")
APPLICATION = section(0x74, Value("map", ((Value("string", "key"), Value("binary", b"v")),)))


def in_frames(payload: bytes, cut: int) -> list[bytes]:
    """Cut a message at a place, and the rest into frames."""
    size = 30_000  # few frames: a session for streams has a window of four
    return [
        part[at : at + size]
        for part in (payload[:cut], payload[cut:])
        for at in range(0, len(part), size)
    ]


def send_in_frames(
    client: FrameClient, number: int, payload: bytes, cut: int, **fields: object
) -> None:
    parts = in_frames(payload, cut)
    for place, part in enumerate(parts):
        client.transfer(number, part, more=place < len(parts) - 1, **fields)


def expires(kind: str, gone: bool, long: int) -> tuple[bytes, int]:
    """Return a message that has expired or not, and the place of its properties."""
    ttl = Value("uint", 0 if gone else 10**9)
    header = section(0x70, Value("list", (*nulls(2), ttl))) if kind == "ttl" else b""
    at = Value("timestamp", time.time_ns() // 1_000_000 + (-1 if gone else 10**9))
    fields = properties(Value("ulong", 1), *nulls(7), *([at] if kind == "absolute" else []))
    before = header + annotations_of(long)
    return before + fields + APPLICATION + message(bytes(20_000)), len(before)


@pytest.mark.parametrize("kind", ["ttl", "absolute"])
@pytest.mark.parametrize("marked", [True, False], ids=["marked", "large"])
@pytest.mark.parametrize("to", ["queue", "topic", "anonymous"])
def test_a_stream_that_has_expired(
    server: Server, address: str, to: str, marked: bool, kind: str
) -> None:
    """It is accepted and dropped like a message in one frame, wherever its frames are cut."""
    target = {"capabilities": symbols("qd.streaming-deliveries")} if marked else {}
    place = f"topic-{address}" if to == "topic" else address
    long = 40_000 if marked else 300_000
    number = 0
    with receiver(server.port, place) as client, sender(server.port, place, **target) as producer:
        if to == "anonymous":
            producer.attach_sender("", handle=1, target=composite("target", **target))
            producer.wait_for_credit()
        for cut in (-3, 0, 2, 5, 9, 14, 20):
            for gone in (True, False):
                payload, begin = expires(kind, gone, long)
                if to == "anonymous":
                    # Its address is in the properties, too.
                    rest = properties_to(address, -1 if gone else 10**9)
                    payload = payload[:begin] + rest + DATA
                handle = 1 if to == "anonymous" else 0
                send_in_frames(producer, number, payload, begin + cut, handle=handle)
                if not gone:
                    assert delivery(client)[1][-3000:] == payload[-3000:]
                    settle(client, "accepted", number // 2, number // 2)
                assert outcome(producer) == "accepted"
                number += 1


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "large"])
@pytest.mark.parametrize("fits", [True, False])
def test_a_stream_is_chosen_by_late_properties(
    server: Server, address: str, fits: bool, marked: bool
) -> None:
    target = {"capabilities": symbols("qd.streaming-deliveries")} if marked else {}
    asked = Value("described", (
        Value("ulong", 0x0000_468C_0000_0004), Value("string", "JMSMessageID = 'id' AND k = 'v'"),
    ))  # fmt: skip
    chosen = {"filter": Value("map", ((Value("symbol", "s"), asked),))}
    named = Value("map", ((Value("string", "k"), Value("string", "v" if fits else "w")),))
    rest = properties(Value("string", "id")) + section(0x74, named)
    before = annotations_of(40_000 if marked else 300_000)
    with (
        receiver(server.port, address, **chosen) as client,
        sender(server.port, address, **target) as producer,
    ):
        for number, cut in enumerate((0, 4, 10, len(rest) - 3, len(rest))):
            payload = before + rest + message(bytes(20_000))
            send_in_frames(producer, number, payload, len(before) + cut)
            if fits:
                assert delivery(client)[1] == payload
                settle(client, "accepted", number, number)
            # The queue keeps a message that was complete before it was judged.
            assert outcome(producer) in (("accepted",) if fits else ("accepted", "released"))
