"""Frames as text and JSON."""

from __future__ import annotations

import json

import pytest

from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import (
    Unexpected,
    composite,
    decode_frame,
    encode_frame,
    message,
)
from quiver_fast.conform.wire.trace import Traced, document, sections, shown

ATTACH = encode_frame(
    "attach", channel=2, name='a "b"', handle=0, role=True,
    source=composite("source", address="q", capabilities=["queue"]), target=composite("target"),
)  # fmt: skip
CLOSE = encode_frame("close", error=composite("error", condition="amqp:not-found"))


def section(code: int, *values: Value) -> bytes:
    body = Value("list", values)
    return encode(Value("described", (Value("ulong", code), body)))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (ATTACH, 'attach channel=2 name="a \\"b\\"" handle=0 role=receiver '
                 'source=source(address="q" capabilities=[queue]) target=target()'),
        (CLOSE, "close error=error(condition=amqp:not-found)"),
        (encode_frame("transfer", handle=0, delivery_tag=b"t", payload=message(b"12345")),
         "transfer handle=0 delivery-tag=b't' payload=data(5 bytes)"),
        (encode_frame("sasl_mechanisms", sasl_server_mechanisms=["PLAIN"]),
         "sasl-mechanisms sasl-server-mechanisms=[PLAIN]"),
    ],
)  # fmt: skip
def test_a_frame_is_a_line_of_named_fields(frame: bytes, text: str) -> None:
    assert shown(decode_frame(frame)) == text


def test_sections_have_names() -> None:
    header = section(0x70, Value("boolean", True))
    properties = section(0x73, Value("string", "a"))
    value = encode(Value("described", (Value("ulong", 0x77), Value("string", "x"))))
    told = 'header(durable=true) properties(message-id="a") value("x")'
    assert sections(header + properties + value) == told
    assert sections(message(b"12345")[:4]) == "4 bytes"


def test_a_frame_as_json() -> None:
    found = decode_frame(ATTACH)
    traced = Traced(0, 0.5, True, found.name, found.channel, found.fields, b"")
    told = json.loads(json.dumps(document(traced)))
    assert told["fields"]["source"] == {"type": "source", "address": "q", "capabilities": ["queue"]}
    assert (told["name"], told["channel"], told["payload"]) == ("attach", 2, None)


def test_an_absent_field_is_unexpected() -> None:
    with pytest.raises(Unexpected) as caught:
        decode_frame(CLOSE).fields["container_id"]
    assert caught.value.expected == "close with container-id"
    assert caught.value.found == "close with error"
