"""Clocks that differ, told by a real exchange: the clock is a function, not the system's."""

from __future__ import annotations

import time

import pytest
from support.measured import Figure

from spark_analysis.host_clock import ClockServer, measure_offset


@pytest.mark.parametrize("ahead", [5 * 10**9, -3 * 10**9, 0])
def test_a_clock_that_is_ahead_or_behind(ahead: int) -> None:
    server = ClockServer(lambda: time.time_ns() + ahead)
    found = measure_offset(("127.0.0.1", server.port), time.time_ns)
    assert abs(found.nanoseconds - ahead) <= found.bound
    mine = measure_offset(("127.0.0.1", server.port), lambda: time.time_ns() + ahead)
    assert abs(mine.nanoseconds) <= mine.bound
    server.close()


@pytest.mark.measured
def test_the_bound_of_an_offset(figure: Figure) -> None:
    server = ClockServer(time.time_ns)
    found = measure_offset(("127.0.0.1", server.port), time.time_ns)
    figure("bound of an offset", found.bound / 1e6, at_most=50, unit="ms")
    server.close()


def test_a_host_that_is_not_there() -> None:
    server = ClockServer(time.time_ns)
    server.close()
    with pytest.raises(OSError, match="refused"):
        measure_offset(("127.0.0.1", server.port), time.time_ns)
