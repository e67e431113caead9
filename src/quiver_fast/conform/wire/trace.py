"""Frames as people and programs read them: named fields, never bytes in hexadecimal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from quiver_fast.conform.wire.codec import CodecError, Value, decode_all
from quiver_fast.conform.wire.frames import FIELDS, Composite, Frame, plain

# Sections of a message by their descriptors (part 3.2), and the fields of two of them.
_SECTIONS = {
    0x70: "header", 0x71: "delivery-annotations", 0x72: "message-annotations", 0x73: "properties",
    0x74: "application-properties", 0x75: "data", 0x76: "sequence", 0x77: "value", 0x78: "footer",
}  # fmt: skip
_LISTS = {
    "header": "durable priority ttl first-acquirer delivery-count",
    "properties": "message-id user-id to subject reply-to correlation-id content-type "
    "content-encoding absolute-expiry-time creation-time group-id group-sequence reply-to-group-id",
}


# Of a line nobody reads more.
_TEXT_MAX = 1000
# Of one case: frames, and bytes of their payloads.
_FRAMES_MAX, _HELD_MAX = 1000, 4 << 20


class Traced(NamedTuple):
    """A frame, a protocol header (``header``) or other bytes (``bytes``) that went by.

    Attributes:
        connection: which of the case's connections, from 0.
        at: seconds since the first one began.
        sent: whether we sent it.
    """

    connection: int
    at: float
    sent: bool
    name: str
    channel: int
    fields: Mapping[str, Any]
    payload: bytes


class Trace(list[Traced]):
    """What went by in a case, without the beginning of a flood."""

    def __init__(self) -> None:
        super().__init__()
        self.began = time.monotonic()
        self._held = 0

    def append(self, one: Traced) -> None:
        """Add a frame; the oldest ones go if there are too many, or too many bytes."""
        super().append(one)
        self._held += len(one.payload)
        while len(self) > _FRAMES_MAX or (self._held > _HELD_MAX and len(self) > 1):
            self._held -= len(self.pop(0).payload)


def shown(frame: Frame | Traced) -> str:
    """Return a frame as one line: its name, then its fields by name."""
    channel = [f"channel={frame.channel}"] if frame.channel else []
    payload = [f"payload={sections(frame.payload)}"] if frame.payload else []
    fields = [_field(frame.name, name, value) for name, value in frame.fields.items()]
    return " ".join([frame.name.replace("_", "-"), *channel, *fields, *payload])


def _field(composite: str, name: str, value: Any) -> str:
    kinds = dict(FIELDS.get(composite, ()))
    if name == "role":
        value, bare = "receiver" if value else "sender", True
    else:
        bare = "symbol" in kinds.get(name, "") or composite == "header"
    return f"{name.replace('_', '-')}={text(value, bare=bare)}"


def text(value: Any, *, bare: bool = False) -> str:
    """Return a value without its types; ``bare`` leaves the quotes of texts out."""
    if isinstance(value, Composite):
        fields = " ".join(_field(value.name, name, each) for name, each in value.fields.items())
        return f"{value.name.replace('_', '-')}({fields})"
    if isinstance(value, Value):
        return f"{value.kind}({text(plain(value.value[0]))}, ...)"
    if isinstance(value, Mapping):
        pairs = (f"{text(key, bare=True)}={text(each)}" for key, each in value.items())
        return f"{{{' '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(text(each, bare=bare) for each in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (str, bytes)) and len(value) > _TEXT_MAX:
        return f"{text(value[:_TEXT_MAX], bare=bare)}... ({len(value):,} in all)"
    if isinstance(value, str) and not bare:
        return '"' + value.replace('"', '\\"') + '"'
    return repr(value) if isinstance(value, bytes) else str(value)


def sections(payload: bytes) -> str:
    """Return the sections of a message by name; only its size if it is part of one."""
    try:
        return " ".join(_section(*value.value) for value in decode_all(payload))
    except (CodecError, ValueError, TypeError, AttributeError):
        return f"{len(payload)} bytes"


def _section(code: Value, body: Value) -> str:
    name = _SECTIONS.get(code.value, str(code.value))
    if name == "data":
        return f"data({len(body.value)} bytes)"
    if name not in _LISTS:
        return f"{name}({text(plain(body))})"
    named = zip(_LISTS[name].split(), body.value, strict=False)
    fields = (f"{field}={text(plain(value))}" for field, value in named if value.value is not None)
    return f"{name}({' '.join(fields)})"


def document(traced: Traced) -> dict[str, Any]:
    """Return a frame as JSON; see `conformance-1.json`."""
    return {
        "connection": traced.connection, "at": round(traced.at, 6), "sent": traced.sent,
        "name": traced.name.replace("_", "-"), "channel": traced.channel,
        "fields": _json(traced.fields),
        "payload": sections(traced.payload) if traced.payload else None,
    }  # fmt: skip


def _json(value: Any) -> Any:
    if isinstance(value, Composite):
        return {"type": value.name.replace("_", "-"), **_json(value.fields)}
    if isinstance(value, Mapping) and not isinstance(value, Value):
        return {str(key).replace("_", "-"): _json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, Value):
        return [_json(each) for each in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else text(value)
