"""The filters of a receiver's source (AMQP 1.0 part 3.5.8): encoded, and compared with the peer's.

The selector is that of the AMQP JMS mapping, filters by properties are those of AMQP Filter
Expressions 1.0 (Working Draft 09), and filters of streams are RabbitMQ's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from quiver_fast.arrow.amqp.message_fields import (
    encode_binary,
    encode_map,
    encode_string,
    encode_symbol,
    encode_value,
)
from quiver_fast.property_filters import (
    BINARY,
    PREFIX,
    STRING,
    SUFFIX,
    SYMBOL,
    TIMESTAMP,
    UINT,
    ULONG,
    PropertyFilter,
    StreamOffset,
)

_SELECTOR = "apache.org:selector-filter:string"
_PROPERTIES = "amqp:properties-filter"
_APPLICATION_PROPERTIES = "amqp:application-properties-filter"
_STREAM_OFFSET = "rabbitmq:stream-offset-spec"
_STREAM_FILTER = "rabbitmq:stream-filter"
# The descriptors that peers may answer with instead of the names.
_CODES = {_SELECTOR: 0x0000468C00000004, _PROPERTIES: 0x173, _APPLICATION_PROPERTIES: 0x174}
# RabbitMQ takes a selector with the key of Qpid JMS only; other keys are free.
_KEYS = {_SELECTOR: "jms-selector"}
_ENCODE: dict[str, Callable[[Any], bytes]] = {
    "": encode_value,
    STRING: lambda value: encode_string(value.encode()),
    SYMBOL: encode_symbol,
    BINARY: lambda value: encode_binary(value.encode()),
    UINT: lambda value: b"\x70" + value.to_bytes(4, "big"),
    ULONG: lambda value: b"\x80" + value.to_bytes(8, "big"),
    TIMESTAMP: lambda value: b"\x83" + value.to_bytes(8, "big", signed=True),
}


class SourceFilters(NamedTuple):
    """The filters of a source.

    Attributes:
        values: the encoded value of each filter, by the name of its descriptor.
    """

    values: Mapping[str, bytes]

    def encoded(self) -> bytes:
        """Return the filter set as an encoded map."""
        entries = [
            encode_symbol(_KEYS.get(name, name)) + b"\x00" + encode_symbol(name) + value
            for name, value in self.values.items()
        ]
        return encode_map(2 * len(entries), b"".join(entries))

    def missing(self, kept: Collection[str | int], product: str, version: str) -> str | None:
        """Return the name of a filter that the peer does not apply; None if it applies all.

        Args:
            kept: the descriptors of the filters in the peer's source.
            product: the peer's, of the properties in its open frame.
            version: likewise.
        """
        # RabbitMQ before 4.1 answers with all filters, and applies those of streams.
        echoes = product == "RabbitMQ" and version.startswith(("3.", "4.0."))
        for name in self.values:
            is_there = name in kept or _CODES.get(name) in kept
            if not is_there or (echoes and name not in (_STREAM_OFFSET, _STREAM_FILTER)):
                return name
        return None


def filters_of(
    selector: str | None,
    by_properties: Sequence[PropertyFilter],
    stream_offset: StreamOffset | None,
    stream_filter: str,
) -> SourceFilters:
    """Return the filters of a source, which may be empty, each by its option."""
    values: dict[str, bytes] = {}
    if selector:
        values[_SELECTOR] = encode_string(selector.encode())
    fields = [_entry(one, encode_symbol) for one in by_properties if one.type]
    others = [_entry(one, _ENCODE[STRING]) for one in by_properties if not one.type]
    for name, entries in ((_PROPERTIES, fields), (_APPLICATION_PROPERTIES, others)):
        if entries:
            values[name] = encode_map(2 * len(entries), b"".join(entries))
    if stream_offset:
        values[_STREAM_OFFSET] = _ENCODE[stream_offset.type](stream_offset.value)
    if stream_filter:
        values[_STREAM_FILTER] = encode_string(stream_filter.encode())
    return SourceFilters(values)


def _entry(one: PropertyFilter, encode_key: Callable[[str], bytes]) -> bytes:
    """Encode one condition: the name, and the value to compare with (section 4.1.1)."""
    value = one.value
    if one.kind in (PREFIX, SUFFIX):
        value = f"{'&p' if one.kind == PREFIX else '&s'}:{value}"
    elif one.type in ("", STRING) and str(value).startswith("&"):
        value = f"&{value}"
    return encode_key(one.name) + _ENCODE[one.type](value)
