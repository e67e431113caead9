"""A wall clock that goes on by the monotonic clock, whatever becomes of the system's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from quiver_fast import wall_clock
from quiver_fast.wall_clock import WallClock, wall_base

EPOCH = 1_790_000_000 * 10**9
SECOND = 10**9


class Clocks:
    """The two clocks of a system, which the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monotonic, self.wall = 7 * SECOND, EPOCH
        self.delays: list[int] = []
        clocks = SimpleNamespace(monotonic_ns=self._monotonic, time_ns=lambda: self.wall)
        monkeypatch.setattr(wall_clock, "time", clocks)

    def _monotonic(self) -> int:
        found = self.monotonic
        self.pass_by(self.delays.pop(0) if self.delays else 0)
        return found

    def pass_by(self, nanoseconds: int) -> None:
        self.monotonic += nanoseconds
        self.wall += nanoseconds


@pytest.fixture(name="clocks")
def set_clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.mark.parametrize("step", [2 * SECOND, -60 * SECOND, 1, -(10**18)])
def test_a_step_is_not_in_it(clocks: Clocks, step: int) -> None:
    clock = WallClock()
    assert clock.now_ns() == EPOCH
    clocks.wall += step
    clocks.pass_by(3 * SECOND)
    assert clock.now_ns() == EPOCH + 3 * SECOND
    assert clock.now_ms() == (EPOCH + 3 * SECOND) // 10**6


def test_two_of_one_base_agree(clocks: Clocks) -> None:
    first = WallClock()
    clocks.wall += SECOND
    assert WallClock(first.base).now_ns() == first.now_ns()
    assert WallClock().now_ns() == first.now_ns() + SECOND


def test_a_reader_that_loses_its_cpu_reads_again(clocks: Clocks) -> None:
    # Between the first two readings a second passes, between the others none.
    clocks.delays = [SECOND]
    assert wall_base() == EPOCH - 7 * SECOND
