"""The index against a dictionary, with keys that collide."""

from __future__ import annotations

import ctypes
from ctypes import c_uint64, c_void_p

import pytest
from hypothesis import given
from hypothesis import strategies as st


class CIndex(ctypes.Structure):
    """An amqp_index_t."""

    _fields_ = [
        ("entries", c_void_p), ("capacity", ctypes.c_size_t), ("count", ctypes.c_size_t),
        ("factor", c_uint64),
    ]  # fmt: skip


# With a factor of 1 all small keys have one home.
seeds = st.sampled_from([0, 0x9E3779B97F4A7C15])
keys = st.integers(0, 12) | st.integers(0, 2**64 - 1).map(lambda key: key & ~0xFFF)


@given(seeds, st.lists(st.tuples(st.booleans(), keys), max_size=80))
def test_index(plane_library: ctypes.CDLL, seed: int, course: list[tuple[bool, int]]) -> None:
    index, expected = CIndex(), dict[int, int]()
    plane_library.amqp_index_init(ctypes.byref(index), c_uint64(seed))
    for step, (adds, key) in enumerate(course):
        if not adds:
            plane_library.amqp_index_remove(ctypes.byref(index), c_uint64(key))
            expected.pop(key, None)
        elif key not in expected:
            value = c_void_p(step + 1)
            assert plane_library.amqp_index_add(ctypes.byref(index), c_uint64(key), value)
            expected[key] = step + 1
        assert index.count == len(expected)
        for each in {key, *expected}:
            found = plane_library.amqp_index_find(ctypes.byref(index), c_uint64(each))
            assert found == expected.get(each)
    plane_library.amqp_index_free(ctypes.byref(index))


@pytest.mark.parametrize("order", [1, -1])
def test_many(plane_library: ctypes.CDLL, order: int) -> None:
    index, numbers = CIndex(), range(3000)[::order]
    plane_library.amqp_index_init(ctypes.byref(index), c_uint64(12345))
    for key in numbers:
        assert plane_library.amqp_index_add(ctypes.byref(index), c_uint64(key), c_void_p(key + 1))
    for key in numbers:
        assert plane_library.amqp_index_find(ctypes.byref(index), c_uint64(key)) == key + 1
        plane_library.amqp_index_remove(ctypes.byref(index), c_uint64(key))
    assert index.count == 0
    plane_library.amqp_index_free(ctypes.byref(index))
