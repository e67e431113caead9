"""AMQP 1.0 messages built section by section, as differently as the standard allows.

A receiver must take a body as binary data, AMQP string or AMQP value, and find
`SendTime` among any application properties, whatever sections stand around
them (AMQP 1.0 part 3, section 3.2). proton's own Message always writes the
same layout, so these are put together here from `proton.Data`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

from proton import (
    Data,
    Described,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

HEADER = 0x70
DELIVERY_ANNOTATIONS = 0x71
MESSAGE_ANNOTATIONS = 0x72
PROPERTIES = 0x73
APPLICATION_PROPERTIES = 0x74
DATA = 0x75
VALUE = 0x77
FOOTER = 0x78

# Every primitive type that application properties may hold (part 3, 3.2.5),
# with the values at which encodings change their width.
EVERY_PRIMITIVE: dict[str, object] = {
    "a-null": None,
    "a-true": True,
    "a-false": False,
    "a-ubyte": ubyte(255),
    "a-ushort": ushort(65535),
    "a-uint-0": uint(0),
    "a-uint-small": uint(255),
    "a-uint": uint(0xFFFFFFFF),
    "a-ulong-0": ulong(0),
    "a-ulong-small": ulong(255),
    "a-ulong": ulong(0xFFFFFFFFFFFFFFFF),
    "a-byte": byte(-128),
    "a-short": short(-32768),
    "an-int-small": int32(-128),
    "an-int": int32(-(2**31)),
    "a-long-small": 127,
    "a-long": -(2**63),
    "a-float": float32(1.5),
    "a-double": -2.5,
    "a-decimal32": decimal32(0x30000001),
    "a-decimal64": decimal64(0x3000000000000001),
    "a-decimal128": decimal128(bytes(range(16))),
    "a-char": char("\N{RIGHTWARDS ARROW}"),
    "a-timestamp": timestamp(1472344673324),
    "a-uuid": uuid.UUID(int=7),
    "a-binary": b"SendTime",
    "a-long-binary": bytes(300),
    "a-string": "SendTime",
    "a-long-string": "SendTime" * 64,
    "a-symbol": symbol("SendTime"),
    # Near misses of the one name that counts.
    "SendTim": 1,
    "SendTime2": 2,
    "sendtime": 3,
    "": 4,
}


def encode(value: object) -> bytes:
    """Return the AMQP encoding of one Python value, in proton's types."""
    data = Data()
    data.put_object(value)
    encoded: bytes = data.encode()
    return encoded


def section(code: int, value: Any) -> bytes:
    """Return one message section: its descriptor and its value."""
    return encode(Described(ulong(code), value))


def properties_section(identifier: str) -> bytes:
    """Return the immutable properties, with more than the message id in them."""
    fields = [identifier, b"user", "to-address", "subject", "reply-to", ulong(9)]
    return section(PROPERTIES, fields)


def bare(identifier: str, sent: int, body: bytes) -> bytes:
    """Return the least message the contract allows, apart from its id."""
    return b"".join(
        (
            section(PROPERTIES, [identifier]),
            section(APPLICATION_PROPERTIES, {"SendTime": sent}),
            section(DATA, body),
        )
    )


def string_body(identifier: str, sent: int, body: bytes) -> bytes:
    """As qpid-jms and rhea send a text: an amqp-value holding a string."""
    return b"".join(
        (
            section(PROPERTIES, [identifier]),
            section(APPLICATION_PROPERTIES, {"SendTime": sent}),
            section(VALUE, body.decode("ascii")),
        )
    )


def binary_value_body(identifier: str, sent: int, body: bytes) -> bytes:
    """As python-qpid-proton sends bytes by default: an amqp-value holding binary."""
    return b"".join(
        (
            section(PROPERTIES, [identifier]),
            section(APPLICATION_PROPERTIES, {"SendTime": sent}),
            section(VALUE, body),
        )
    )


def many_data_sections(identifier: str, sent: int, body: bytes) -> bytes:
    """Split the body over three data sections, the last one empty."""
    half = len(body) // 2
    return b"".join(
        (
            section(PROPERTIES, [identifier]),
            section(APPLICATION_PROPERTIES, {"SendTime": sent}),
            section(DATA, body[:half]),
            section(DATA, body[half:]),
            section(DATA, b""),
        )
    )


def _among(identifier: str, application: dict[str, object], body: bytes) -> bytes:
    return b"".join(
        (
            section(HEADER, [True, ubyte(7), uint(60000), True, uint(3)]),
            section(DELIVERY_ANNOTATIONS, {symbol("x-opt-trace"): ["a", "b"]}),
            section(MESSAGE_ANNOTATIONS, {symbol("x-opt-nest"): {"SendTime": 1}}),
            properties_section(identifier),
            section(APPLICATION_PROPERTIES, application),
            section(DATA, body),
            section(FOOTER, {symbol("x-opt-checksum"): ulong(1)}),
        )
    )


def every_section_time_last(identifier: str, sent: int, body: bytes) -> bytes:
    """All seven sections; SendTime after every other property."""
    return _among(identifier, {**EVERY_PRIMITIVE, "SendTime": sent}, body)


def every_section_time_first(identifier: str, sent: int, body: bytes) -> bytes:
    """All seven sections; SendTime before every other property."""
    return _among(identifier, {"SendTime": sent, **EVERY_PRIMITIVE}, body)


def every_section_time_amid(identifier: str, sent: int, body: bytes) -> bytes:
    """All seven sections; SendTime between other properties."""
    names = list(EVERY_PRIMITIVE)
    before = {name: EVERY_PRIMITIVE[name] for name in names[: len(names) // 2]}
    after = {name: EVERY_PRIMITIVE[name] for name in names[len(names) // 2 :]}
    return _among(identifier, {**before, "SendTime": sent, **after}, body)


def _wide_string(text: str) -> bytes:
    raw = text.encode("utf-8")
    return b"\xb1" + struct.pack(">I", len(raw)) + raw


def _wide_descriptor(code: int) -> bytes:
    return b"\x00\x80" + struct.pack(">Q", code)


def widest_encodings(identifier: str, sent: int, body: bytes) -> bytes:
    """Choose the widest encoding of everything (list32, map32, str32, vbin32, ulong)."""
    fields = _wide_string(identifier)
    pairs = _wide_string("SendTime") + b"\x81" + struct.pack(">q", sent)
    return b"".join(
        (
            _wide_descriptor(PROPERTIES) + b"\xd0" + struct.pack(">II", len(fields) + 4, 1),
            fields,
            _wide_descriptor(APPLICATION_PROPERTIES),
            b"\xd1" + struct.pack(">II", len(pairs) + 4, 2) + pairs,
            _wide_descriptor(DATA) + b"\xb0" + struct.pack(">I", len(body)) + body,
        )
    )


def symbolic_descriptors(identifier: str, sent: int, body: bytes) -> bytes:
    """Describe sections by symbol, which the standard allows beside the numbers."""
    return b"".join(
        (
            encode(Described(symbol("amqp:properties:list"), [identifier])),
            encode(Described(symbol("amqp:application-properties:map"), {"SendTime": sent})),
            encode(Described(symbol("amqp:data:binary"), body)),
        )
    )


def ulong_message_id(identifier: str, sent: int, body: bytes) -> bytes:
    """Carry a message id that is not a string: an unsigned long."""
    return b"".join(
        (
            section(PROPERTIES, [ulong(int(identifier.rsplit("-", 1)[-1]))]),
            section(APPLICATION_PROPERTIES, {"SendTime": sent}),
            section(DATA, body),
        )
    )


def no_send_time(identifier: str, _sent: int, body: bytes) -> bytes:
    """Leave SendTime out among other properties: an error at the receiver."""
    return b"".join(
        (
            section(PROPERTIES, [identifier]),
            section(APPLICATION_PROPERTIES, dict(EVERY_PRIMITIVE)),
            section(DATA, body),
        )
    )


def no_application_properties(identifier: str, _sent: int, body: bytes) -> bytes:
    """Leave the whole section out: an error at the receiver."""
    return section(PROPERTIES, [identifier]) + section(DATA, body)


def text_send_time(identifier: str, sent: int, body: bytes) -> bytes:
    """Send SendTime as a string, which the contract does not allow."""
    return b"".join(
        (
            section(PROPERTIES, [identifier]),
            section(APPLICATION_PROPERTIES, {"SendTime": str(sent)}),
            section(DATA, body),
        )
    )


def truncated(identifier: str, sent: int, body: bytes) -> bytes:
    """End inside the application properties: not a message at all."""
    whole = bare(identifier, sent, body)
    return whole[: whole.index(b"SendTime") + 4]


MessageMaker = Callable[[str, int, bytes], bytes]

GOOD: dict[str, MessageMaker] = {
    "bare": bare,
    "string-body": string_body,
    "binary-value-body": binary_value_body,
    "many-data-sections": many_data_sections,
    "every-section-time-last": every_section_time_last,
    "every-section-time-first": every_section_time_first,
    "every-section-time-amid": every_section_time_amid,
    "widest-encodings": widest_encodings,
    "symbolic-descriptors": symbolic_descriptors,
    "ulong-message-id": ulong_message_id,
}

BAD: dict[str, MessageMaker] = {
    "no-send-time": no_send_time,
    "no-application-properties": no_application_properties,
    "text-send-time": text_send_time,
    "truncated": truncated,
}
