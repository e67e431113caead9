"""The counts of sessions and links against a twin whose numbers never wrap."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frames_layer import CFlow
from support.session_layer import (
    CLink,
    CSession,
    TwinReceiver,
    TwinSender,
    TwinSession,
    compile_sessions,
    flow,
    wrapped,
)

MAX = 2**32 - 1
# A few steps before an id wraps, and before it looks negative.
starts = st.sampled_from([0, 2**31 - 3, MAX - 3])
# Some peers give all that a uint can be.
windows = st.integers(0, 5) | st.sampled_from([2**31 - 1, 2**31, MAX])
steps = st.lists(st.sampled_from(["send", "receive", "flow"]), max_size=30)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compile_sessions(tmp_path_factory.mktemp("session"))


def numbers(record: ctypes.Structure) -> dict[str, int]:
    return {str(field[0]): getattr(record, field[0]) for field in record._fields_}


@given(starts, windows, starts, windows, steps, st.data())
def test_session(
    library: ctypes.CDLL, ours: int, window: int, theirs: int, peer_window: int,
    course: list[str], data: st.DataObject,
) -> None:  # fmt: skip
    twin, session = TwinSession(ours, window, theirs, peer_window), CSession()
    begins = [
        lambda: library.amqp_session_begin_ours(byref(session), c_uint32(ours), c_uint32(window)),
        lambda: library.amqp_session_begin_theirs(
            byref(session), c_uint32(theirs), c_uint32(peer_window), c_uint32(0)
        ),
    ]
    # Either side may be the first to begin.
    for begin in begins if data.draw(st.booleans()) else reversed(begins):
        begin()
    for step in course:
        if step == "send":
            assert library.amqp_session_send(byref(session)) == twin.send()
        elif step == "receive":
            assert library.amqp_session_receive(byref(session)) == twin.receive()
        else:
            # A peer that lies has seen more than there was.
            seen = data.draw(st.none() | st.integers(ours, twin.next_outgoing_id + 2))
            window, outgoing = data.draw(windows), data.draw(windows)
            # Its id may be ahead: frames that it sent count before they come.
            theirs = twin.next_incoming_id + data.draw(st.integers(0, 3))
            twin.take_flow(seen, window, theirs, outgoing)
            frame = flow(next_incoming_id=seen, incoming_window=window, next_outgoing_id=theirs,
                         outgoing_window=outgoing)  # fmt: skip
            library.amqp_session_take_flow(byref(session), byref(frame))
        assert numbers(session) == wrapped(twin)


def test_session_tells_what_it_counts(library: ctypes.CDLL) -> None:
    session, frame = CSession(7, 9, 3, MAX, 5, 0), CFlow()
    library.amqp_session_tell(byref(session), byref(frame))
    assert frame.has_next_incoming_id
    told = (frame.next_incoming_id, frame.incoming_window, frame.next_outgoing_id)
    assert told == (MAX, 5, 9)
    assert not frame.has_handle


@given(starts, st.lists(st.sampled_from(["send", "flow", "drained"]), max_size=30), st.data())
def test_sender(library: ctypes.CDLL, start: int, course: list[str], data: st.DataObject) -> None:
    twin, link = TwinSender(start), CLink()
    library.amqp_link_attach(byref(link), c_uint32(start))
    for step in course:
        if step == "send":
            assert library.amqp_sender_send(byref(link)) == twin.send()
        elif step == "drained":
            assert library.amqp_sender_drained(byref(link)) == twin.drained()
        else:
            # Late flows: those that left before the last deliveries came.
            least = max(start, twin.count - 8)
            seen = data.draw(st.none() | st.integers(least, twin.count))
            credit, drain = data.draw(st.none() | st.integers(0, 6)), data.draw(st.booleans())
            twin.take_flow(seen, credit, drain)
            frame = flow(handle=0, delivery_count=seen, link_credit=credit, drain=drain)
            library.amqp_sender_take_flow(byref(link), byref(frame))
        assert (link.delivery_count, link.credit) == (twin.count % (MAX + 1), twin.credit)


@pytest.mark.parametrize("credit", [2**31 - 1, 2**31, MAX])
def test_credit_may_be_all_that_a_uint_is(library: ctypes.CDLL, credit: int) -> None:
    link = CLink()
    library.amqp_link_attach(byref(link), c_uint32(MAX))
    frame = flow(handle=0, delivery_count=MAX, link_credit=credit)
    library.amqp_sender_take_flow(byref(link), byref(frame))
    assert link.credit == credit
    assert library.amqp_sender_send(byref(link))
    assert (link.credit, link.delivery_count) == (credit - 1, 0)


@given(starts, st.lists(st.sampled_from(["receive", "flow", "credit"]), max_size=30), st.data())
def test_receiver(library: ctypes.CDLL, start: int, course: list[str], data: st.DataObject) -> None:
    twin, link = TwinReceiver(start), CLink()
    library.amqp_link_attach(byref(link), c_uint32(start))
    for step in course:
        if step == "receive":
            assert library.amqp_receiver_receive(byref(link)) == twin.receive()
        elif step == "credit":
            more = data.draw(st.integers(0, 4))
            twin.limit += more
            link.credit += more
        else:
            # A sender that drains moves on within its credit; one that lies, anywhere.
            near = st.integers(twin.count - 2, twin.limit + 2).filter(lambda count: count >= 0)
            count, available = data.draw(st.none() | near), data.draw(st.none() | st.integers(0, 9))
            frame = flow(handle=0, delivery_count=count, available=available)
            took = library.amqp_receiver_take_flow(byref(link), byref(frame))
            assert took == twin.take_flow(count, available)
        counted = (link.delivery_count, link.credit, link.available, link.drained)
        assert counted == (twin.count % (MAX + 1), twin.credit, twin.available, twin.drained)


def test_link_tells_what_it_counts(library: ctypes.CDLL) -> None:
    link, frame = CLink(0, MAX, 10, 4, 0, True), CFlow()
    library.amqp_link_tell(byref(link), c_uint32(3), byref(frame))
    told = (frame.handle, frame.delivery_count, frame.link_credit, frame.available, frame.drain)
    assert told == (3, MAX, 10, 4, True)
    assert all((frame.has_handle, frame.has_delivery_count, frame.has_link_credit))
