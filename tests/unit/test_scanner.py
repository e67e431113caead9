"""The scanner against messages of every shape that python-qpid-proton can encode."""

from __future__ import annotations

import uuid

import proton
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quiver_fast.arrow.amqp.message_fields import MessageFields
from quiver_fast.arrow.amqp.scanner import scan, scan_row
from quiver_fast.arrow.amqp.template import MessageTemplate

KEYS = st.text(min_size=1, max_size=12).filter(lambda key: key != "SendTime")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.uuids(),
    st.integers(0, 2**32 - 1).map(proton.uint),
    st.integers(-128, 127).map(proton.byte),
)
IDS = st.one_of(st.none(), st.text(min_size=1, max_size=300), st.uuids(), st.integers(0, 2**64 - 1))


def durable() -> bytes:
    """Return a message with a header and an id."""
    template = MessageTemplate(40, with_id=True, fields=MessageFields(durable=True))
    return template.encode(77)


@st.composite
def messages(draw: st.DrawFn) -> tuple[proton.Message, int]:
    time = draw(st.integers(-(2**63), 2**63 - 1))
    others = list(draw(st.dictionaries(KEYS, VALUES, max_size=5)).items())
    place = draw(st.integers(0, len(others)))
    message = proton.Message(body=draw(st.one_of(st.text(), st.binary(), VALUES)))
    message.properties = dict([*others[:place], ("SendTime", time), *others[place:]])
    message.durable = draw(st.booleans())
    message.id = draw(IDS)
    if draw(st.booleans()):
        message.annotations = {proton.symbol("x-opt-a"): draw(VALUES)}
        message.instructions = {proton.symbol("x-opt-b"): draw(VALUES)}
    message.inferred = draw(st.booleans())
    return message, time


def id_as_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, uuid.UUID):
        return value.bytes
    assert isinstance(value, int)
    return value.to_bytes(8, "big")


@given(messages())
def test_finds_time_and_id_of_any_message(drawn: tuple[proton.Message, int]) -> None:
    message, time = drawn
    result, found, code, content = scan(bytes(message.encode()))
    assert (result, found) == ("found", time)
    if message.id is None:
        assert code == 0
    else:
        assert content.rjust(8, b"\0")[-max(8, len(content)) :] == id_as_bytes(message.id).rjust(
            8, b"\0"
        )


@given(messages(), st.data())
def test_a_part_of_a_message_asks_for_more(
    drawn: tuple[proton.Message, int], data: st.DataObject
) -> None:
    message, time = drawn
    encoded = bytes(message.encode())
    size = data.draw(st.integers(0, len(encoded)))
    result, found, _, _ = scan(encoded[:size])
    assert result == "more" or (result, found) == ("found", time)


@given(st.binary(max_size=400))
@example(b"\x00\x53\x74")
@example(b"\x00\x53\x74\xc1\x14")
@example(b"\x00\x53\x73")
@example(b"\x00\x53\x74\xc1\x02\xff\xa1")
@example(b"\x00\x53\x74\xd1\x00\x00\x00\x00\xff\xff\xff\xff")
@example(b"\x00\x53\x73\xc0\x00")
@example(b"\x00" * 64)
def test_any_bytes_get_an_answer(data: bytes) -> None:
    result, _, _, content = scan(data)
    assert result in ("found", "more", "missing", "wrong-type", "malformed")
    assert len(content) <= len(data)


@given(st.data())
def test_a_damaged_message_gets_an_answer(data: st.DataObject) -> None:
    encoded = bytearray(
        MessageTemplate(40, with_id=True, fields=MessageFields(durable=True)).encode(77)
    )
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] = data.draw(st.integers(0, 255))
    result, _, _, _ = scan(bytes(encoded))
    assert result in ("found", "more", "missing", "wrong-type", "malformed")


def test_every_part_of_a_message_asks_for_more_until_send_time_is_there() -> None:
    encoded = durable()
    results = [scan(encoded[:size])[0] for size in range(len(encoded) + 1)]
    found = results.index("found")
    assert set(results[:found]) == {"more"}
    assert set(results[found:]) == {"found"}


def test_a_message_without_send_time_says_so() -> None:
    assert scan(bytes(proton.Message(body="x").encode()))[0] == "missing"
    assert scan(bytes(proton.Message(body="x", properties={"other": 1}).encode()))[0] == "missing"


@pytest.mark.parametrize("value", ["5", 5.0, proton.timestamp(5), proton.uint(5), None])
def test_a_send_time_of_another_type_says_so(value: object) -> None:
    encoded = bytes(proton.Message(body="x", properties={"SendTime": value}).encode())
    assert scan(encoded)[0] == "wrong-type"


def test_long_form_descriptors_are_understood() -> None:
    # Part 1.2.1: a descriptor may be a full ulong as well as a small one.
    section = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x74"
    assert scan(section + b"\xc1\x0d\x02\xa1\x08SendTime\x55\x07")[:2] == ("found", 7)


@st.composite
def rows(draw: st.DrawFn) -> list[bytes]:
    """Messages of few kinds, some with bytes changed or cut off."""
    kinds = draw(st.lists(messages(), min_size=1, max_size=3))
    row = []
    for _ in range(draw(st.integers(1, 12))):
        message, _time = draw(st.sampled_from(kinds))
        if draw(st.booleans()):
            message.properties["SendTime"] = draw(st.integers(-(2**63), 2**63 - 1))
        if isinstance(message.id, str) and draw(st.booleans()):
            message.id = draw(st.text("abc0123456789", min_size=1, max_size=6))
        encoded = bytearray(message.encode())
        for at in draw(st.lists(st.integers(0, len(encoded) - 1), max_size=2)):
            encoded[at] = draw(st.integers(0, 255))
        row.append(bytes(encoded[: draw(st.integers(0, len(encoded)) | st.just(len(encoded)))]))
    return row


def numbered(count: int, size: int, *, streaming: bool = False) -> list[bytes]:
    """Messages of our sender, with ids of one digit and of two."""
    template = MessageTemplate(size, with_id=True, id_prefix="run-", streaming=streaming)
    return [template.encode(10**15 + number) for number in range(count)]


@given(rows())
@example(numbered(12, 100))
@example([*numbered(3, 100), *numbered(3, 200), *numbered(3, 300)])
@example([*numbered(2, 100, streaming=True), *numbered(2, 101, streaming=True)])
def test_a_message_like_the_last_is_read_as_it_is_alone(row: list[bytes]) -> None:
    assert scan_row(row) == [scan_row([one])[0] for one in row]
    for found, one in zip(scan_row(row), row, strict=True):
        alone = scan(one)
        # A missing field leaves the other fields unchanged.
        assert found[0] == alone[0]
        if alone[0] == "found":
            assert found[:4] == alone
