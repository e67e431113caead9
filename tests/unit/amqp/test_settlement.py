"""Unsettled deliveries and runs of outcomes against sets of ids that never wrap."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from ctypes import POINTER, byref, c_bool, c_int, c_uint8, c_uint32
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frames_layer import SOURCE

from buildtools import toolchain

MODULUS = 2**32
CAPACITY, LIMIT = 4, 16
ACCEPTED, RELEASED = 0x24, 0x26
starts = st.sampled_from([0, 2**31 - 5, MODULUS - 5])


class CUnsettled(ctypes.Structure):
    """An amqp_unsettled_t."""

    _fields_ = [
        ("waits", POINTER(c_uint8)), ("capacity", c_uint32), ("limit", c_uint32),
        ("oldest", c_uint32), ("next", c_uint32),
    ]  # fmt: skip


class CRun(ctypes.Structure):
    """An amqp_run_t."""

    _fields_ = [
        ("first", c_uint32), ("last", c_uint32), ("code", c_int), ("settled", c_bool),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("settlement") / "libsettlement.so"
    flags = ["-O2", "-g", "-std=gnu11", *shlex.split(os.environ.get("CFLAGS", ""))]
    command = [*toolchain.compiler(), *flags, "-shared", "-fPIC", str(SOURCE / "settlement.c")]
    subprocess.run([*command, "-o", str(path)], check=True)
    found = ctypes.CDLL(str(path))
    for name in ("unsettled_init", "unsettled_add", "unsettled_clip", "unsettled_settle",
                 "run_add"):  # fmt: skip
        getattr(found, f"amqp_{name}").restype = c_bool
    return found


def settled_of(library: ctypes.CDLL, ring: CUnsettled, first: int, last: int) -> list[int]:
    """Settle a range as it came; return the ids that had waited."""
    low, high = c_uint32(first % MODULUS), c_uint32(last % MODULUS)
    if not library.amqp_unsettled_clip(byref(ring), byref(low), byref(high)):
        return []
    count = (high.value - low.value) % MODULUS + 1
    assert count <= ring.capacity
    ids = [(low.value + i) % MODULUS for i in range(count)]
    return [i for i in ids if library.amqp_unsettled_settle(byref(ring), c_uint32(i))]


steps = st.lists(st.booleans() | st.tuples(st.integers(-4, 20), st.integers(-2, 20)), max_size=60)


@given(starts, steps)
def test_unsettled(library: ctypes.CDLL, start: int, course: list[bool | tuple[int, int]]) -> None:
    """Settled late, in reverse, in part, twice, and what was never sent."""
    ring, waiting, sent = CUnsettled(), set[int](), start
    sizes = c_uint32(start), c_uint32(CAPACITY), c_uint32(LIMIT)
    assert library.amqp_unsettled_init(byref(ring), *sizes)
    for step in course:
        if isinstance(step, bool):
            fits = sent - min(waiting, default=sent) < LIMIT
            assert library.amqp_unsettled_add(byref(ring), c_bool(step)) == fits
            waiting |= {sent} if fits and not step else set()
            sent += fits
        else:
            first = min(waiting, default=sent) + step[0]
            named = set(range(first, first + step[1] + 1))
            expected = [i % MODULUS for i in sorted(waiting & named)]
            assert settled_of(library, ring, first, first + step[1]) == expected
            waiting -= named
        oldest = min(waiting, default=sent)
        assert (ring.oldest, ring.next) == (oldest % MODULUS, sent % MODULUS)
    library.amqp_unsettled_free(byref(ring))


@given(starts, st.lists(st.integers(1, 6) | st.tuples(st.integers(-4, 20), st.integers(-2, 20))))
def test_unsettled_by_ranges(
    library: ctypes.CDLL, start: int, course: list[int | tuple[int, int]]
) -> None:
    """Many at once are as many one by one."""
    ring, waiting, sent = CUnsettled(), set[int](), start
    sizes = c_uint32(start), c_uint32(CAPACITY), c_uint32(LIMIT)
    assert library.amqp_unsettled_init(byref(ring), *sizes)
    for step in course:
        oldest = min(waiting, default=sent)
        if isinstance(step, int):
            fits = min(step, LIMIT - (sent - oldest))
            assert library.amqp_unsettled_add_all(byref(ring), c_uint32(step)) == fits
            waiting |= set(range(sent, sent + fits))
            sent += fits
        else:
            named = set(range(oldest + step[0], oldest + step[0] + step[1] + 1))
            low = c_uint32((oldest + step[0]) % MODULUS)
            high = c_uint32((oldest + step[0] + step[1]) % MODULUS)
            settled = 0
            if library.amqp_unsettled_clip(byref(ring), byref(low), byref(high)):
                settled = library.amqp_unsettled_settle_all(byref(ring), low, high)
            assert settled == len(waiting & named)
            waiting -= named
        oldest = min(waiting, default=sent)
        assert (ring.oldest, ring.next) == (oldest % MODULUS, sent % MODULUS)
    library.amqp_unsettled_free(byref(ring))


@given(
    starts,
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from([ACCEPTED, RELEASED]), st.booleans())),
)
def test_runs(library: ctypes.CDLL, start: int, answers: list[tuple[int, int, bool]]) -> None:
    run, written, ids = CRun(), list[tuple[int, int, int, bool]](), list[int]()
    for gap, code, settled in answers:
        ids.append((ids[-1] if ids else start) + gap)
        arguments = c_uint32(ids[-1] % MODULUS), code, c_bool(settled)
        if not library.amqp_run_add(byref(run), *arguments):
            written.append((run.first, run.last, run.code, run.settled))
            run = CRun()
            assert library.amqp_run_add(byref(run), *arguments)
    if run.code:
        written.append((run.first, run.last, run.code, run.settled))
    # Consecutive ids less their position are equal.
    keyed = [
        (i - n, i, *answer[1:]) for n, (i, answer) in enumerate(zip(ids, answers, strict=True))
    ]
    groups = [list(group) for _, group in groupby(keyed, lambda each: (each[0], *each[2:]))]
    assert written == [
        (group[0][1] % MODULUS, group[-1][1] % MODULUS, *group[0][2:]) for group in groups
    ]
