"""The tests' own AMQP codec against Proton's, value by value and frame by frame."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Data, Message
from support.examples import examples

from quiver_fast.conform.wire.codec import CodecError, Value, decode, decode_all, encode, symbols
from quiver_fast.conform.wire.frames import (
    Composite,
    composite,
    decode_frame,
    encode_frame,
    frame,
    message,
)


def integers(kind: str, bits: int, signed: bool) -> st.SearchStrategy[Value]:
    least = -(2 ** (bits - 1)) if signed else 0
    most = 2 ** (bits - signed) - 1
    edges = st.sampled_from([least, 0, min(most, 127), min(most, 128), min(most, 256), most])
    return st.builds(Value, st.just(kind), edges | st.integers(least, most))


def values_of(kind: str, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Value]:
    return st.builds(Value, st.just(kind), strategy)


SIMPLE = {
    "boolean": values_of("boolean", st.booleans()),
    "ubyte": integers("ubyte", 8, False),
    "ushort": integers("ushort", 16, False),
    "uint": integers("uint", 32, False),
    "ulong": integers("ulong", 64, False),
    "byte": integers("byte", 8, True),
    "short": integers("short", 16, True),
    "int": integers("int", 32, True),
    "long": integers("long", 64, True),
    "float": values_of("float", st.floats(width=32, allow_nan=False)),
    "double": values_of("double", st.floats(allow_nan=False)),
    "char": values_of("char", st.characters(exclude_categories=["Cs"])),
    "timestamp": integers("timestamp", 64, True),
    "uuid": values_of("uuid", st.binary(min_size=16, max_size=16)),
    "binary": values_of("binary", st.binary(max_size=300)),
    "string": values_of("string", st.text(max_size=200)),
    "symbol": values_of("symbol", st.text(st.characters(codec="ascii"), max_size=300)),
}
simple = st.one_of(st.just(Value("null", None)), *SIMPLE.values())


def arrays(kind: str) -> st.SearchStrategy[Value]:
    items = st.lists(SIMPLE[kind], max_size=300 if kind == "ubyte" else 5)
    return items.map(lambda found: Value("array", (kind, tuple(found))))


def compounds(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    several = st.lists(inner, max_size=5).map(tuple)
    # Proton 0.40 miscounts a map with a described value that is described again.
    once = inner.filter(lambda value: value.kind != "described")
    return st.one_of(
        values_of("list", several),
        values_of("map", st.lists(st.tuples(inner, inner), max_size=4).map(tuple)),
        values_of("described", st.tuples(SIMPLE["ulong"] | SIMPLE["symbol"], once)),
    )


values = st.recursive(simple | st.sampled_from(sorted(SIMPLE)).flatmap(arrays), compounds)


def put(data: Data, value: Value) -> None:
    """Give a value to Proton."""
    kind, plain = value
    if kind == "described":
        data.put_described()
    elif kind == "array":
        data.put_array(False, getattr(Data, plain[0].upper().replace("BOOLEAN", "BOOL")))
    elif kind in ("list", "map"):
        getattr(data, f"put_{kind}")()
    elif kind == "null":
        data.put_null()
    else:
        name = kind.replace("boolean", "bool")
        getattr(data, f"put_{name}")(uuid.UUID(bytes=plain) if kind == "uuid" else plain)
        return
    if kind != "null":
        data.enter()
        for each in children(value):
            put(data, each)
        data.exit()


def children(value: Value) -> tuple[Value, ...]:
    if value.kind == "array":
        found: tuple[Value, ...] = value.value[1]
        return found
    if value.kind == "map":
        return tuple(each for pair in value.value for each in pair)
    return tuple(value.value)


def by_proton(value: Value) -> bytes:
    data = Data()
    put(data, value)
    return bytes(data.encode())


def through_proton(encoded: bytes) -> bytes:
    """Have Proton decode and encode again."""
    data = Data()
    data.decode(encoded)
    return bytes(data.encode())


@given(values)
@settings(deadline=None, max_examples=examples(300))
def test_decodes_what_it_encodes(value: Value) -> None:
    assert decode(encode(value) + b"rest") == (value, b"rest")


@given(values)
@settings(deadline=None, max_examples=examples(300))
def test_understands_proton_and_is_understood(value: Value) -> None:
    theirs = by_proton(value)
    assert decode(theirs) == (value, b"")
    assert through_proton(encode(value)) == theirs


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=examples(300))
def test_any_bytes_are_values_or_an_error(data: bytes) -> None:
    try:
        found = decode_all(data)
    except CodecError:
        return
    assert (found == []) == (data == b"")


@pytest.mark.parametrize(
    "encoded",
    [b"", b"\x99", b"\x70\0", b"\xa0\x05abc", b"\xc0\x01\x01", b"\xc0\x03\x01\x43\x43", b"\x00"],
)
def test_malformed_values(encoded: bytes) -> None:
    with pytest.raises(CodecError):
        decode(encoded)


def test_a_message_is_proton_s() -> None:
    theirs = decode_all(bytes(Message(body=b"x" * 300, inferred=True).encode()))
    assert decode_all(message(b"x" * 300)) == theirs[-1:]


def test_encodings_of_the_specification() -> None:
    """Part 1.2: constructors; an open frame as in part 2.4.1."""
    assert encode(Value("uint", 0)) == b"\x43"
    assert encode(Value("uint", 7)) == b"\x52\x07"
    assert encode(Value("uint", 256)) == b"\x70\0\0\x01\0"
    assert encode(symbols("a", "bc")) == b"\xe0\x0d\x02\xb3\0\0\0\x01a\0\0\0\x02bc"
    assert encode_frame("open", container_id="me") == (
        b"\0\0\0\x12\x02\0\0\0" + b"\0\x53\x10\xc0\x05\x01\xa1\x02me"
    )


def test_frames_there_and_back() -> None:
    error = composite("error", condition="amqp:not-found")
    found = decode_frame(encode_frame("detach", channel=3, handle=7, closed=True, error=error))
    assert (found.kind, found.channel, found.name) == (0, 3, "detach")
    assert found.fields["handle"] == 7
    assert found.condition == "amqp:not-found"
    sent = encode_frame("transfer", payload=b"body", handle=0, state=composite("accepted"))
    taken = decode_frame(sent)
    assert taken.payload == b"body"
    assert taken.fields == {"handle": 0, "state": Composite("accepted", {})}
    assert decode_frame(frame(b"")).name == "empty"
    assert decode_frame(encode_frame("sasl_init", mechanism="PLAIN")).kind == 1


def test_fields_that_do_not_exist_are_refused() -> None:
    with pytest.raises(TypeError, match="no \\['handel'\\]"):
        composite("detach", handel=1)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">IBBH", 9, 2, 0, 0),
        struct.pack(">IBBH", 8, 1, 0, 0),
        struct.pack(">IBBH", 8, 3, 0, 0),
        frame(encode(Value("string", "x"))),
        frame(encode(Value("described", (Value("ulong", 0x99), Value("list", ()))))),
    ],
)
def test_malformed_frames(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_frame(data)
