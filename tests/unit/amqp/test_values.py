"""The reader of values in messages, whose bytes may end anywhere."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frame_strategies import OTHERS
from support.frames_layer import Bytes, exactly
from support.frames_twin import RefusedError, any_value, body_of

FINE, MORE = 0, 1
SECTIONS = [
    "header:list", "delivery-annotations:map", "message-annotations:map", "properties:list",
    "application-properties:map", "data:binary", "amqp-sequence:list", "amqp-value:*", "footer:map",
]  # fmt: skip
FIRST = 0x70
plain = st.sampled_from(OTHERS[:-1]) | st.binary(max_size=300).map(
    lambda text: b"\xb0" + struct.pack(">I", len(text)) + text
)
values = st.tuples(st.lists(plain.map(lambda value: b"\0" + value), max_size=9), plain).map(
    lambda parts: b"".join([*parts[0], parts[1]])
)


class Reader(ctypes.Structure):
    """An amqp_reader_t."""

    _fields_ = [("at", ctypes.c_void_p), ("end", ctypes.c_void_p), ("fault", ctypes.c_int)]


class Fields(ctypes.Structure):
    """An amqp_fields_t."""

    _fields_ = [("inside", Reader), ("left", ctypes.c_uint32)]


class Value(ctypes.Structure):
    """An amqp_value_t."""

    _fields_ = [("constructor", ctypes.c_uint8), ("content", Bytes)]


def reader_of(held: ctypes.Array[ctypes.c_uint8]) -> Reader:
    start = ctypes.addressof(held)
    return Reader(start, start + len(held), FINE)


def content(library: ctypes.CDLL, data: bytes) -> tuple[int, int, bytes] | int:
    """Return a value's constructor, its content and how many bytes are left; or the fault."""
    held, value = exactly(data), Value()
    reader = reader_of(held)
    library.amqp_read_content(ctypes.byref(reader), ctypes.byref(value))
    if reader.fault:
        return int(reader.fault)
    return value.constructor, reader.end - reader.at, value.content.value() or b""


def twin(data: bytes) -> tuple[int, int, bytes]:
    while data[:1] == b"\0":
        data = any_value(data[1:])[1]
    constructor, body, rest = body_of(data)
    return constructor, len(rest), body


@given(values, st.binary(max_size=9))
def test_each_part_of_a_value_asks_for_more(
    plane_library: ctypes.CDLL, value: bytes, rest: bytes
) -> None:
    assert content(plane_library, value + rest) == twin(value + rest)
    for size in range(len(value)):
        assert content(plane_library, value[:size]) == MORE


@given(st.binary(max_size=40))
def test_any_bytes(plane_library: ctypes.CDLL, data: bytes) -> None:
    try:
        expected = twin(data)
    except RefusedError:
        assert isinstance(content(plane_library, data), int)
    else:
        assert content(plane_library, data) == expected


def section(library: ctypes.CDLL, data: bytes) -> tuple[int, int]:
    held = exactly(data)
    reader = reader_of(held)
    return library.amqp_read_section(ctypes.byref(reader)), reader.fault


@pytest.mark.parametrize("number", range(len(SECTIONS)))
def test_sections(plane_library: ctypes.CDLL, number: int) -> None:
    name = f"amqp:{SECTIONS[number]}".encode()
    code = FIRST + number
    descriptors = [
        bytes([0, 0x53, code]),
        b"\0\x80" + struct.pack(">Q", code),
        bytes([0, 0xA3, len(name)]) + name,
        b"\0\xb3" + struct.pack(">I", len(name)) + name,
    ]
    for each in descriptors:
        assert section(plane_library, each) == (code, FINE)
        for size in range(len(each)):
            assert section(plane_library, each[:size]) == (0, MORE)


@pytest.mark.parametrize(
    "data",
    [b"\x53\x70", b"\0\x53\x6f", b"\0\x53\x79", b"\0\x44", b"\0\xa3\1x", b"\0\x53\x24",
     b"\0\x80\0\0\0\1\0\0\0\x70"],
)  # fmt: skip
def test_no_section(plane_library: ctypes.CDLL, data: bytes) -> None:
    code, fault = section(plane_library, data)
    assert (code, fault not in (FINE, MORE)) == (0, True)


@given(st.lists(values, max_size=9), st.booleans(), st.data())
def test_what_is_there_of_a_compound(
    plane_library: ctypes.CDLL, items: list[bytes], is_map: bool, data: st.DataObject
) -> None:
    plane_library.amqp_read_map.restype = plane_library.amqp_read_list.restype = Fields
    read = plane_library.amqp_read_map if is_map else plane_library.amqp_read_list
    body = b"".join(items)
    head = bytes([0xD0 + is_map]) + struct.pack(">II", len(body) + 4, len(items))
    held = exactly((head + body)[: data.draw(st.integers(0, len(head + body)))])
    reader = reader_of(held)
    fields = read(ctypes.byref(reader))
    assert reader.fault == (FINE if len(held) == len(head + body) else MORE)
    assert fields.left == (len(items) if len(held) >= len(head) else 0)
    there = bytes(held)[len(head) :]
    for item in items[: fields.left]:
        value = Value()
        whole = plane_library.amqp_read_content(ctypes.byref(fields.inside), ctypes.byref(value))
        assert whole == (len(item) <= len(there))
        if not whole:
            assert fields.inside.fault == MORE
            return
        there = there[len(item) :]
