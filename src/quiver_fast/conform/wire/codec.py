"""AMQP 1.0 types as bytes (part 1): an obvious codec of our own.

A value is a pair of its type's name and a plain Python value, so that no type is
guessed: ``Value("uint", 3)``. Compound types hold values:

    list        tuple of values
    map         tuple of (key, value) pairs
    array       (name of the elements' type, tuple of values of that type)
    described   (descriptor, value)
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple


class CodecError(Exception):
    """The bytes are not an AMQP value."""


class Value(NamedTuple):
    """One value with its AMQP type."""

    kind: str
    value: Any


# Constructor and layout of each type's widest form; arrays use no other.
FIXED = {
    "boolean": (0x56, "?"),
    "ubyte": (0x50, "B"),
    "ushort": (0x60, "H"),
    "uint": (0x70, "I"),
    "ulong": (0x80, "Q"),
    "byte": (0x51, "b"),
    "short": (0x61, "h"),
    "int": (0x71, "i"),
    "long": (0x81, "q"),
    "float": (0x72, "f"),
    "double": (0x82, "d"),
    "decimal32": (0x74, "4s"),
    "decimal64": (0x84, "8s"),
    "decimal128": (0x94, "16s"),
    "char": (0x73, "I"),
    "timestamp": (0x83, "q"),
    "uuid": (0x98, "16s"),
}
# Short forms: constructor, layout, least and most that fit.
SMALL = {
    "uint": (0x52, "B", 0, 255),
    "ulong": (0x53, "B", 0, 255),
    "int": (0x54, "b", -128, 127),
    "long": (0x55, "b", -128, 127),
}
CONSTANTS = {
    0x40: Value("null", None),
    0x41: Value("boolean", True),
    0x42: Value("boolean", False),
    0x43: Value("uint", 0),
    0x44: Value("ulong", 0),
    0x45: Value("list", ()),
}
# Constructors of up to 255 bytes, and of more.
VARIABLE = {"binary": (0xA0, 0xB0), "string": (0xA1, 0xB1), "symbol": (0xA3, 0xB3)}
COMPOUND = {"list": (0xC0, 0xD0), "map": (0xC1, 0xD1), "array": (0xE0, 0xF0)}
DESCRIBED = 0x00
# Nobody nests values so deep, and Python could not follow much deeper ones.
_DEPTH_MAX = 100

CHARSETS = {"string": "utf-8", "symbol": "ascii"}

# By constructor.
FIXED_FORMS = {code: (kind, layout) for kind, (code, layout) in FIXED.items()}
FIXED_FORMS |= {code: (kind, layout) for kind, (code, layout, _, _) in SMALL.items()}
SIZED_FORMS = {
    code: (kind, layout)
    for kind, codes in (VARIABLE | COMPOUND).items()
    for code, layout in zip(codes, (">B", ">I"), strict=True)
}


def symbols(*names: str) -> Value:
    """Return an array of symbols."""
    return Value("array", ("symbol", tuple(Value("symbol", name) for name in names)))


def encode(value: Value, *, wide: bool = False) -> bytes:
    """Return a value's shortest encoding, or its longest."""
    kind, plain = value
    for code, constant in CONSTANTS.items():
        # Booleans equal numbers in Python: the type must be the same too.
        if (kind, plain) == constant and type(plain) is type(constant.value) and (
            kind == "null" or not wide
        ):  # fmt: skip
            return bytes([code])
    if kind == "described":
        descriptor, inner = plain
        return bytes([DESCRIBED]) + encode(descriptor, wide=wide) + encode(inner, wide=wide)
    if not wide and kind in SMALL and SMALL[kind][2] <= plain <= SMALL[kind][3]:
        code, layout, _, _ = SMALL[kind]
        return struct.pack(">B" + layout, code, plain)
    if kind in FIXED:
        return bytes([FIXED[kind][0]]) + _body(value)
    # The count of a compound value has the width of its size.
    for code, layout in [*zip((VARIABLE | COMPOUND)[kind], "BI", strict=True)][wide:]:
        body = _sized_body(value, layout, wide=wide)
        if body is not None:
            return bytes([code]) + body
    raise CodecError(f"too large: {kind}")


def _sized_body(value: Value, layout: str, *, wide: bool = False) -> bytes | None:
    """Return size, count if any, and content; None if they do not fit the layout."""
    kind, plain = value
    content: bytes
    if kind in VARIABLE:
        count, content = b"", plain if kind == "binary" else plain.encode(CHARSETS[kind])
    else:
        number, content = _items(value, wide)
        if layout == "B" and number > 255:
            return None
        count = struct.pack(">" + layout, number)
    size = len(count) + len(content)
    if layout == "B" and size > 255:
        return None
    return struct.pack(">" + layout, size) + count + content


def _items(value: Value, wide: bool) -> tuple[int, bytes]:
    kind, plain = value
    if kind != "array":
        flat = plain if kind == "list" else [each for pair in plain for each in pair]
        return len(flat), b"".join(encode(each, wide=wide) for each in flat)
    element, values = plain
    code = FIXED[element][0] if element in FIXED else (VARIABLE | COMPOUND)[element][1]
    return len(values), bytes([code]) + b"".join(map(_body, values))


def _body(value: Value) -> bytes:
    """Return a value's widest form without its constructor, for arrays."""
    kind, plain = value
    if kind in FIXED:
        return struct.pack(">" + FIXED[kind][1], ord(plain) if kind == "char" else plain)
    body = _sized_body(value, "I")
    if body is None:
        raise CodecError(f"too large: {kind}")
    return body


class _Reader:
    """A position in bytes."""

    def __init__(self, data: bytes, depth: int = 0) -> None:
        self.data, self.offset, self.depth = data, 0, depth

    def take(self, size: int) -> bytes:
        part = self.data[self.offset : self.offset + size]
        if len(part) < size:
            raise CodecError(f"{size} bytes wanted at {self.offset}, {len(part)} there")
        self.offset += size
        return part

    def unpack(self, layout: str) -> Any:
        return struct.unpack(">" + layout, self.take(struct.calcsize(">" + layout)))[0]

    def value(self) -> Value:
        code = self.unpack("B")
        if code != DESCRIBED:
            return self.body(code)
        self.deepen()
        descriptor = self.value()
        found = Value("described", (descriptor, self.value()))
        self.depth -= 1
        return found

    def deepen(self) -> None:
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise CodecError(f"values that are nested deeper than {_DEPTH_MAX}")

    def body(self, code: int) -> Value:
        """Read the value after a constructor."""
        if code in CONSTANTS:
            return CONSTANTS[code]
        if code in FIXED_FORMS:
            kind, layout = FIXED_FORMS[code]
            plain = self.unpack(layout)
            return Value(kind, chr(plain) if kind == "char" else plain)
        if code not in SIZED_FORMS:
            raise CodecError(f"unknown constructor {code:#04x}")
        kind, layout = SIZED_FORMS[code]
        content = self.take(self.unpack(layout[1]))
        if kind in VARIABLE:
            return Value(kind, content if kind == "binary" else content.decode(CHARSETS[kind]))
        return _Reader(content, self.depth).compound(kind, layout[1])

    def compound(self, kind: str, layout: str) -> Value:
        self.deepen()
        count = self.unpack(layout)
        if count > len(self.data):
            # Legal for arrays of a constant only, which nobody sends.
            raise CodecError(f"{count} values in {len(self.data)} bytes")
        if kind == "array":
            code = self.unpack("B")
            values = tuple(self.body(code) for _ in range(count))
            element = (CONSTANTS.get(code) or (FIXED_FORMS | SIZED_FORMS)[code])[0]
            plain: Any = (element, values)
        else:
            flat = tuple(self.value() for _ in range(count))
            plain = flat if kind == "list" else tuple(zip(flat[::2], flat[1::2], strict=True))
        if self.offset != len(self.data):
            raise CodecError(f"{len(self.data) - self.offset} bytes left in a {kind}")
        return Value(kind, plain)


def decode(data: bytes) -> tuple[Value, bytes]:
    """Return the value at the beginning of ``data``, and the rest.

    Raises:
        CodecError: There is none.
    """
    reader = _Reader(data)
    try:
        value = reader.value()
    except (ValueError, OverflowError, KeyError) as error:
        raise CodecError(str(error)) from None
    return value, data[reader.offset :]


def decode_all(data: bytes) -> list[Value]:
    """Return all values in ``data``, such as the sections of a message."""
    values = []
    while data:
        value, data = decode(data)
        values.append(value)
    return values
