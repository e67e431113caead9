"""Symbols among the descriptors of the engine's frames become numbers (part 1.1.2)."""

from __future__ import annotations

import ctypes
import struct

from hypothesis import given
from hypothesis import strategies as st
from support.plane_layer import Plane

from quiver_fast.conform.wire.codec import Value, decode, encode, symbols
from quiver_fast.conform.wire.frames import AMQP_HEADER, COMPOSITES, SYMBOLS, frame

# Whatever the engine makes of them: the data plane reads no field of these.
ENGINES = ["source", "target", "coordinator", "error", "declared"]
scalars = st.sampled_from([
    Value("null", None), Value("uint", 7), Value("boolean", True), symbols("a", "b"),
]) | st.text("abc", max_size=300).map(lambda text: Value("string", text))  # fmt: skip
other = st.sampled_from([Value("symbol", "amqp:other:list"), Value("ulong", 2**40)])


def containers(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    items = st.lists(inner, max_size=4).map(tuple)
    pairs = st.lists(st.tuples(scalars, inner), max_size=3).map(tuple)
    lists, maps = items.map(lambda each: Value("list", each)), pairs.map(
        lambda each: Value("map", each)
    )  # fmt: skip
    descriptors = st.sampled_from([Value("symbol", name) for name in SYMBOLS.values()]) | other
    both = st.tuples(descriptors, lists | maps | inner)
    return lists | maps | both.map(lambda each: Value("described", each))


values = st.recursive(scalars, containers, max_leaves=12)
CODES = {symbol: COMPOSITES[name][0] for name, symbol in SYMBOLS.items()}


def numbered(value: Value) -> Value:
    """The slow twin."""
    if value.kind == "described":
        descriptor, inner = value.value
        code = CODES.get(descriptor.value)
        descriptor = descriptor if code is None else Value("ulong", code)
        return Value("described", (descriptor, numbered(inner)))
    if value.kind == "list":
        return Value("list", tuple(map(numbered, value.value)))
    if value.kind == "map":
        return Value("map", tuple((numbered(key), numbered(each)) for key, each in value.value))
    return value


def for_engine(library: ctypes.CDLL, body: bytes) -> bytes | None:
    """Return the body of the frame that the engine gets; None if it is refused."""
    plane = Plane(library)
    try:
        _, event = plane.take(AMQP_HEADER + frame(body))
        if event.kind == "refused":
            assert event.fields["condition"] == "amqp:decode-error"
            return None
        found: bytes = event.fields["bytes"]
    finally:
        plane.free()
    assert found[:8] == frame(found[8:])[:8]
    return found[8:]


@given(st.sampled_from(ENGINES), values, st.binary(max_size=5))
def test_known_symbols_are_numbers(
    plane_library: ctypes.CDLL, name: str, value: Value, rest: bytes
) -> None:
    whole = Value("described", (Value("symbol", SYMBOLS[name]), Value("list", (value,))))
    found = for_engine(plane_library, encode(whole) + rest)
    assert found is not None
    assert decode(found) == (numbered(whole), rest)


@given(values, st.data())
def test_damaged_values_pass_or_are_refused(
    plane_library: ctypes.CDLL, value: Value, data: st.DataObject
) -> None:
    source = Value("symbol", SYMBOLS["source"])
    body = bytearray(encode(Value("described", (source, Value("list", (value, value))))))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(20, len(body) - 1))] = data.draw(st.integers(0, 255))
    for_engine(plane_library, bytes(body[: data.draw(st.integers(20, len(body)))]))


def test_values_that_are_nested_too_deep_are_left_as_they_are(plane_library: ctypes.CDLL) -> None:
    value = encode(Value("described", (Value("symbol", SYMBOLS["source"]), Value("list", ()))))
    for _ in range(100):
        value = b"\xd0" + struct.pack(">II", len(value) + 4, 1) + value
    found = for_engine(plane_library, b"\0" + encode(Value("symbol", SYMBOLS["error"])) + value)
    assert found == b"\0\x53\x1d" + value
