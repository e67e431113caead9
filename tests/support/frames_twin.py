"""Reading performatives by the specification: the slow twin of amqp/frames.c.

A read performative is a dictionary of its present fields; a refused one raises
`RefusedError` with the condition of a close.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from quiver_fast.conform.wire.frames import FIELDS, NAMES

FRAMING = "amqp:connection:framing-error"
DECODE = "amqp:decode-error"
INVALID = "amqp:invalid-field"

KINDS = {"transfer", "flow", "disposition"}
STATES = {
    "received", "accepted", "rejected", "released", "modified", "declared", "transactional_state",
}  # fmt: skip
# The known descriptors; all others are unknown.
CONTROLS = {"open", "begin", "attach", "detach", "end", "close"}
KNOWN = KINDS | CONTROLS | STATES | {"error", "declare", "discharge"}
# Fields without a default that a sender may not leave out (parts 2.7, 3.4 and 4.5).
MANDATORY = {
    "flow": {"incoming_window", "next_outgoing_id", "outgoing_window"},
    "transfer": {"handle"},
    "disposition": {"role", "first"},
    "error": {"condition"},
    "received": {"section_number", "section_offset"},
    "declared": {"txn_id"},
    "transactional_state": {"txn_id"},
}
# Bytes after the constructors of values of one width, and of those that begin with their size.
WIDTHS = dict.fromkeys(range(0x40, 0x46), 0) | dict.fromkeys(range(0x50, 0x57), 1)
WIDTHS |= {0x60: 2, 0x61: 2} | dict.fromkeys(range(0x70, 0x75), 4)
WIDTHS |= dict.fromkeys(range(0x80, 0x85), 8) | {0x94: 16, 0x98: 16}
SIZED = {0xA0: 1, 0xA1: 1, 0xA3: 1, 0xC0: 1, 0xC1: 1, 0xE0: 1}
SIZED |= {code + 0x10: 4 for code in SIZED}
# The least size of a compound value's content: its count, an array's constructor.
LEAST = {0xC0: 1, 0xC1: 1, 0xE0: 2, 0xD0: 4, 0xD1: 4, 0xF0: 5}
NUMBERS = {"uint": (0x43, 0x52, 0x70), "ulong": (0x44, 0x53, 0x80)}
BYTES = {"binary": (0xA0, 0xB0), "string": (0xA1, 0xB1), "symbol": (0xA3, 0xB3)}


class RefusedError(Exception):
    """The bytes are refused; its one argument is the condition."""


class Head(NamedTuple):
    """A frame's header and descriptor."""

    size: int
    channel: int
    kind: str


def cut(data: bytes, size: int) -> tuple[bytes, bytes]:
    if size > len(data):
        raise RefusedError(DECODE)
    return data[:size], data[size:]


def body_of(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the constructor and the content of a value without descriptor, and the rest."""
    first, rest = cut(data, 1)
    code = first[0]
    if code in WIDTHS:
        body, rest = cut(rest, WIDTHS[code])
    elif code in SIZED:
        size, rest = cut(rest, SIZED[code])
        body, rest = cut(rest, int.from_bytes(size, "big"))
    else:
        raise RefusedError(DECODE)
    if len(body) < LEAST.get(code, 0) or (code == 0x56 and body[0] > 1):
        raise RefusedError(DECODE)
    return code, body, rest


def any_value(data: bytes) -> tuple[bytes, bytes]:
    """Return the bytes of one value, and the rest."""
    pending, rest = 1, data
    while pending:
        if rest[:1] == b"\0":
            pending, rest = pending + 1, rest[1:]
        else:
            rest = body_of(rest)[2]
            pending -= 1
    return data[: len(data) - len(rest)], rest


def descriptor(data: bytes) -> tuple[str, bytes]:
    """Return the name of a descriptor, ``unknown`` for others, and the rest."""
    if data[:1] != b"\0":
        raise RefusedError(DECODE)
    value, rest = any_value(data[1:])
    code = value[0]
    if code in (0x53, 0x80):
        name = NAMES.get(int.from_bytes(value[1:], "big"), "")
    elif code in BYTES["symbol"]:
        names = {f"amqp:{each.replace('_', '-')}:list": each for each in KNOWN}
        name = names.get(body_of(value)[1].decode("latin-1"), "")
    else:
        name = ""
    return name if name in KNOWN else "unknown", rest


def field(kind: str, data: bytes) -> tuple[Any, bytes]:
    """Return a field that is not null, and the rest."""
    if kind == "any":
        return any_value(data)
    code, body, rest = body_of(data)
    if kind in NUMBERS and code in NUMBERS[kind]:
        return int.from_bytes(body, "big"), rest
    if kind in BYTES and code in BYTES[kind]:
        return body, rest
    if kind == "boolean" and code in (0x41, 0x42, 0x56):
        return code == 0x41 or body == b"\1", rest
    if kind == "ubyte" and code == 0x50:
        return body[0], rest
    raise RefusedError(DECODE)


def composite(name: str, data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the fields of a list, and the rest."""
    code, body, rest = body_of(data)
    if code not in (0x45, 0xC0, 0xD0):
        raise RefusedError(DECODE)
    count, body = cut(body, LEAST.get(code, 0))
    left, found = int.from_bytes(count, "big"), {}
    for key, kind in FIELDS[name]:
        there = left > 0
        left -= there
        if there and body[:1] != b"\x40":
            found[key], body = field(kind, body)
            nested(name, key, found)
            continue
        body = body[there:]
        if key in MANDATORY.get(name, ()):
            raise RefusedError(INVALID)
    if left or body:
        raise RefusedError(DECODE)
    return found, rest


def nested(name: str, key: str, found: dict[str, Any]) -> None:
    """Read the fields of a state that are composites themselves."""
    if (name, key) == ("rejected", "error"):
        kind, rest = descriptor(found[key])
        if kind != "error":
            raise RefusedError(DECODE)
        found[key] = composite("error", rest)[0]
    elif (name, key) == ("transactional_state", "outcome"):
        kind, _ = descriptor(found[key])
        if kind != "unknown" and kind not in STATES - {"received", "transactional_state"}:
            raise RefusedError(DECODE)
        found[key] = state(found[key])


def state(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the name and the fields of a delivery state."""
    name, rest = descriptor(data)
    if name == "unknown":
        any_value(rest)
        return name, {}
    if name not in STATES:
        raise RefusedError(DECODE)
    return name, composite(name, rest)[0]


def head(data: bytes, max_frame_size: int) -> Head | None:
    """Return a frame's header and descriptor; None while it is incomplete."""
    if len(data) < 8:
        return None
    size, offset, kind, channel = struct.unpack(">IBBH", data[:8])
    if not 8 <= size <= max_frame_size or not 8 <= offset * 4 <= size:
        raise RefusedError(FRAMING)
    if size > len(data):
        return None
    body = data[offset * 4 : size]
    if kind:
        return Head(size, 0, "control")
    if not body:
        return Head(size, channel, "empty")
    try:
        name = descriptor(body)[0]
    except RefusedError:
        name = "control"
    return Head(size, channel, name if name in KINDS else "control")


def performative(name: str, data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the fields of a whole frame's performative, and its payload."""
    found, payload = composite(name, descriptor(data[data[4] * 4 :])[1])
    if name != "transfer" and payload:
        raise RefusedError(DECODE)
    if name == "transfer" and (
        len(found.get("delivery_tag", b"")) > 32 or found.get("rcv_settle_mode", 0) > 1
    ):
        raise RefusedError(INVALID)
    link = {"delivery_count", "link_credit", "available"} & found.keys()
    if name == "flow" and "handle" not in found and (link or found.get("drain")):
        raise RefusedError(INVALID)
    if name == "disposition" and "state" in found:
        found["state"] = state(found["state"])
    return found, payload
