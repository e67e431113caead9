"""Frames that are numbered in place, read by the tests' own decoder."""

from __future__ import annotations

import ctypes
from ctypes import c_bool, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64

from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.conform.wire.frames import decode_frame

MAX = 2**32 - 1
uints = st.sampled_from([0, 1, 255, 256, MAX]) | st.integers(0, MAX)
sequences = st.sampled_from([0, 63, 64, 2**24 - 1, 2**24, 2**40 + 12345]) | st.integers(0, 2**62)


@given(uints, uints, sequences, st.integers(0, 65535), st.booleans(), st.binary(max_size=300))
def test_stamp(
    plane_library: ctypes.CDLL, number: int, handle: int, sequence: int, channel: int,
    settled: bool, payload: bytes,
) -> None:  # fmt: skip
    out = (c_uint8 * (len(payload) + 100))()
    size = plane_library.door_stamp(
        out, payload, c_size_t(len(payload)), c_uint16(channel), c_uint32(handle),
        c_bool(settled), c_uint32(number), c_uint64(sequence),
    )  # fmt: skip
    frame = decode_frame(bytes(out)[:size])
    tag = bytes(48 + (sequence >> 6 * i & 63) for i in range(4))
    assert (frame.name, frame.channel, frame.payload) == ("transfer", channel, payload)
    assert frame.fields == {
        "handle": handle, "delivery_id": number, "delivery_tag": tag, "message_format": 0,
        "settled": settled, "more": False,
    }  # fmt: skip
