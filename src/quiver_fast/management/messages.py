"""Requests to management nodes, and their responses, as messages of AMQP 1.0 (part 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from quiver_fast.conform.wire.codec import CodecError, Value, decode_all, encode
from quiver_fast.conform.wire.frames import plain
from quiver_fast.errors import MessageError

_PROPERTIES, _APPLICATION_PROPERTIES, _BODY = 0x73, 0x74, 0x77
# The place of the subject among the properties (part 3.2.4).
_SUBJECT = 3


class Request(NamedTuple):
    """A request.

    Attributes:
        reply_to: the address for its response.
        body: text, numbers, booleans and maps of them; None for null.
        address, subject: fields of the properties; empty for none.
        properties: application properties.
    """

    reply_to: str
    body: object = None
    address: str = ""
    subject: str = ""
    properties: Mapping[str, str] = {}

    def encoded(self) -> bytes:
        """Return the request as a message. One request after the other needs no own id."""
        texts = (self.address, self.subject, self.reply_to)
        fields = [Value("ulong", 1), _value(None), *(_value(text or None) for text in texts)]
        sections = [_section(_PROPERTIES, Value("list", tuple(fields)))]
        if self.properties:
            sections.append(_section(_APPLICATION_PROPERTIES, _value(self.properties)))
        return b"".join([*sections, _section(_BODY, _value(self.body))])


class Response(NamedTuple):
    """A response; see :class:`Request`."""

    subject: str
    properties: dict[str, Any]
    body: Any

    @classmethod
    def decoded(cls, data: bytes, peer: str) -> Response:
        """Return the response in a message of a peer.

        Raises:
            MessageError: it is no AMQP message.
        """
        try:
            values = [value.value for value in decode_all(data) if value.kind == "described"]
            found = {code.value: plain(inner) for code, inner in values}
        except CodecError:
            raise MessageError(f"{peer}: the response is no AMQP message") from None
        fields = [*found.get(_PROPERTIES, ()), *[None] * (_SUBJECT + 1)]
        return cls(
            fields[_SUBJECT] or "", found.get(_APPLICATION_PROPERTIES) or {}, found.get(_BODY)
        )


def _section(code: int, value: Value) -> bytes:
    return encode(Value("described", (Value("ulong", code), value)))


def _value(plain_value: object) -> Value:
    """Return a value with the AMQP type that management nodes take for it."""
    if isinstance(plain_value, Mapping):
        pairs = ((_value(key), _value(each)) for key, each in plain_value.items())
        return Value("map", tuple(pairs))
    kinds = {bool: "boolean", int: "long", str: "string", type(None): "null"}
    return Value(kinds[type(plain_value)], plain_value)
