"""Records of deliveries: bytes that came, frames that go, outcomes, against lists of Python's."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_bool, c_int, c_size_t, c_uint32
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.plane_layer import Plane

from quiver_fast.conform.wire.frames import AMQP_HEADER, decode_frame, encode_frame

MODULUS = 2**32
NAMES = {0: None, 0x24: "accepted", 0x26: "released"}
CODES = st.sampled_from([0x24, 0x24, 0x24, 0x26, 0])
# Payloads of large frames go by reference where they are lent.
MAX_FRAME = 512
LARGE_FRAME = 6000
# AMQP_FRAME_ROOM: what is kept for all of a frame but its tag and its payload.
FRAME_ROOM = 96
starts = st.sampled_from([0, MODULUS - 3])


class CDelivery(ctypes.Structure):
    """A door_delivery_t."""

    _fields_ = [
        ("id", c_uint32), ("pending", c_size_t), ("partial", c_bool), ("aborted", c_bool),
        ("settled", c_bool),
    ]  # fmt: skip


class Deliveries:
    """A session of a plane with a link each way, and its records."""

    def __init__(
        self,
        library: ctypes.CDLL,
        *,
        window: int = 1000,
        next_id: int = 0,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.library = library
        self.max_frame = max_frame
        self.plane = Plane(library)
        self.plane.take(AMQP_HEADER)
        self.plane.take(encode_frame("open", container_id="peer", max_frame_size=max_frame))
        begin = {"next_outgoing_id": 0, "incoming_window": 10**6, "outgoing_window": 9}
        attach = {"name": "in", "handle": 0}
        out = {"name": "out", "handle": 1}
        counted = {"initial_delivery_count": 0}
        assert self.plane.drain(
            encode_frame("begin", **begin)
            + encode_frame("attach", role=True, **attach)
            + encode_frame("attach", role=False, **out, **counted)
        )
        theirs = begin | {"incoming_window": window}
        self.plane.take(encode_frame("begin", channel=0, remote_channel=0, **theirs))
        self.plane.take(encode_frame("attach", role=False, **attach, **counted))
        self.plane.take(encode_frame("attach", role=True, **out))
        assert self.plane.credit(0, 0, 10**6)
        self.next_id = next_id
        self.pointer = ctypes.c_void_p(library.door_deliveries_new(self.plane.pointer))
        self.frames()

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self.library, f"door_{name}")(self.pointer, *arguments)

    def frames(self) -> list[Any]:
        """Return the frames that were written since the last time."""
        data, found = self.plane.output.write(10**7)[1], []
        while data:
            size = int.from_bytes(data[:4], "big")
            assert size <= self.max_frame
            found.append(decode_frame(data[:size]))
            data = data[size:]
        return found

    def arrive(self, **fields: Any) -> None:
        [event] = self.plane.take(encode_frame("transfer", handle=0, **fields))
        assert event.kind == "arrival"
        assert self.call("arrive")

    def current(self) -> CDelivery | None:
        found = CDelivery()
        return found if self.call("current", byref(found)) else None

    def read(self, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        count = self.call("read", buffer, c_size_t(size))
        return buffer.raw[:count]

    def free(self) -> None:
        assert self.call("deliveries_free")
        self.plane.free()


@dataclass
class Arrived:
    """The twin's record of an incoming delivery."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    partial: bool = True
    aborted: bool = False
    settled: bool = False
    taken: bool = False


arrivals = st.tuples(
    st.just("arrive"), st.binary(max_size=400), st.booleans(), st.booleans(), st.booleans()
)
in_steps = st.lists(
    st.one_of(
        arrivals, arrivals,
        st.tuples(st.just("accept"), st.integers(1, 3)),
        st.tuples(st.just("read"), st.integers(1, 900)),
        st.tuples(st.just("settle"), st.integers(0, 9), CODES),
        st.tuples(st.just("advance")),
        st.tuples(st.just("tell")),
    ),
    max_size=60,
)  # fmt: skip


def told(frames: list[Any], *, role: bool) -> list[tuple[int, int, str | None]]:
    """Return what dispositions say: first and last id, and the outcome."""
    found = []
    for frame in frames:
        assert frame.name == "disposition"
        assert frame.fields["settled"]
        assert frame.fields["role"] == role
        first, state = frame.fields["first"], frame.fields.get("state")
        found.append((first, frame.fields.get("last", first), state.name if state else None))
    return found


def runs(settled: list[tuple[int, int]]) -> list[tuple[int, int, str | None]]:
    """Return neighbours with the same outcome as ranges, in their order."""
    found: list[tuple[int, int, str | None]] = []
    for number, code in settled:
        if found and found[-1][2] == NAMES[code] and number == (found[-1][1] + 1) % MODULUS:
            found[-1] = (found[-1][0], number, NAMES[code])
        else:
            found.append((number, number, NAMES[code]))
    return found


class Incoming:
    """A course of deliveries that come, and its twin."""

    def __init__(self, library: ctypes.CDLL, start: int) -> None:
        self.real = Deliveries(library)
        self.next = start
        self.known: list[Arrived] = []
        self.settled: list[tuple[int, int]] = []
        self.written: list[tuple[int, int, str | None]] = []

    def current(self) -> Arrived | None:
        return next((each for each in self.known if not each.taken), None)

    def arrive(self, payload: bytes, more: bool, aborted: bool, settled: bool) -> None:
        last = self.known[-1] if self.known else None
        if last is None or not last.partial:
            last = Arrived(self.next)
            self.next = (self.next + 1) % MODULUS
            self.known.append(last)
        self.real.arrive(
            delivery_id=last.number, delivery_tag=b"t", message_format=0, more=more,
            aborted=aborted, settled=settled, payload=payload,
        )  # fmt: skip
        last.partial = more and not aborted
        last.aborted, last.settled = aborted, last.settled or settled or aborted
        last.data = bytearray() if aborted else last.data + payload

    def accept(self, count: int) -> None:
        """Take whole deliveries without records, between others that have one."""
        if self.known and self.known[-1].partial:
            return
        for _ in range(count):
            transfer = {"delivery_id": self.next, "delivery_tag": b"t", "message_format": 0}
            self.real.plane.take(encode_frame("transfer", handle=0, payload=b"x", **transfer))
            self.real.call("accept")
            self.settled.append((self.next, 0x24))
            self.next = (self.next + 1) % MODULUS

    def read(self, size: int) -> None:
        current = self.current()
        if current is None:
            return
        assert self.real.read(size) == bytes(current.data[:size])
        del current.data[:size]

    def settle(self, place: int, code: int) -> None:
        whole = [each for each in self.known if not each.partial]
        if place >= len(whole):
            return
        found = whole[place]
        self.known.remove(found)
        if not found.settled:
            self.settled.append((found.number, code))
        self.real.call("settle", c_uint32(found.number), c_bool(False), c_int(code))

    def advance(self) -> None:
        current = self.current()
        if current is not None and not current.partial:
            current.taken = True
            self.real.call("advance")

    def tell(self) -> None:
        self.real.call("tell")
        assert told(self.real.frames(), role=True) == runs(self.settled)
        self.settled.clear()

    def compare(self) -> None:
        current, found = self.current(), self.real.current()
        assert (current is None) == (found is None)
        if current is not None and found is not None:
            assert (found.id, found.pending) == (current.number, len(current.data))
            assert (found.partial, found.aborted) == (current.partial, current.aborted)
            assert found.settled == current.settled


@given(starts, in_steps)
def test_what_comes(plane_library: ctypes.CDLL, start: int, course: list[Any]) -> None:
    twin = Incoming(plane_library, start)
    for name, *arguments in course:
        getattr(twin, name)(*arguments)
        twin.compare()
        assert twin.real.call("keep")
        twin.compare()
    twin.tell()
    twin.real.free()


out_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"), st.integers(0, 40),
            st.one_of(st.integers(0, 2000), st.integers(4000, 20000)), st.booleans()
        ),
        st.tuples(
            st.just("whole"), st.one_of(st.integers(0, 600), st.integers(4000, 6100)),
            st.booleans()
        ),
        st.tuples(st.just("abort")),
        st.tuples(st.just("flow"), st.integers(0, 5), st.integers(0, 3)),
    ),
    max_size=40,
)  # fmt: skip


class Outgoing:
    """A course of deliveries that go, and its twin: the bytes of each, and how it ended."""

    def __init__(self, library: ctypes.CDLL, *, lends: bool = False) -> None:
        self.real = Deliveries(library, window=0, max_frame=LARGE_FRAME if lends else MAX_FRAME)
        if lends:
            self.real.call("lend")
        self.window = self.credit = self.sent_frames = self.begun = 0
        self.sending: bytearray | None = None
        # Aborts that wait for a window.
        self.owed = 0
        self.expected: list[tuple[bytes, str]] = []
        self.seen: list[tuple[bytearray, str]] = []

    def flow(self, window: int, credit: int) -> None:
        self.window, self.credit = window, credit
        counts = {"next_incoming_id": self.sent_frames, "delivery_count": self.begun}
        self.real.plane.take(
            encode_frame("flow", handle=1, incoming_window=window, link_credit=credit,
                         next_outgoing_id=0, outgoing_window=9, **counts)
        )  # fmt: skip
        self.real.call("catch_up")
        self.look()

    def send(self, first: int, rest: int, last: bool) -> None:
        data = bytes(i % 251 for i in range(first + rest))
        may = self.sending is not None or (self.credit > 0 and self.window > 0)
        sent = self.real.call("send", data, c_size_t(first), c_size_t(rest), c_bool(last))
        if sent < 0:
            assert not may
            return
        if self.sending is None:
            self.sending = bytearray()
        self.sending += data[:sent]
        before = self.window
        self.look()
        assert sent == len(data) or self.window == 0 or self.credit == 0
        if (
            last
            and sent == len(data)
            and self.seen
            and self.seen[-1][1] == "whole"
            and (len(self.seen) > len(self.expected))
        ):
            assert before > 0
            self.expected.append((bytes(self.sending), "whole"))
            self.sending = None

    def whole(self, size: int, settled: bool) -> None:
        """Send a delivery in one frame: where the long way can, and it fits."""
        if self.sending is not None:
            return
        data = bytes(i % 251 for i in range(size))
        may = self.credit > 0 and self.window > 0 and self.owed == 0
        fits = size + FRAME_ROOM + len(b"tag") <= self.real.max_frame
        sent = self.real.call("send_whole", data, c_size_t(size), c_bool(settled))
        assert sent == (may and fits)
        if sent:
            self.expected.append((data, "whole"))
        self.look()

    def abort(self) -> None:
        if self.sending is None:
            return
        self.real.call("abort")
        shown = self.seen and self.seen[-1][1] == "begun"
        if shown:
            self.expected.append((bytes(self.sending), "aborted"))
            self.owed += self.window == 0
        self.sending = None
        self.look()

    def look(self) -> None:
        """Take the transfers that were written; the window is never exceeded."""
        for frame in self.real.frames():
            assert frame.name == "transfer"
            assert self.window > 0
            self.window -= 1
            self.sent_frames += 1
            if self.seen and self.seen[-1][1] == "begun":
                data, _ = self.seen.pop()
            else:
                data = bytearray()
                assert frame.fields["delivery_tag"] == b"tag"
                assert frame.fields["delivery_id"] == self.begun
                assert self.credit > 0
                self.begun += 1
                self.credit -= 1
            data += frame.payload
            state = "begun" if frame.fields.get("more") else "whole"
            if frame.fields.get("aborted"):
                state = "aborted"
                self.owed = 0
            self.seen.append((data, state))


@given(out_steps, st.booleans())
def test_what_goes(plane_library: ctypes.CDLL, course: list[Any], lends: bool) -> None:
    twin = Outgoing(plane_library, lends=lends)
    for name, *arguments in course:
        getattr(twin, name)(*arguments)
    twin.flow(10**5, 10**5)
    ended = [(bytes(data), state) for data, state in twin.seen if state != "begun"]
    assert ended == twin.expected
    twin.abort()
    twin.real.free()


@given(st.lists(st.binary(max_size=400), max_size=5))
def test_one_frame_is_the_same_by_either_way(
    plane_library: ctypes.CDLL, messages: list[bytes]
) -> None:
    long, short = (Outgoing(plane_library) for _ in range(2))
    for twin in (long, short):
        twin.real.plane.take(
            encode_frame("flow", handle=1, incoming_window=99, link_credit=99, next_incoming_id=0,
                         delivery_count=0, next_outgoing_id=0, outgoing_window=9)
        )  # fmt: skip
    for message in messages:
        size = c_size_t(len(message))
        assert long.real.call("send", message, c_size_t(0), size, c_bool(True)) == len(message)
        assert short.real.call("send_whole", message, size, c_bool(False))
    written = [twin.real.plane.output.write(10**7)[1] for twin in (long, short)]
    assert written[0] == written[1]
    for twin in (long, short):
        twin.real.free()


ranges = st.lists(
    st.tuples(st.integers(-5, 25), st.integers(-3, 30), st.integers(0, 3)), max_size=6
)


@given(starts, st.integers(0, 30), ranges)
def test_walks(
    plane_library: ctypes.CDLL, start: int, count: int, walks: list[tuple[int, int, int]]
) -> None:
    """Ranges that end before they begin, that wrap, and of which some are dropped meanwhile."""
    twin = Incoming(plane_library, start)
    for _ in range(count):
        twin.arrive(b"x", more=False, aborted=False, settled=False)
        assert twin.real.call("keep")
    waiting = [start + i for i in range(count)]
    for offset, length, step in walks:
        first, last = start + offset, start + offset + length
        expected, left = [], [each for each in waiting if first <= each <= last]
        while left:
            expected.append(left.pop(0))
            if step and len(expected) % step == 0:
                place = waiting.index(expected[-1])
                gone = waiting[place : place + 2]
                waiting = [each for each in waiting if each not in gone]
                left = [each for each in left if each not in gone]
        ids = (c_uint32 * 64)()
        bounds = c_uint32(first % MODULUS), c_uint32(last % MODULUS)
        steps = c_uint32()
        found = twin.real.call("walk", c_bool(False), *bounds, c_uint32(step), ids, byref(steps))
        assert [ids[i] for i in range(found)] == [each % MODULUS for each in expected]
        assert steps.value <= len(expected) + min(count, max(length, 0) + 1)
    twin.real.free()


@given(starts, st.integers(0, 30), st.integers(1, 2**30), st.integers(0, 2**30))
def test_a_range_of_unknown_ids_takes_no_step(
    plane_library: ctypes.CDLL, start: int, count: int, distance: int, length: int
) -> None:
    """It lies before the oldest delivery, or after the newest one."""
    twin = Incoming(plane_library, start)
    for _ in range(count):
        twin.arrive(b"x", more=False, aborted=False, settled=False)
        assert twin.real.call("keep")
    ids, steps = (c_uint32 * 64)(), c_uint32()
    for first in (start - distance - length, start + count - 1 + distance):
        bounds = c_uint32(first % MODULUS), c_uint32((first + length) % MODULUS)
        assert not twin.real.call("walk", c_bool(False), *bounds, c_uint32(0), ids, byref(steps))
        assert steps.value == 0
    twin.real.free()
