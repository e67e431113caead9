"""Frames that no sane peer sends: each is told as malformed, and none harms us."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import CodecError, Value, encode, symbols
from quiver_fast.conform.wire.frames import (
    FIELDS,
    Unexpected,
    composite,
    decode_frame,
    encode_frame,
    frame,
)
from quiver_fast.conform.wire.trace import Trace, Traced, shown
from quiver_fast.errors import PeerError

NULL = Value("null", None)
LIST = Value("list", (Value("uint", 3),))
ODD = [
    LIST, Value("long", -5), Value("map", ((LIST, NULL), (composite("accepted"), NULL))),
    Value("described", (LIST, LIST)), Value("array", ("uint", (Value("uint", 1),))),
    Value("binary", b"\xff"), Value("string", "odd"), symbols("a"), composite("accepted"),
]  # fmt: skip
FRAMES = ("open", "begin", "attach", "flow", "transfer", "disposition", "detach", "close")


@pytest.fixture(name="ends")
def connected() -> Iterator[tuple[FrameClient, socket.socket]]:
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    ours.settimeout(0.3)
    theirs = listener.accept()[0]
    with listener, theirs, FrameClient.on(ours, Trace()) as client:
        yield client, theirs


@pytest.mark.parametrize("name", FRAMES)
def test_fields_of_any_type(name: str) -> None:
    """A field has a type that a case can use, or the frame is malformed."""
    for field, kind in FIELDS[name]:
        for value in ODD:
            try:
                found = decode_frame(encode_frame(name, **{field: value}))
            except CodecError:
                continue
            shown(found)
            if field == "error":
                assert found.fields["error"].name
            if kind in ("uint", "ushort", "ulong"):
                assert found.fields[field] >= 0
    with pytest.raises(CodecError, match=r"^the first of disposition is of the type string$"):
        decode_frame(encode_frame("disposition", role=True, first=Value("string", "odd")))


def test_an_extension_is_no_fault() -> None:
    state = Value("described", (Value("symbol", "x:mine:list"), LIST))
    found = decode_frame(encode_frame("disposition", role=True, first=0, state=state))
    assert found.fields["state"].name == "x:mine:list"


def test_a_descriptor_may_be_a_symbol() -> None:
    """(part 1.2)"""
    body = Value("list", (Value("string", "me"),))
    found = decode_frame(
        frame(encode(Value("described", (Value("symbol", "amqp:open:list"), body))))
    )
    assert (found.name, found.fields) == ("open", {"container_id": "me"})


@pytest.mark.parametrize("body", [bytes(700) + b"\x40" * 701, b"\xc0\x02\x01" * 200])
def test_deep_values(body: bytes) -> None:
    with pytest.raises(CodecError):
        decode_frame(frame(body))


@pytest.mark.parametrize("size", [0, 4, 7])
def test_frames_that_are_too_small(ends: tuple[FrameClient, socket.socket], size: int) -> None:
    client, theirs = ends
    theirs.sendall(size.to_bytes(4, "big") * 3)
    with pytest.raises(Unexpected, match=f"a malformed frame: a frame of {size} bytes"):
        client.any_frame()
    with pytest.raises(Unexpected, match="a malformed frame"):
        client.nothing("open")


def test_a_frame_that_would_fill_the_memory(ends: tuple[FrameClient, socket.socket]) -> None:
    client, theirs = ends
    theirs.sendall(b"\xff\xff\xff\xff\x02\x00\x00\x00")
    with pytest.raises(PeerError, match="a frame of 4,294,967,295 bytes came"):
        client.any_frame()


def test_a_frame_that_comes_byte_by_byte(ends: tuple[FrameClient, socket.socket]) -> None:
    """Each byte comes within the patience, and the frame never ends."""
    client, theirs = ends
    done = threading.Event()

    def drip() -> None:
        theirs.sendall((1 << 20).to_bytes(4, "big"))
        while not done.wait(0.05):
            theirs.sendall(b"\x02")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(Unexpected, match="no such frame in 0"):
            client.any_frame()
    finally:
        done.set()
        thread.join()


def test_a_flood_does_not_fill_the_trace() -> None:
    trace = Trace()
    for number in range(1100):
        trace.append(Traced(0, time.monotonic(), False, "transfer", number, {}, b"x"))
    assert [trace[0].channel, trace[-1].channel] == [100, 1099]
    for number in range(10):
        trace.append(Traced(0, time.monotonic(), False, "transfer", number, {}, bytes(1 << 20)))
    assert [one.channel for one in trace] == [6, 7, 8, 9]


def test_long_texts_are_cut() -> None:
    properties = Value("map", ((Value("symbol", "product"), Value("string", "z" * 100_000)),))
    line = shown(decode_frame(encode_frame("open", container_id="c", properties=properties)))
    assert line.endswith('zzz"... (100,000 in all)}')
    assert len(line) < 1100
