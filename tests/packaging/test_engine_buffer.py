"""Our buffers in the engine's place hold what was put into them, in one piece."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from buildtools import proton_engine, toolchain

ROOT = Path(__file__).resolve().parents[2]
# What buffers without bytes keep at most, as buffer.c says.
KEPT = 131072


class Bytes(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("start", ctypes.c_void_p)]


class Rest(ctypes.Structure):
    _fields_ = [("start", ctypes.c_size_t), ("size", ctypes.c_size_t), ("shown", ctypes.c_size_t)]


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile the buffers alone, for the tests below."""
    target = tmp_path_factory.mktemp("buffer") / "buffer.so"
    source = proton_engine.unpack_source(ROOT / "build" / "engine")
    words = [*toolchain.compiler(), "-shared", "-fPIC", "-O1", "-g", "-o", str(target)]
    words += [f"-I{source / 'src'}", f"-I{source / 'include'}", str(proton_engine.OWN / "buffer.c")]
    subprocess.run(words, check=True)
    loaded = ctypes.CDLL(str(target))
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    for name, result, arguments in (
        ("pn_buffer", pointer, [size]),
        ("pn_buffer_free", None, [pointer]),
        ("pn_buffer_size", size, [pointer]),
        ("pn_buffer_capacity", size, [pointer]),
        ("pn_buffer_available", size, [pointer]),
        ("pn_buffer_ensure", ctypes.c_int, [pointer, size]),
        ("pn_buffer_append", ctypes.c_int, [pointer, ctypes.c_char_p, size]),
        ("pn_buffer_get", size, [pointer, size, size, ctypes.c_char_p]),
        ("pn_buffer_trim", ctypes.c_int, [pointer, size, size]),
        ("pn_buffer_clear", None, [pointer]),
        ("pn_buffer_bytes", Bytes, [pointer]),
        ("pn_buffer_memory", Bytes, [pointer]),
        ("quiver_buffer_narrow", Rest, [pointer, size]),
        ("quiver_buffer_widen", size, [pointer, Rest]),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    Machine.library = loaded
    yield
    del Machine.library


class Machine(RuleBasedStateMachine):
    """A buffer and its twin, a bytearray."""

    library: ctypes.CDLL

    def __init__(self) -> None:
        super().__init__()
        self.buffer = self.library.pn_buffer(64)
        self.twin = bytearray()
        self.most = 64

    def teardown(self) -> None:
        self.library.pn_buffer_free(self.buffer)

    @rule(size=st.one_of(st.integers(0, 200), st.integers(0, 70_000)))
    def append(self, size: int) -> None:
        data = os.urandom(size)
        self.library.pn_buffer_append(self.buffer, data, size)
        self.twin += data
        self.most = max(self.most, len(self.twin))

    @rule(size=st.integers(0, 70_000))
    def ensure(self, size: int) -> None:
        self.library.pn_buffer_ensure(self.buffer, size)
        assert self.library.pn_buffer_available(self.buffer) >= size
        self.most = max(self.most, len(self.twin) + size)

    @rule(left=st.floats(0, 1), right=st.sampled_from([0, 0, 0, 3]))
    def trim(self, left: float, right: int) -> None:
        size = int(left * len(self.twin))
        result = self.library.pn_buffer_trim(self.buffer, size, right)
        if size + right > len(self.twin):
            assert result < 0
            return
        assert result == 0
        del self.twin[:size]
        del self.twin[len(self.twin) - right :]

    @rule(offset=st.integers(0, 70_000), size=st.integers(0, 70_000))
    def get(self, offset: int, size: int) -> None:
        out = ctypes.create_string_buffer(size + 1)
        got = self.library.pn_buffer_get(self.buffer, offset, size, out)
        assert out.raw[:got] == self.twin[offset : offset + size]
        assert got == len(self.twin[offset : offset + size])

    @rule()
    def clear(self) -> None:
        self.library.pn_buffer_clear(self.buffer)
        self.twin.clear()
        assert self.library.pn_buffer_capacity(self.buffer) <= KEPT

    @precondition(lambda self: self.twin)
    @rule(most=st.integers(1, 70_000), taken=st.floats(0, 1))
    def show_a_part(self, most: int, taken: float) -> None:
        rest = self.library.quiver_buffer_narrow(self.buffer, most)
        shown = self.contents()
        assert shown == self.twin[:most]
        size = int(taken * len(shown))
        self.library.pn_buffer_trim(self.buffer, size, 0)
        assert self.library.quiver_buffer_widen(self.buffer, rest) == size
        del self.twin[:size]

    def contents(self) -> bytes:
        view = self.library.pn_buffer_bytes(self.buffer)
        assert self.library.pn_buffer_memory(self.buffer).start == view.start
        return ctypes.string_at(view.start, view.size) if view.size else b""

    @invariant()
    def holds_the_same(self) -> None:
        assert self.library.pn_buffer_size(self.buffer) == len(self.twin)
        assert self.contents() == self.twin

    @invariant()
    def is_not_much_larger_than_what_it_held(self) -> None:
        assert self.library.pn_buffer_capacity(self.buffer) <= max(4 * self.most, KEPT)


TestBuffer = Machine.TestCase
TestBuffer.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("left", [1, 2, 3])
def test_full_frames_take_no_more_than_the_window(left: int) -> None:
    library = Machine.library
    buffer = library.pn_buffer(64)
    frame = b"x" * 65_434
    for _ in range(4):
        library.pn_buffer_append(buffer, frame, len(frame))
    for _ in range(100):
        library.pn_buffer_trim(buffer, (4 - left) * len(frame), 0)
        for _ in range(4 - left):
            library.pn_buffer_append(buffer, frame, len(frame))
    assert library.pn_buffer_capacity(buffer) == 262144
    library.pn_buffer_free(buffer)
