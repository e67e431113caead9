"""The patched template against messages that python-qpid-proton decodes and encodes."""

from __future__ import annotations

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.engine.template import MAX_BODY_SIZE, MessageTemplate

PREFIXES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


def decode(data: bytes) -> proton.Message:
    message = proton.Message()
    message.decode(data)
    return message


@given(
    body_size=st.integers(0, 70_000),
    durable=st.booleans(),
    with_id=st.booleans(),
    prefix=PREFIXES,
    times=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4),
)
def test_decodes_to_what_was_meant(
    body_size: int, durable: bool, with_id: bool, prefix: str, times: list[int]
) -> None:
    template = MessageTemplate(body_size, durable=durable, with_id=with_id, id_prefix=prefix)
    for sequence, time in enumerate(times, 1):
        message = decode(template.encode(time))
        assert bytes(message.body) == b"x" * body_size
        assert message.durable is durable
        assert message.id == (f"{prefix}{sequence}" if with_id else None)
        assert message.properties == {"SendTime": time}


def encoded_type_of_send_time(data: bytes) -> int:
    return data[data.index(b"SendTime") + len(b"SendTime")]


def test_send_time_is_an_amqp_long() -> None:
    # AMQP 1.0 part 1.6.14: 0x81 is a long of eight bytes.
    assert encoded_type_of_send_time(MessageTemplate(1).encode(5)) == 0x81


@pytest.mark.parametrize("last", [9, 99, 999, 10_000])
def test_ids_count_through_every_change_of_width(last: int) -> None:
    template = MessageTemplate(0, with_id=True, id_prefix="run-")
    ids = [decode(template.encode(1)).id for _ in range(last + 2)]
    assert ids == [f"run-{n}" for n in range(1, last + 3)]


def test_size_is_that_of_the_encoded_message() -> None:
    for body_size in (0, 255, 256, 65_536, 65_537, 200_000):
        template = MessageTemplate(body_size, with_id=True)
        assert len(template.encode(1)) == template.size


def test_limits_are_errors() -> None:
    with pytest.raises(ValueError, match="body-size"):
        MessageTemplate(MAX_BODY_SIZE + 1)
    with pytest.raises(ValueError, match="prefix"):
        MessageTemplate(1, with_id=True, id_prefix="p" * 201)
