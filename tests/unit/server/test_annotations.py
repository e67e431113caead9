"""Annotations of *modified* in a message's bytes, against the codec of python-qpid-proton."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Data, Message, symbol, ulong

from quiver_fast.server.server import merged

texts = st.text(max_size=270)
keys = st.one_of(
    st.text("abcdefgh-", min_size=1, max_size=270).map(symbol), st.integers(0, 300).map(ulong)
)
values = st.one_of(st.booleans(), st.integers(-(2**31), 2**31 - 1), texts, st.binary(max_size=99))
maps = st.dictionaries(keys, values, max_size=6)


def encoded(content: object) -> bytes:
    data = Data()
    data.put_object(content)
    return bytes(data.encode())


@settings(max_examples=50, deadline=None)
@given(maps, maps, st.booleans(), maps, texts)
def test_it_is_what_a_dictionary_does(
    before: dict[object, object],
    given_: dict[object, object],
    durable: bool,
    instructions: dict[object, object],
    body: object,
) -> None:
    message = Message(body=body, durable=durable, subject="s", id=7)
    message.annotations = before
    message.instructions = instructions
    found = Message()
    found.decode(merged(bytes(message.encode()), encoded(given_)))
    assert found.annotations == {**before, **given_}
    assert (found.body, found.durable, found.subject, found.id) == (body, durable, "s", 7)
    assert (found.instructions or {}) == instructions


def test_both_encodings_of_a_key_are_the_same_key() -> None:
    """A symbol of 8 bits and one of 32 (part 1.6.21)."""
    short = bytes((0xC1, 5, 2, 0xA3, 1)) + b"k" + bytes((0x41,))
    long = bytes((0xD1, 0, 0, 0, 11, 0, 0, 0, 2, 0xB3, 0, 0, 0, 1)) + b"k" + bytes((0x42,))
    message = merged(merged(b"\x00\x53\x77\x40", short), long)
    assert message.count(b"k") == 1
    assert message.endswith(b"k\x42\x00\x53\x77\x40")


@pytest.mark.parametrize(
    ("message", "annotations"),
    [
        (b"\x00\x53\x77\x40", b"\x45"),  # a list
        (b"\x00\x53\x72\xc1\x05\x02\xa3", b"\xc1\x01\x00"),  # cut short
        (b"\x00\x53\x70", b"\xc1\x01\x00"),
        (b"\x01\x53\x77\x40", b"\xc1\x01\x00"),  # not a section
        (b"\x00\x53\x72\x1f", b"\xc1\x01\x00"),  # no such constructor
        (bytes(10_000), b"\xc1\x01\x00"),  # descriptors of descriptors
        (b"\x00\x53\x77\x40", b"\xc1\x03\x02\x40" + b"\x00\x40" * 10_000),
    ],
)
def test_what_cannot_be_merged(message: bytes, annotations: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        merged(message, annotations)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_anything_is_merged_or_refused(message: bytes, annotations: bytes) -> None:
    with contextlib.suppress(ValueError):
        merged(message, annotations)
