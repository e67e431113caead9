"""The contents of a message's sections: decoded and of their types, or *rejected* (part 3.2)."""

from __future__ import annotations

import pytest
from support.sections import CHUNK, annotations_of, halves, nulls, outcome, properties, sender
from support.server import Server

from quiver_fast.conform.wire.frames import message

DATA = message(b"data")


def raw(code: int, constructor: int, count: int, items: bytes) -> bytes:
    """Return a section of a narrow list or map, well-formed or not."""
    return bytes([0, 0x53, code, constructor, len(items) + 1, count]) + items


def mapped(code: int, *items: bytes) -> bytes:
    return raw(code, 0xC1, len(items), b"".join(items))


NULL, KEY, TEXT, NUMBER = b"\x40", b"\xa3\x01k", b"\xa1\x01t", b"\x52\x07"
LIST, MAP, ARRAY = b"\xc0\x02\x01\x40", b"\xc1\x03\x02\x40\x40", b"\xe0\x03\x01\x50\x07"
NESTED = b"\xc0\x06\x01\xc1\x03\x02\x40\x40"
DESCRIBED = b"\x00\xa3\x01d\x52\x07"
KINDS = {
    "string": TEXT, "symbol": KEY, "binary": b"\xa0\x01b", "ulong": b"\x53\x07", "ulong of 8": (
        b"\x80" + bytes(8)
    ), "ulong 0": b"\x44", "uuid": b"\x98" + bytes(16), "timestamp": b"\x83" + bytes(8),
    "uint": NUMBER, "uint of 4": b"\x70" + bytes(4), "uint 0": b"\x43", "boolean": b"\x56\x01",
    "long": b"\x55\x01", "list": LIST, "empty list": b"\x45", "map": MAP, "array": ARRAY,
    "described": DESCRIBED, "null": NULL,
}  # fmt: skip
IDS = {"string", "binary", "ulong", "ulong of 8", "ulong 0", "uuid"}
# The kinds of each field of properties (part 3.2.4), besides null.
FIELDS = [
    IDS, {"binary"}, {"string"}, {"string"}, {"string"}, IDS, {"symbol"}, {"symbol"},
    {"timestamp"}, {"timestamp"}, {"string"}, {"uint", "uint of 4", "uint 0"}, {"string"},
]  # fmt: skip
SIMPLE = set(KINDS) - {"list", "empty list", "map", "array"}


def is_of(found: str, kinds: set[str]) -> bool:
    """A described value counts as its value, here a uint."""
    return found == "null" or (("uint" if found == "described" else found) in kinds)


CONTENTS: dict[str, tuple[bytes, bool]] = {
    **{
        f"{name} in field {field}": (
            raw(0x73, 0xC0, field + 1, NULL * field + value),
            is_of(name, kinds),
        )
        for field, kinds in enumerate(FIELDS)
        # One that expires does not come.
        for name, value in KINDS.items()
        if (field, name) != (8, "timestamp")
    },
    "all fields": (properties(*nulls(13)), True),
    "a field too many": (properties(*nulls(14)), False),
    "fewer fields than the count": (raw(0x73, 0xC0, 3, NULL * 2), False),
    "more fields than the count": (raw(0x73, 0xC0, 1, NULL * 2), False),
    "a field beyond the list": (raw(0x73, 0xC0, 1, b"\xa1\x05ab"), False),
    "a count of none": (raw(0x73, 0xC0, 0, b""), True),
    "a count of none, and a field": (raw(0x73, 0xC0, 0, NULL), False),
    "a constructor that is none": (raw(0x73, 0xC0, 1, b"\x10"), False),
    "only a constructor": (raw(0x73, 0xC0, 1, b"\x53"), False),
    "a header of six fields": (raw(0x70, 0xC0, 6, NULL * 6), False),
    "a header with a rest": (raw(0x70, 0xC0, 1, NULL * 2), False),
}
for CODE, NAME in ((0x71, "delivery annotations"), (0x72, "annotations"), (0x78, "footer")):
    for KIND, VALUE_OF in KINDS.items():
        CONTENTS |= {
            f"{NAME} with the key {KIND}": (
                mapped(CODE, VALUE_OF, TEXT), KIND in {"symbol", "ulong", "ulong of 8", "ulong 0"}
            ),
            f"{NAME} with the value {KIND}": (mapped(CODE, KEY, VALUE_OF), True),
        }  # fmt: skip
for KIND, VALUE_OF in KINDS.items():
    CONTENTS |= {
        f"application properties with the key {KIND}": (
            mapped(0x74, VALUE_OF, TEXT), KIND == "string"
        ),
        f"application properties with the value {KIND}": (
            mapped(0x74, TEXT, VALUE_OF), KIND in SIMPLE
        ),
    }  # fmt: skip
INSIDE = {
    "a list without an item": (b"\xc0\x01\x01", False),
    "a list with a rest": (b"\xc0\x02\x00\x40", False),
    "a list of a list": (NESTED, True),
    "a list of a broken list": (b"\xc0\x05\x01\xc0\x02\x02\x40", False),
    "an odd map": (b"\xc1\x02\x01\x40", False),
    "a map that is too short": (b"\xc1\x02\x02\x40", False),
    "an item beyond its list": (b"\xc0\x03\x01\xa1\x02a", False),
    "an array of strings": (b"\xe0\x06\x02\xa1\x01a\x01b", True),
    "an array of strings that is too short": (b"\xe0\x05\x02\xa1\x01a\x01", False),
    "an array of numbers with a rest": (b"\xe0\x04\x01\x50\x07\x07", False),
    "an array of nulls": (b"\xe0\x02\xff\x40", True),
    "an array of no constructor": (b"\xe0\x03\x01\x10\x07", False),
    "an array of lists": (b"\xe0\x07\x02\xc0\x02\x01\x40\x01\x00", True),
    "an array of broken lists": (b"\xe0\x06\x01\xc0\x02\x02\x40", False),
    "an array of described numbers": (b"\xe0\x08\x02\x00\xa3\x01d\x50\x07\x07", True),
    "an array of wide numbers": (b"\xf0\x00\x00\x00\x07\x00\x00\x00\x02\x50\x07\x07", True),
    "a descriptor without a value": (b"\x00\xa3\x01d", False),
    "a described list that is broken": (b"\x00\xa3\x01d\xc0\x01\x01", False),
    "values within values": (b"\x00\x40" * 40 + NULL, True),
    "too many values within values": (b"\x00\x40" * 100 + NULL, False),
}
for CODE in (0x71, 0x72, 0x78):
    for KIND, (VALUE_OF, GOOD) in INSIDE.items():
        CONTENTS[f"{KIND} in {CODE:x}"] = (mapped(CODE, KEY, VALUE_OF), GOOD)


def with_content(content: bytes) -> bytes:
    """Return a message with a section that is in its place."""
    return DATA + content if content[2] == 0x78 else content + DATA


@pytest.mark.parametrize("way", ["at once", "twice", "in two frames", "across chunks"])
def test_contents_of_sections(server: Server, address: str, way: str) -> None:
    """A message whose sections cannot be decoded, or hold other types, is *rejected*."""
    number = 0
    with sender(server.port, address) as client:
        for name, (content, good) in CONTENTS.items():
            payload = with_content(content)
            if way == "across chunks" and content[2] <= 0x72:
                # Only what follows annotations lies in two chunks.
                continue
            if way == "across chunks":
                payload = (
                    annotations_of(CHUNK - payload.index(content) - len(content) + 2) + payload
                )
            if way == "twice":
                client.transfer(number, with_content(content))
                outcome(client)
                number += 1
            parts = [payload] if way in ("at once", "twice") else halves(payload)
            for part in parts:
                client.transfer(number, part, more=part is not parts[-1])
            number += 1
            assert outcome(client) == ("accepted" if good else "rejected"), name


@pytest.mark.parametrize("frames", [1, 2])
def test_contents_change_a_byte(server: Server, address: str, frames: int) -> None:
    """Whole messages are compared with the one before: each byte that decides is one of these."""
    good = b"".join((
        mapped(0x72, KEY, NESTED, KEY, DESCRIBED, KEY, b"\xe0\x06\x02\xa1\x01a\x01b"),
        raw(0x73, 0xC0, 3, b"\x53\x07\xa0\x01b" + TEXT),
        mapped(0x74, TEXT, b"\x56\x01"), message(b"ten letters"),
    ))  # fmt: skip
    others = [
        good[:place] + bytes([value]) + good[place + 1 :]
        for place, old in enumerate(good)
        for value in {0x00, 0xFF, old ^ 1, (old + 16) % 256, 0x40} - {old}
    ]
    with sender(server.port, address) as client:
        outcomes = []
        for number, payload in enumerate(others):
            client.transfer(2 * number, good)
            assert outcome(client) == "accepted"
            parts = [payload] if frames == 1 else halves(payload)
            for part in parts:
                client.transfer(2 * number + 1, part, more=part is not parts[-1])
            outcomes.append(outcome(client))
    assert "rejected" in outcomes
    with sender(server.port, f"{address}-alone") as client:
        for number, (payload, found) in enumerate(zip(others, outcomes, strict=True)):
            # One of another length before it, so that nothing is compared.
            client.transfer(2 * number, good + DATA)
            assert outcome(client) == "accepted"
            client.transfer(2 * number + 1, payload)
            assert outcome(client) == found, (number, payload)
