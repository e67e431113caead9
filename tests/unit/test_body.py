"""The follower of bodies against a slow and obvious reader of whole messages."""

from __future__ import annotations

import itertools
import struct

import proton
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quiver_fast.arrow.amqp.body import check
from quiver_fast.arrow.amqp.message_fields import MessageFields
from quiver_fast.arrow.amqp.scanner import scan
from quiver_fast.arrow.amqp.template import MAX_BODY_SIZE, MAX_STREAM_SIZE, MessageTemplate

NAMES = {
    0x70: b"amqp:header:list",
    0x71: b"amqp:delivery-annotations:map",
    0x72: b"amqp:message-annotations:map",
    0x73: b"amqp:properties:list",
    0x74: b"amqp:application-properties:map",
    0x75: b"amqp:data:binary",
    0x76: b"amqp:amqp-sequence:list",
    0x77: b"amqp:amqp-value:*",
    0x78: b"amqp:footer:map",
}
WIDTHS = {0x45: 0, 0xA0: 1, 0xB0: 4, 0xC0: 1, 0xC1: 1, 0xD0: 4, 0xD1: 4}


def descriptor(code: int, form: str) -> bytes:
    if form == "small":
        return b"\x00\x53" + bytes([code])
    if form == "full":
        return b"\x00\x80" + struct.pack(">Q", code)
    return b"\x00\xa3" + bytes([len(NAMES[code])]) + NAMES[code]


class CutError(Exception):
    """The message ends within the head of a section."""


def take(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise CutError
    return data[at : at + size]


def section_at(data: bytes, at: int) -> tuple[int | None, int]:
    """Return the code of the section that begins at ``at``, None for none, and its end."""
    for code in NAMES:
        for form in ("small", "full", "name"):
            whole = descriptor(code, form)
            if data.startswith(whole, at):
                return code, at + len(whole)
            if len(data) < at + len(whole) and whole.startswith(data[at:]):
                raise CutError
    return None, at


def twin(data: bytes) -> tuple[str, int, bool]:
    """Read a message from its beginning to its end."""
    at, size = 0, 0
    try:
        while at < len(data):
            code, at = section_at(data, at)
            constructor = take(data, at, 1)[0] if code is not None else 0
            wanted = (0xA0, 0xB0) if code == 0x75 else (0x45, 0xC0, 0xC1, 0xD0, 0xD1)
            if code in (None, 0x76, 0x77) or constructor not in wanted:
                return "not-data", size, False
            width = WIDTHS[constructor]
            length = int.from_bytes(take(data, at + 1, width), "big")
            at += 1 + width
            content = data[at : at + length]
            at += length
            if code == 0x75:
                size += len(content)
                if content.strip(b"x"):
                    return "not-x", size, False
            if at > len(data):
                return "fine", size, False
    except CutError:
        return "fine", size, False
    return "fine", size, True


@st.composite
def sections(draw: st.DrawFn) -> bytes:
    code = draw(st.sampled_from([*NAMES, 0x75, 0x75, 0x75]))
    head = descriptor(code, draw(st.sampled_from(["small", "full", "name"])))
    size = draw(st.integers(0, 40))
    if code == 0x75:
        content = b"x" * size
        if draw(st.booleans()):
            return head + b"\xa0" + bytes([size]) + content
        return head + b"\xb0" + struct.pack(">I", size) + content
    content = draw(st.binary(min_size=size, max_size=size))
    if code in (0x71, 0x72, 0x74, 0x78):
        return head + b"\xc1" + bytes([size]) + content
    return head + draw(
        st.sampled_from(
            [
                b"\x45",
                b"\xc0" + bytes([size]) + content,
                b"\xd0" + struct.pack(">I", size) + content,
            ]
        )
    )


def cut(data: bytes, points: list[int]) -> list[bytes]:
    ends = [0, *sorted(min(point, len(data)) for point in points), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@given(st.lists(sections(), max_size=6).map(b"".join), st.lists(st.integers(0, 200)), st.data())
def test_any_cuts_give_what_the_twin_reads(
    message: bytes, points: list[int], data: st.DataObject
) -> None:
    present = message[: data.draw(st.integers(0, len(message)))]
    fault, size, whole = check(cut(present, points))
    expected, at_most, end = twin(present)
    assert (fault, whole) == (expected, end)
    # How far a piece with a wrong byte was counted depends on where it was cut.
    assert size == at_most or fault == "not-x"


@given(
    st.binary(max_size=120),
    st.lists(st.integers(0, 120)),
)
@example(b"\x00\x53\x75\xa0\x02x", [])
@example(b"\x00\x53\x75\xa0\x03xyx", [5, 6])
@example(b"\x00\x53\x77\xa1\x01x", [])
@example(b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xb0\x00\x00\x00\x01x", [3, 9, 11])
def test_any_bytes_get_the_same_answer_however_cut(message: bytes, points: list[int]) -> None:
    fault, size, whole = check([message])
    pieces = check(cut(message, points))
    assert (pieces[0], pieces[2]) == (fault, whole)
    assert pieces[1] == size or fault == "not-x"


@given(st.integers(0, 70_000), st.integers(0, 70_000), st.integers(1, 255))
def test_one_wrong_byte_is_found(size: int, place: int, change: int) -> None:
    encoded = bytearray(MessageTemplate(size + 1, streaming=True).encode(7))
    at = len(encoded) - 1 - place % (size + 1)
    encoded[at] ^= change
    assert check(cut(bytes(encoded), [100, 40_000]))[0] == "not-x"


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, 65_537, 200_000])
def test_a_streaming_template_is_whole_and_announces_its_body(size: int) -> None:
    encoded = MessageTemplate(
        size, with_id=True, streaming=True, fields=MessageFields(durable=True)
    ).encode(77)
    assert check([encoded]) == ("fine", size, True)
    assert scan(encoded)[:2] == ("found", 77)
    message = proton.Message()
    message.decode(encoded)
    assert message.properties == {"BodySize": size, "SendTime": 77}
    assert bytes(message.body) == b"x" * size


def test_limits_of_streaming_bodies() -> None:
    assert MessageTemplate(MAX_BODY_SIZE + 1, streaming=True).body_size == MAX_BODY_SIZE + 1
    with pytest.raises(ValueError, match="several sections"):
        MessageTemplate(MAX_BODY_SIZE + 1, streaming=True).encode(1)
    with pytest.raises(ValueError, match="body-size"):
        MessageTemplate(MAX_STREAM_SIZE + 1, streaming=True)
