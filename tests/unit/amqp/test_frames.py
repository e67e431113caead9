"""The readers of frames against their twin: every legal encoding, and damaged ones."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import frames_twin
from support.frame_strategies import any_frames, framed, frames, states
from support.frames_layer import Frames
from support.frames_twin import DECODE, FRAMING, INVALID, RefusedError

from quiver_fast.conform.wire.frames import encode_frame

PERFORMATIVES = ["transfer", "flow", "disposition"]
LIMIT = 65536
# What a field is that a sender leaves out. Fields that no user of the data plane reads are
# not kept: properties, what is in an error's info, annotations.
DEFAULTS: dict[str, dict[str, Any]] = {
    "transfer": dict.fromkeys(["more", "resume", "aborted", "batchable"], False),
    "flow": dict.fromkeys(["drain", "echo"], False),
    "disposition": {"settled": False, "batchable": False, "state": None},
    "modified": {"delivery_failed": False, "undeliverable_here": False},
}
UNREAD = {"properties", "info", "annotations"}


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return Frames(tmp_path_factory.mktemp("frames"))


def flow_with(properties: bytes) -> bytes:
    """Return a flow's list whose last field is of these bytes."""
    fields = b"\x40\x43\x43\x43" + b"\x40" * 6 + properties
    return bytes([0xC0, len(fields) + 1, 11]) + fields


def kept(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as the C has them."""
    result = DEFAULTS.get(name, {}) | {k: v for k, v in fields.items() if k not in UNREAD}
    if name == "disposition":
        result = {"last": result["first"]} | result
        result["state"] = kept_state(result["state"])
    if name == "rejected" and "error" in result:
        result["error"] = kept("error", result["error"])
    if name == "transactional_state" and "outcome" in result:
        result["outcome"] = kept_state(result["outcome"])
        # A transaction's own id is the one that is kept.
        result["outcome"][1].pop("txn_id", None)
    return result


def kept_state(state: tuple[str, dict[str, Any]] | None) -> tuple[str, dict[str, Any]] | None:
    return state and (state[0], kept(*state))


def outcome(read: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a reader says, or the condition with which it refuses."""
    try:
        return read(*arguments)
    except RefusedError as error:
        return error.args[0]


def twin_says(name: str, data: bytes) -> Any:
    def read() -> Any:
        fields, payload = frames_twin.performative(name, data)
        return kept(name, fields), payload

    return outcome(read)


def agrees_swiftly(layer: Frames, data: bytes) -> bool:
    """Say whether the short way reads a frame; hold it to the complete reader if it does."""
    swift = layer.swift_transfer(data, LIMIT)
    if swift is None:
        return False
    head, fields, payload = swift
    assert head == layer.head(data, LIMIT)
    whole, rest = layer.performative("transfer", data[: head.size])
    # Missing fields have their defaults.
    assert fields | DEFAULTS["transfer"] | {"more": fields["more"]} == {"settled": False} | whole
    assert payload == rest
    return True


@pytest.mark.parametrize("name", PERFORMATIVES)
@given(st.data())
def test_all_encodings(layer: Frames, name: str, data: st.DataObject) -> None:
    frame, fields, payload = data.draw(frames(name))
    expected = kept(name, fields), payload
    assert twin_says(name, frame) == expected
    assert layer.head(frame, LIMIT) == frames_twin.head(frame, LIMIT)
    assert layer.performative(name, frame) == expected
    if name == "transfer":
        agrees_swiftly(layer, frame)
        agrees_swiftly(layer, frame + frame)


@pytest.mark.parametrize("name", PERFORMATIVES)
@given(st.data())
def test_damaged(layer: Frames, name: str, data: st.DataObject) -> None:
    frame = data.draw(any_frames(name))
    head = layer.head(frame, LIMIT)
    assert head == frames_twin.head(frame, LIMIT)
    assert head is not None
    if layer.swift_transfer(frame + bytes(100), LIMIT) is not None:
        assert head.kind == "transfer"
        assert agrees_swiftly(layer, frame + bytes(100))
    if head.kind not in PERFORMATIVES:
        return
    expected = twin_says(head.kind, frame)
    assert outcome(layer.performative, head.kind, frame) == expected


@pytest.mark.parametrize("name", PERFORMATIVES)
@given(st.data())
def test_cut_at_each_byte(layer: Frames, name: str, data: st.DataObject) -> None:
    frame, _, payload = data.draw(frames(name))
    body = frame[frame[4] * 4 : len(frame) - len(payload)]
    for size in range(len(body)):
        part = framed(body[:size])
        head = layer.head(part, LIMIT)
        assert head == frames_twin.head(part, LIMIT)
        assert head is not None
        if head.kind == name:
            assert outcome(layer.performative, name, part) == DECODE


@given(states(), st.data())
def test_states(layer: Frames, state: tuple[bytes, Any], data: st.DataObject) -> None:
    encoded, expected = state
    assert outcome(layer.state, encoded) == kept_state(expected)
    place = data.draw(st.integers(0, len(encoded) - 1))
    damaged = encoded[:place] + bytes([data.draw(st.integers(0, 255))]) + encoded[place + 1 :]
    slow = outcome(lambda: kept_state(frames_twin.state(damaged)))
    assert outcome(layer.state, damaged) == slow


@given(
    st.integers(0, 70000), st.integers(0, 255), st.integers(0, 2), st.integers(0, 65535),
    st.binary(max_size=40), st.sampled_from([512, LIMIT]),
)  # fmt: skip
def test_headers(
    layer: Frames, size: int, offset: int, kind: int, channel: int, body: bytes, limit: int
) -> None:
    for whole in (size, 8 + len(body)):
        data = struct.pack(">IBBH", whole, offset, kind, channel) + body
        for end in (0, 7, 8, len(data)):
            part = data[:end]
            slow = outcome(frames_twin.head, part, limit)
            assert outcome(layer.head, part, limit) == slow


@pytest.mark.parametrize("settled", [None, False, True])
@pytest.mark.parametrize("number", [0, 200, 300, 2**32 - 1])
def test_the_short_way_takes_what_peers_send(
    layer: Frames, settled: bool | None, number: int
) -> None:
    data = encode_frame("transfer", handle=0, delivery_id=number, delivery_tag=b"\0\0\0\1",
                        message_format=0, settled=settled, payload=bytes(100))  # fmt: skip
    assert agrees_swiftly(layer, data)
    assert layer.swift_transfer(data[:-1], LIMIT) is None, "it is not all there"
    assert layer.swift_transfer(data, len(data) - 1) is None, "it is beyond the limit"


@pytest.mark.parametrize(("place", "by"), [(12, 1), (12, -1), (13, 1), (13, -1), (13, 3)])
def test_the_short_way_leaves_a_list_that_lies(layer: Frames, place: int, by: int) -> None:
    """Its size and its count are the bytes before the fields."""
    data = bytearray(encode_frame("transfer", handle=0, delivery_id=7, delivery_tag=b"1234",
                                  message_format=0, settled=True, more=True,
                                  payload=b"\x42" * 100))  # fmt: skip
    assert data[11] == 0xC0
    assert agrees_swiftly(layer, bytes(data))
    data[place] += by
    assert layer.swift_transfer(bytes(data), LIMIT) is None
    assert twin_says("transfer", bytes(data)) == DECODE


@pytest.mark.parametrize(
    ("name", "fields", "condition"),
    [
        ("transfer", b"\xc0\x02\x01\x40", INVALID),  # no handle
        ("transfer", b"\xc0\x02\x01\x41", DECODE),  # a handle of another type
        ("transfer", b"\xc0\x27\x03\x43\x43\xa0\x21" + bytes(33), DECODE),  # a size that lies
        ("transfer", b"\xc0\x26\x03\x43\x43\xa0\x21" + bytes(33), INVALID),  # a long tag
        ("transfer", b"\xc0\x0d\x0c\x43" + b"\x40" * 11, DECODE),  # more fields than there are
        ("flow", b"\xc0\x06\x05\x40\x43\x43\x43", DECODE),  # fewer than were counted
        ("flow", b"\xc0\x08\x07\x40\x43\x43\x43\x40\x40\x43", INVALID),  # credit of no link
        ("flow", b"\xc0\x05\x04\x40\x43\x43\x43\x00", DECODE),  # bytes after it
        ("disposition", b"\xc0\x03\x02\x40\x43", INVALID),  # no role
        ("disposition", b"\xc0\x04\x02\x56\x02\x43", DECODE),  # no boolean
        ("disposition", b"\xd0\xff\xff\xff\xff\0\0\0\0", DECODE),
        ("disposition", b"\x45", INVALID),
        # Compound values without room for their count, or for an array's constructor.
        *(
            ("flow", flow_with(value), DECODE)
            for value in (
                b"\xc1\0",
                b"\xc0\0",
                b"\xe0\1\0",
                b"\xd1\0\0\0\3\0\0\0",
                b"\xf0\0\0\0\4\0\0\0\0",
            )
        ),
    ],
)
def test_conditions(layer: Frames, name: str, fields: bytes, condition: str) -> None:
    code = {"flow": 0x13, "transfer": 0x14, "disposition": 0x15}[name]
    data = framed(bytes([0, 0x53, code]) + fields)
    assert outcome(frames_twin.performative, name, data) == condition
    assert outcome(layer.performative, name, data) == condition


def test_a_frame_beyond_the_limit_is_refused_by_its_header(layer: Frames) -> None:
    data = struct.pack(">IBBH", 513, 2, 0, 0)
    assert outcome(layer.head, data, 512) == FRAMING
    assert layer.head(data, 513) is None


@pytest.mark.parametrize("name", PERFORMATIVES)
@given(st.data())
def test_what_is_written_reads_the_same(layer: Frames, name: str, data: st.DataObject) -> None:
    frame, fields, payload = data.draw(frames(name))
    written = layer.rewritten(name, frame)
    assert twin_says(name, written) == (kept(name, fields), payload)
    head = frames_twin.head(written, LIMIT)
    assert head is not None
    assert (head.size, head.kind) == (len(written), name)
    assert written[6:8] == frame[6:8], "its channel"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *((name, {}) for name in ("accepted", "released", "rejected")),
        ("modified", {"delivery_failed": True, "undeliverable_here": False}),
        ("modified", {"delivery_failed": False, "undeliverable_here": True}),
        *(("transactional_state", {"txn_id": bytes(size)}) for size in (0, 4, 255)),
        ("transactional_state", {"txn_id": b"t", "outcome": "accepted"}),
    ],
)
def test_written_states(layer: Frames, name: str, fields: dict[str, Any]) -> None:
    written = layer.written_state(name, **fields)
    expected = fields | ({"outcome": ("accepted", {})} if "outcome" in fields else {})
    assert frames_twin.state(written) == (name, expected)
    assert layer.state(written) == (name, expected)


def test_the_room_of_the_largest_state(layer: Frames, plane_library: ctypes.CDLL) -> None:
    written = layer.written_state("transactional_state", txn_id=bytes(255), outcome="accepted")
    assert len(written) == plane_library.door_state_room()
