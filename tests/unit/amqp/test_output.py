"""The output against one row of bytes: buffers, payloads by reference, sinks that take little."""

from __future__ import annotations

import ctypes
import socket
from ctypes import c_int

from hypothesis import given
from hypothesis import strategies as st
from support.plane_layer import RELEASE, SINK, CHold, Output

# Below and above the size from which payloads are named instead of copied.
SIZES = [0, 1, 100, 4095, 4096, 5000, 20000]
NAMES = ["add", "refer", "lend", "write"]
steps = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(SIZES)), max_size=60)


class Kept:
    """A payload that somebody keeps, and whether it was released."""

    def __init__(self, data: bytes) -> None:
        self.data = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        self.releases = 0
        self.callback = RELEASE(self.release)
        # A user of its own, so that the first write cannot free it under the test.
        self.hold = CHold(0, self.callback)

    def release(self, _: int) -> None:
        self.releases += 1


@given(steps)
def test_bytes_stay_in_order(plane_library: ctypes.CDLL, course: list[tuple[str, int]]) -> None:
    output, expected = Output(plane_library), bytearray()
    kept: list[tuple[int, Kept]] = []
    written = 0
    for number, (step, size) in enumerate(course):
        data = bytes([number % 251]) * size
        if step == "add":
            if data:
                output.add(data)
            expected += data
        elif step == "refer":
            payload = Kept(data)
            output.refer(payload.data, payload.hold)
            expected += data
            kept.append((written + len(expected), payload))
            assert payload.hold.users == (size >= 4096)
        elif step == "lend":
            lent = (ctypes.c_uint8 * size).from_buffer_copy(data)
            output.lend(lent)
            expected += data
            output.keep()
            ctypes.memset(lent, 0xFF, size)
        else:
            result, taken = output.write(size)
            assert taken == bytes(expected[:size])
            assert result == (len(expected) <= size)
            written += len(taken)
            del expected[:size]
        assert output.waiting == len(expected)
        for end, payload in kept:
            gone = written >= end and len(payload.data) >= 4096
            assert (payload.releases, payload.hold.users) == (
                gone, len(payload.data) >= 4096 and not gone)  # fmt: skip
    assert output.write(len(expected) + 1) == (1, bytes(expected))
    output.free()


def test_a_payload_may_wait_at_many_places(plane_library: ctypes.CDLL) -> None:
    output, payload = Output(plane_library), Kept(b"x" * 5000)
    for _ in range(100):
        output.add(b"head")
        output.refer(payload.data, payload.hold)
    assert output.write(10**6) == (1, (b"head" + b"x" * 5000) * 100)
    assert payload.releases == 1
    output.free()


def test_the_buffer_moves_under_a_payload_that_waits(plane_library: ctypes.CDLL) -> None:
    output, payload = Output(plane_library), Kept(b"x" * 5000)
    output.add(b"a" * 20000)
    output.refer(payload.data, payload.hold)
    assert output.write(10000) == (0, b"a" * 10000)
    for _ in range(2):
        output.add(b"b" * 20000)
    assert output.write(10**6) == (1, b"a" * 10000 + b"x" * 5000 + b"b" * 40000)
    output.free()


def test_of_what_is_lent_only_the_rest_is_copied(plane_library: ctypes.CDLL) -> None:
    output, data = Output(plane_library), (ctypes.c_uint8 * 5000)(*b"x" * 5000)
    output.add(b"head")
    output.lend(data)
    assert output.write(1004) == (0, b"head" + b"x" * 1000)
    output.keep()
    output.keep()
    ctypes.memset(data, 0xFF, 5000)
    assert output.write(10**6) == (1, b"x" * 4000)
    output.free()


def test_a_payload_that_waits_may_be_let_go(plane_library: ctypes.CDLL) -> None:
    output, payload, other = Output(plane_library), Kept(b"x" * 5000), Kept(b"y" * 5000)
    for each in (payload, other, payload):
        output.refer(each.data, each.hold)
    assert output.write(1000) == (0, b"x" * 1000)
    output.keep(payload.hold)
    assert (payload.releases, other.releases, other.hold.users) == (1, 0, 1)
    assert output.write(10**6) == (1, b"x" * 4000 + b"y" * 5000 + b"x" * 5000)
    output.free()


def test_what_waits_is_released_with_its_output(plane_library: ctypes.CDLL) -> None:
    output, payload = Output(plane_library), Kept(b"x" * 5000)
    output.refer(payload.data, payload.hold)
    output.write(10)
    output.free()
    assert payload.releases == 1


def test_a_failure_of_the_sink_is_the_result(plane_library: ctypes.CDLL) -> None:
    output = Output(plane_library)
    output.add(b"bytes")
    assert plane_library.amqp_output_write(output.pointer, SINK(lambda *_: -2), None) == -2
    assert output.waiting == 5, "nothing was taken"
    output.free()


def test_idle_outputs_hold_no_buffer(plane_library: ctypes.CDLL) -> None:
    output = Output(plane_library)
    output.add(b"bytes")
    plane_library.amqp_output_trim(output.pointer)
    assert output.write(10) == (1, b"bytes"), "what waits is kept"
    plane_library.amqp_output_trim(output.pointer)
    assert ctypes.c_void_p.from_address(output.pointer.value or 0).value is None
    output.add(b"again")
    assert output.write(10) == (1, b"again")
    output.free()


def test_a_pool_keeps_the_buffers_of_idle_outputs(plane_library: ctypes.CDLL) -> None:
    outputs, pool = [Output(plane_library) for _ in range(20)], (ctypes.c_size_t * 2)()
    sizes = [100_000, *[5000] * 18, 200_000]
    for output, size in zip(outputs, sizes, strict=True):
        output.add(bytes(size))
        plane_library.amqp_output_give_buffer(output.pointer, pool)
        assert output.write(size) == (1, bytes(size)), "a buffer with bytes stays"
        plane_library.amqp_output_give_buffer(output.pointer, pool)
    assert pool[1] == 16, "the others were freed"
    capacities = []
    for output in outputs:
        plane_library.amqp_output_take_buffer(output.pointer, pool)
        capacities.append((ctypes.c_size_t * 2).from_address(output.pointer.value or 0)[1])
    assert capacities == [1 << 18, 1 << 17, *[1 << 14] * 14, *[0] * 4], "the largest come first"
    for output in outputs:
        output.add(b"again")
        assert output.write(5) == (1, b"again")
        output.free()
    assert tuple(pool) == (0, 0)
    large = Output(plane_library)
    large.add(bytes(300_000))
    assert large.write(300_000)[0] == 1
    plane_library.amqp_output_give_buffer(large.pointer, pool)
    assert tuple(pool) == (0, 0), "a very large one is not kept"
    large.free()


def test_a_socket_as_sink(plane_library: ctypes.CDLL) -> None:
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    output, data, received = Output(plane_library), bytes(range(256)) * 4000, bytearray()
    output.add(data)
    write = plane_library.amqp_output_write
    sink = ctypes.cast(plane_library.amqp_send, ctypes.c_void_p)
    fd = c_int(left.fileno())
    while (result := write(output.pointer, sink, ctypes.byref(fd))) == 0:
        received += right.recv(65536)
    assert result == 1
    left.close()
    while part := right.recv(65536):
        received += part
    assert received == data
    right.close()
    output.free()


def test_a_peer_that_left_raises_no_signal(plane_library: ctypes.CDLL) -> None:
    left, right = socket.socketpair()
    right.close()
    output = Output(plane_library)
    output.add(b"bytes")
    sink = ctypes.cast(plane_library.amqp_send, ctypes.c_void_p)
    fd = c_int(left.fileno())
    assert plane_library.amqp_output_write(output.pointer, sink, ctypes.byref(fd)) == -1
    left.close()
    output.free()
