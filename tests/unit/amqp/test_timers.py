"""Idle time-outs, and waiting for a peer that answers at once."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_bool, c_int64, c_uint32, c_uint64

import pytest
from hypothesis import given
from hypothesis import strategies as st

MILLISECOND = 10**6
NEVER = 2**63 - 1
SPAN = 30_000


class CTimers(ctypes.Structure):
    """An amqp_timers_t."""

    _fields_ = [(name, c_int64) for name in ("patience", "period", "heard", "spoken")]


class CWait(ctypes.Structure):
    """An amqp_wait_t."""

    _fields_ = [("may_spin", c_bool), ("failures", c_uint32), ("pause", c_uint64)]


timeouts = st.sampled_from([0, 1, 3, 1000, 2**32 - 1])


@given(timeouts, timeouts, st.lists(st.tuples(st.sampled_from("hsl"), st.integers(0, 3000))))
def test_idle_timeouts(
    plane_library: ctypes.CDLL, ours: int, theirs: int, course: list[tuple[str, int]]
) -> None:
    """A peer that is silent for our time is given up; we speak within half of its own."""
    now = heard = spoken = 10**15
    timers = CTimers()
    plane_library.amqp_timers_init(byref(timers), c_uint32(ours), c_int64(now))
    plane_library.amqp_timers_take_open(byref(timers), c_uint32(theirs))
    for step, milliseconds in course:
        now += milliseconds * MILLISECOND
        if step == "h":
            heard = timers.heard = now
        elif step == "s":
            spoken = timers.spoken = now
        silent = ours > 0 and now - heard >= ours * MILLISECOND
        owed = theirs > 0 and now - spoken >= theirs * MILLISECOND // 2
        assert plane_library.amqp_timers_is_silent(byref(timers), c_int64(now)) == silent
        assert plane_library.amqp_timers_owes(byref(timers), c_int64(now)) == owed
        following = plane_library.amqp_timers_next(byref(timers))
        assert (now >= following) == (silent or owed)
        if following == NEVER:
            assert not ours
            assert not theirs


@given(st.lists(st.booleans(), max_size=40))
def test_a_spin_in_vain_is_left_out_more_and_more_often(
    plane_library: ctypes.CDLL, answers: list[bool]
) -> None:
    wait, failures = CWait(may_spin=True), 0
    for paid in answers:
        assert plane_library.amqp_wait_span(byref(wait)) == SPAN
        plane_library.amqp_wait_paid(byref(wait), c_bool(paid))
        failures = 0 if paid else min(failures + 1, 10)
        for _ in range(2**failures if failures else 0):
            assert plane_library.amqp_wait_span(byref(wait)) == 0


def test_a_user_may_forbid_to_spin(plane_library: ctypes.CDLL) -> None:
    wait = CWait()
    plane_library.amqp_wait_init(byref(wait), c_bool(False))
    assert plane_library.amqp_wait_span(byref(wait)) == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one CPU")
def test_nobody_spins_on_one_cpu(plane_library: ctypes.CDLL) -> None:
    cpus, wait = os.sched_getaffinity(0), CWait()
    plane_library.amqp_wait_init(byref(wait), c_bool(True))
    assert plane_library.amqp_wait_span(byref(wait)) == SPAN
    assert plane_library.amqp_wait_cpus() == len(cpus)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        plane_library.amqp_wait_init(byref(wait), c_bool(True))
        assert plane_library.amqp_wait_span(byref(wait)) == 0
    finally:
        os.sched_setaffinity(0, cpus)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one CPU")
def test_who_gave_way_sleeps_the_longest(plane_library: ctypes.CDLL) -> None:
    """A yield that took the CPU away begins the longest pause, whatever paid before."""
    wait = CWait()
    plane_library.amqp_wait_init(byref(wait), c_bool(True))
    plane_library.amqp_wait_paid(byref(wait), c_bool(True))
    plane_library.amqp_wait_gave_way(byref(wait))
    spans = [plane_library.amqp_wait_span(byref(wait)) for _ in range(1025)]
    assert spans == [0] * 1024 + [SPAN]
    plane_library.amqp_wait_paid(byref(wait), c_bool(True))
    assert plane_library.amqp_wait_span(byref(wait)) == SPAN
