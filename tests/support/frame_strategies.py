"""Every legal encoding of the data plane's performatives, at random (parts 1.6 and 2.7)."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from quiver_fast.conform.wire.frames import COMPOSITES, FIELDS

MAX = 2**32 - 1
EDGES = [0, 1, 127, 128, 255, 256, 2**31 - 1, 2**31, MAX - 1, MAX]
uints = st.sampled_from(EDGES) | st.integers(0, MAX)
ulongs = st.sampled_from([*EDGES, 2**32, 2**64 - 1]) | st.integers(0, 2**64 - 1)
# Values of types that a performative has only in maps.
OTHERS = [
    b"\x40",
    b"\x55\xff",
    b"\x98" + bytes(16),
    b"\xc1\x01\x00",
    b"\xd1\0\0\0\4\0\0\0\0",
    b"\xe0\x04\x02\x50\x01\x02",
    b"\x45",
    b"\xa1\x02hi",
    b"\x00\x00\x53\x01\x43\x44",
]


def sized(narrow: int, body: bytes, wide: bool) -> bytes:
    if wide or len(body) > 255:
        return bytes([narrow + 0x10]) + struct.pack(">I", len(body)) + body
    return bytes([narrow, len(body)]) + body


@st.composite
def encoded(draw: st.DrawFn, kind: str, value: Any) -> bytes:
    """Return one of the encodings of a value."""
    if kind == "boolean":
        return draw(st.sampled_from([b"\x41", b"\x56\1"] if value else [b"\x42", b"\x56\0"]))
    if kind == "ubyte":
        return bytes([0x50, value])
    if kind == "uint":
        forms = [struct.pack(">BI", 0x70, value)]
        zero, small = 0x43, 0x52
    elif kind == "ulong":
        forms = [struct.pack(">BQ", 0x80, value)]
        zero, small = 0x44, 0x53
    else:
        narrow = {"binary": 0xA0, "string": 0xA1, "symbol": 0xA3}[kind]
        return sized(narrow, value, draw(st.booleans()))
    forms += [bytes([small, value])] if value < 256 else []
    forms += [bytes([zero])] if value == 0 else []
    return draw(st.sampled_from(forms))


@st.composite
def described(draw: st.DrawFn, name: str, fields: list[bytes]) -> bytes:
    """Return a composite: a descriptor of any form, and a list of any width."""
    symbol = f"amqp:{name.replace('_', '-')}:list".encode()
    number = encoded("ulong", COMPOSITES[name][0])
    descriptor = draw(number | encoded("symbol", symbol))
    while fields and fields[-1] == b"\x40" and draw(st.booleans()):
        fields = fields[:-1]
    body = b"".join(fields)
    forms = [b"\xd0" + struct.pack(">II", len(body) + 4, len(fields)) + body]
    if len(body) < 255:
        forms.append(bytes([0xC0, len(body) + 1, len(fields)]) + body)
    if not fields:
        forms.append(b"\x45")
    return b"\0" + descriptor + draw(st.sampled_from(forms))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "uint": uints,
    "ulong": ulongs,
    "boolean": st.booleans(),
    "ubyte": st.integers(0, 1),
    "binary": st.binary(max_size=32),
    "symbol": st.binary(max_size=300),
    "string": st.binary(max_size=300),
}
NEEDED = {
    "flow": ["incoming_window", "next_outgoing_id", "outgoing_window"],
    "transfer": ["handle"],
    "disposition": ["role", "first"],
    "received": ["section_number", "section_offset"],
    "declared": ["txn_id"],
    "transactional_state": ["txn_id"],
    "error": ["condition"],
}
LINK = {"delivery_count", "link_credit", "available", "drain"}


@st.composite
def composites(draw: st.DrawFn, name: str) -> tuple[bytes, dict[str, Any]]:
    """Return a composite, and its fields as values."""
    needed = NEEDED.get(name, [])
    keys = [key for key, _ in FIELDS[name] if key in needed or draw(st.booleans())]
    if name == "flow" and "handle" not in keys:
        keys = [key for key in keys if key not in LINK]
    values: dict[str, Any] = {}
    fields = []
    for key, kind in FIELDS[name]:
        if key not in keys:
            fields.append(b"\x40")
        elif kind == "any":
            data, value = draw(nested(name, key))
            fields.append(data)
            values |= {} if value is None else {key: value}
        else:
            values[key] = draw(VALUES[kind])
            fields.append(draw(encoded(kind, values[key])))
    return draw(described(name, fields)), values


def nested(name: str, key: str) -> st.SearchStrategy[tuple[bytes, Any]]:
    """Return values of a field whose type is not one of the simple ones."""
    if key == "state":
        chosen = states()
        # A transfer's state stays encoded.
        return chosen.map(lambda pair: (pair[0], pair[0])) if name == "transfer" else chosen
    if (name, key) == ("transactional_state", "outcome"):
        return states(st.sampled_from(["accepted", "rejected", "released", "modified"]))
    if (name, key) == ("rejected", "error"):
        return composites("error")
    return st.sampled_from(OTHERS).map(lambda data: (data, None))


NAMES = ["received", "accepted", "rejected", "released", "modified", "declared",
         "transactional_state"]  # fmt: skip


@st.composite
def states(
    draw: st.DrawFn, names: st.SearchStrategy[str] | None = None
) -> tuple[bytes, tuple[str, dict[str, Any]]]:
    """Return a delivery state, and its name and fields."""
    if names is None and draw(st.integers(0, 9)) == 0:
        strange = st.sampled_from([b"\x53\x77", b"\x80" + b"\xff" * 8, b"\xa3\1x", b"\x41"])
        return b"\0" + draw(strange) + draw(st.sampled_from(OTHERS)), ("unknown", {})
    name = draw(st.sampled_from(NAMES) if names is None else names)
    data, fields = draw(composites(name))
    return data, (name, fields)


def framed(body: bytes, channel: int = 0, extended: bytes = b"") -> bytes:
    """Return a frame, with an extended header of whole words (part 2.3.1)."""
    size = 8 + len(extended) + len(body)
    return struct.pack(">IBBH", size, 2 + len(extended) // 4, 0, channel) + extended + body


@st.composite
def frames(draw: st.DrawFn, name: str) -> tuple[bytes, dict[str, Any], bytes]:
    """Return a frame, its fields and its payload."""
    data, fields = draw(composites(name))
    payload = draw(st.binary(max_size=100)) if name == "transfer" else b""
    extended = bytes(4 * draw(st.sampled_from([0, 0, 0, 1, 3])))
    channel = draw(st.integers(0, 65535))
    return framed(data + payload, channel, extended), fields, payload


@st.composite
def any_frames(draw: st.DrawFn, name: str) -> bytes:
    """Return a frame that may be damaged: cut, with other bytes, or with a wrong size."""
    data = draw(frames(name))[0]
    body = bytearray(data[data[4] * 4 :])
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, max(len(body) - 1, 0)))
        if body:
            interesting = [0, 0x40, 0x43, 0x45, 0x52, 0x56, 0x70, 0xA0, 0xB0, 0xC0, 0xD0, 0xFF]
            body[place] = draw(st.sampled_from(interesting) | st.integers(0, 255))
    if draw(st.booleans()):
        del body[draw(st.integers(0, len(body))) :]
    return framed(bytes(body))
