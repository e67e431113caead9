"""AMQP 1.0 frames by hand (parts 2 and 5).

Well-formed frames are made by name from the specification's own field names with
``_`` for ``-``; a field that is a `Value` is sent as that type. Malformed frames are
sent as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from quiver_fast.conform.wire.codec import CodecError, Value, decode, encode, symbols

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
# Frame types: parts 2.3.1 and 5.3.1.
AMQP, SASL = 0, 1

CAPABILITIES = "offered_capabilities:symbols desired_capabilities:symbols properties:any"
# name: (descriptor, fields in order as name:type)
COMPOSITES: dict[str, tuple[int, str]] = {
    "open": (
        0x10,
        "container_id:string hostname:string max_frame_size:uint channel_max:ushort "
        "idle_time_out:uint outgoing_locales:symbols incoming_locales:symbols " + CAPABILITIES,
    ),
    "begin": (
        0x11,
        "remote_channel:ushort next_outgoing_id:uint incoming_window:uint outgoing_window:uint "
        "handle_max:uint " + CAPABILITIES,
    ),
    "attach": (
        0x12,
        "name:string handle:uint role:boolean snd_settle_mode:ubyte rcv_settle_mode:ubyte "
        "source:any target:any unsettled:any incomplete_unsettled:boolean "
        "initial_delivery_count:uint max_message_size:ulong " + CAPABILITIES,
    ),
    "flow": (
        0x13,
        "next_incoming_id:uint incoming_window:uint next_outgoing_id:uint outgoing_window:uint "
        "handle:uint delivery_count:uint link_credit:uint available:uint drain:boolean "
        "echo:boolean properties:any",
    ),
    "transfer": (
        0x14,
        "handle:uint delivery_id:uint delivery_tag:binary message_format:uint settled:boolean "
        "more:boolean rcv_settle_mode:ubyte state:any resume:boolean aborted:boolean "
        "batchable:boolean",
    ),
    "disposition": (
        0x15,
        "role:boolean first:uint last:uint settled:boolean state:any batchable:boolean",
    ),
    "detach": (0x16, "handle:uint closed:boolean error:any"),
    "end": (0x17, "error:any"),
    "close": (0x18, "error:any"),
    "error": (0x1D, "condition:symbol description:string info:any"),
    "received": (0x23, "section_number:uint section_offset:ulong"),
    "accepted": (0x24, ""),
    "rejected": (0x25, "error:any"),
    "released": (0x26, ""),
    "modified": (0x27, "delivery_failed:boolean undeliverable_here:boolean annotations:any"),
    "source": (
        0x28,
        "address:any durable:uint expiry_policy:symbol timeout:uint dynamic:boolean "
        "dynamic_node_properties:any distribution_mode:symbol filter:any default_outcome:any "
        "outcomes:symbols capabilities:symbols",
    ),
    "target": (
        0x29,
        "address:any durable:uint expiry_policy:symbol timeout:uint dynamic:boolean "
        "dynamic_node_properties:any capabilities:symbols",
    ),
    "coordinator": (0x30, "capabilities:symbols"),
    "declare": (0x31, "global_id:any"),
    "discharge": (0x32, "txn_id:binary fail:boolean"),
    "declared": (0x33, "txn_id:binary"),
    "transactional_state": (0x34, "txn_id:binary outcome:any"),
    "sasl_mechanisms": (0x40, "sasl_server_mechanisms:symbols"),
    "sasl_init": (0x41, "mechanism:symbol initial_response:binary hostname:string"),
    "sasl_challenge": (0x42, "challenge:binary"),
    "sasl_response": (0x43, "response:binary"),
    "sasl_outcome": (0x44, "code:ubyte additional_data:binary"),
}
FIELDS = {
    name: [field.split(":") for field in fields.split()] for name, (_, fields) in COMPOSITES.items()
}
SYMBOLS = {name: f"amqp:{name.replace('_', '-')}:list" for name in COMPOSITES}
# By number and by symbol (part 1.1.2).
NAMES: dict[int | str, str] = {code: name for name, (code, _) in COMPOSITES.items()}
NAMES |= {symbol: name for name, symbol in SYMBOLS.items()}
# Python's types of fields, and for numbers the first one that is too large. Symbols and strings,
# and numbers of another width, are taken for each other: no case judges the width.
_TYPES: dict[str, Any] = {
    "string": str, "symbol": str, "boolean": bool, "binary": bytes, "any": object,
    **dict.fromkeys(["properties", "unsettled", "filter", "annotations", "info"], dict),
}  # fmt: skip
_COMPOSITES = ["error", "source", "target", "state", "outcome", "default_outcome"]
_SIZES = {"ubyte": 2**8, "ushort": 2**16, "uint": 2**32, "ulong": 2**64}
# Performatives that may come at any time, so a wait for another one skips them.
PASSING = {"empty", "flow"}


class Unexpected(AssertionError):  # noqa: N818 (a verdict on the peer)
    """The peer did something else than was due.

    Attributes:
        expected: one line, in named fields.
        found: the same of what the peer did.
    """

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}; found {found}")
        self.expected, self.found = expected, found


class Fields(dict[str, Any]):
    """The fields of a composite that were sent; to read another one is `Unexpected`."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.name = name

    def __missing__(self, field: str) -> Any:
        shown = ", ".join(self).replace("_", "-") or "no field"
        raise Unexpected(f"{self.name} with {field.replace('_', '-')}", f"{self.name} with {shown}")


class Composite(NamedTuple):
    """A decoded composite: its name and those of its fields that were sent."""

    name: str
    fields: Fields


class Frame(NamedTuple):
    """A decoded frame; an empty one has the name ``empty``."""

    kind: int
    channel: int
    name: str
    fields: Fields
    payload: bytes

    @property
    def condition(self) -> str | None:
        """The condition of the error in a close, end or detach."""
        error = self.fields.get("error")
        return error.fields["condition"] if error is not None else None


def typed(kind: str, value: Any) -> Value:
    """Return a field's value with its type; ``symbols`` and ``any`` are as in `COMPOSITES`."""
    if value is None:
        return Value("null", None)
    if isinstance(value, Value):
        return value
    if kind == "symbols":
        return symbols(*value)
    if kind == "any":
        return Value("string", value)
    return Value(kind, value)


def composite(name: str, /, **fields: Any) -> Value:
    """Return a composite value; fields left out at its end are not sent."""
    known = FIELDS[name]
    unknown = fields.keys() - {field for field, _ in known}
    if unknown:
        raise TypeError(f"{name} has no {sorted(unknown)}")
    values = [typed(kind, fields.get(field)) for field, kind in known]
    while values and values[-1].value is None:
        values.pop()
    code = Value("ulong", COMPOSITES[name][0])
    return Value("described", (code, Value("list", tuple(values))))


def by_symbols(value: Value) -> Value:
    """Return a value whose composites are described by symbols."""
    if value.kind == "described":
        descriptor, inner = value.value
        name = NAMES.get(descriptor.value)
        descriptor = Value("symbol", SYMBOLS[name]) if name else descriptor
        return Value("described", (descriptor, by_symbols(inner)))
    if value.kind == "list":
        return Value("list", tuple(map(by_symbols, value.value)))
    if value.kind == "map":
        return Value("map", tuple((key, by_symbols(each)) for key, each in value.value))
    return value


def frame(body: bytes, *, kind: int = AMQP, channel: int = 0) -> bytes:
    """Return a frame around any body, well-formed or not."""
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


def encode_frame(name: str, /, *, channel: int = 0, payload: bytes = b"", **fields: Any) -> bytes:
    """Return the frame of a performative."""
    kind = SASL if name.startswith("sasl_") else AMQP
    return frame(encode(composite(name, **fields)) + payload, kind=kind, channel=channel)


def plain(value: Value) -> Any:
    """Return a value without its types; known composites by their fields' names."""
    if value.kind == "described":
        descriptor, inner = value.value
        name = NAMES.get(descriptor.value)
        if name is None or inner.kind != "list":
            return value
        named = zip(FIELDS[name], inner.value, strict=False)
        known = {
            field: _checked(name, field, kind, each)
            for (field, kind), each in named
            if each.value is not None
        }
        return Composite(name, Fields(name, known))
    if value.kind == "array":
        return [plain(each) for each in value.value[1]]
    if value.kind == "list":
        return [plain(each) for each in value.value]
    if value.kind == "map":
        return {_key(plain(key)): plain(each) for key, each in value.value}
    return value.value


def _key(found: Any) -> Any:
    """Return a key of a map as Python takes it: compound ones are possible, and mean nothing."""
    return found if isinstance(found, (str, int, float, bytes)) else str(found)


def _checked(name: str, field: str, kind: str, value: Value) -> Any:
    """Return the plain value of a field of a composite.

    Raises:
        CodecError: the field cannot have a value of this type.
    """
    found = plain(value)
    if kind == "symbols":
        right = isinstance(found, str) or (
            isinstance(found, list) and all(isinstance(each, str) for each in found)
        )
    elif field in _COMPOSITES:
        if isinstance(found, Value):
            # An extension that is not of the standard.
            unknown = str(found.value[0].value)
            found = Composite(unknown, Fields(unknown, {}))
        right = isinstance(found, Composite)
    elif kind in _SIZES:
        right = type(found) is int and 0 <= found < _SIZES[kind]
    else:
        right = isinstance(found, _TYPES.get(field) or _TYPES[kind])
    if not right:
        raise CodecError(f"the {field} of {name} is of the type {value.kind}".replace("_", "-"))
    return found


def decode_frame(data: bytes) -> Frame:
    """Return the frame in ``data``.

    Raises:
        CodecError: It is malformed, or an unknown performative.
    """
    if len(data) < 8:
        raise CodecError(f"a frame of {len(data)} bytes")
    size, offset, kind, channel = struct.unpack(">IBBH", data[:8])
    if size != len(data) or not 2 <= offset <= size // 4:
        raise CodecError(f"a frame of {len(data)} bytes with size {size}, data offset {offset}")
    body = data[offset * 4 :]
    if not body:
        return Frame(kind, channel, "empty", Fields("empty", {}), b"")
    value, payload = decode(body)
    performative = plain(value)
    if not isinstance(performative, Composite):
        raise CodecError(f"not a performative, but of the type {value.kind}")
    return Frame(kind, channel, performative.name, performative.fields, payload)


def message(body: bytes) -> bytes:
    """Return a bare message of one data section (part 3.2.6)."""
    return encode(Value("described", (Value("ulong", 0x75), Value("binary", body))))
