"""The fields of a sender's messages besides their body: encoded once, for the template.

The sections are those of AMQP 1.0 part 3: the header (3.2.1), the message annotations (3.2.3), the
properties (3.2.4) and the application properties (3.2.5). Types are those of part 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

DEFAULT_PRIORITY = 4
"""The priority of a message whose header has none."""

_NULL, _TRUE, _FALSE = b"\x40", b"\x41", b"\x42"
_HEADER, _ANNOTATIONS, _PROPERTIES = b"\x00\x53\x70", b"\x00\x53\x72", b"\x00\x53\x73"
# The places of fields in the properties.
_SUBJECT, _REPLY_TO, _GROUP = 3, 4, 10


class MessageFields(NamedTuple):
    """The fields that all messages of a sender share.

    Attributes:
        durable: a server has to store the message.
        priority: 0 to 9.
        ttl: milliseconds after which servers drop the message; 0 for never.
        subject: for filters; empty for none.
        group_id: of the group whose order a server keeps; empty for none.
        properties: application properties besides our own; values are str, int or bool.
        reply_to: the address for the reply; empty for none.
        stream_value: for the filters of RabbitMQ's streams; empty for none.
    """

    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    ttl: int = 0
    subject: str = ""
    group_id: str = ""
    properties: Mapping[str, str | int | bool] = MappingProxyType({})
    reply_to: str = ""
    stream_value: str = ""

    def header(self) -> bytes:
        """Return the header section; empty if all its fields have their defaults."""
        if self.ttl:
            fields = [self._durable, self._priority, b"\x70" + self.ttl.to_bytes(4, "big")]
        elif self.priority != DEFAULT_PRIORITY:
            fields = [self._durable, self._priority]
        else:
            fields = [_TRUE] if self.durable else []
        return _HEADER + _list(fields) if fields else b""

    def annotations(self) -> bytes:
        """Return the section of message annotations; empty without any."""
        if not self.stream_value:
            return b""
        entry = encode_symbol("x-stream-filter-value") + encode_string(self.stream_value.encode())
        return _ANNOTATIONS + encode_map(2, entry)

    @property
    def _durable(self) -> bytes:
        return _TRUE if self.durable else _FALSE

    @property
    def _priority(self) -> bytes:
        return b"\x50" + bytes([self.priority])

    def message_properties(self, message_id: bytes) -> tuple[bytes, int]:
        """Return the properties section, and the offset of the id in it.

        Args:
            message_id: text; empty for none.
        """
        fields = [encode_string(message_id) if message_id else _NULL]
        texts = {_SUBJECT: self.subject, _REPLY_TO: self.reply_to, _GROUP: self.group_id}
        for place, text in texts.items():
            if text:
                fields += [_NULL] * (place - len(fields)) + [encode_string(text.encode())]
        if fields == [_NULL]:
            return b"", 0
        section = _PROPERTIES + _list(fields)
        return section, len(section) - sum(map(len, fields[1:])) - len(message_id)

    def entries(self) -> bytes:
        """Return the keys and values of the application properties, without a map's head."""
        return b"".join(
            encode_string(name.encode()) + encode_value(value)
            for name, value in self.properties.items()
        )


def encode_value(value: str | int | bool) -> bytes:
    """Encode a value of an application property: a boolean, a long or a string."""
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        return b"\x81" + value.to_bytes(8, "big", signed=True)
    return encode_string(value.encode())


def encode_string(data: bytes) -> bytes:
    """Encode UTF-8 as a string."""
    return _sized(0xA1, data)


def encode_symbol(text: str) -> bytes:
    """Encode ASCII as a symbol."""
    return _sized(0xA3, text.encode())


def encode_binary(data: bytes) -> bytes:
    """Encode bytes as a binary."""
    return _sized(0xA0, data)


def _sized(code: int, data: bytes) -> bytes:
    """Encode data with a size of one byte, or of four if it is too long for that."""
    if len(data) < 256:
        return bytes([code, len(data)]) + data
    return bytes([code + 0x10]) + len(data).to_bytes(4, "big") + data


def encode_map(count: int, entries: bytes) -> bytes:
    """Encode ``count`` keys and values as a map: map8, or map32 if they are too long for that."""
    if count < 256 and len(entries) < 255:
        return b"\xc1" + bytes([len(entries) + 1, count]) + entries
    return b"\xd1" + (len(entries) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + entries


def _list(fields: Sequence[bytes]) -> bytes:
    """Encode fields as a list: list8, or list32 if they are too long for that."""
    data = b"".join(fields)
    if len(data) < 255:
        return b"\xc0" + bytes([len(data) + 1, len(fields)]) + data
    return b"\xd0" + (len(data) + 4).to_bytes(4, "big") + len(fields).to_bytes(4, "big") + data
