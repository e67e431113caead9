"""A wall clock that goes on by the monotonic clock, whatever becomes of the system's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from quiver_fast import wall_clock
from quiver_fast.wall_clock import StepWatch, WallClock, wall_base

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


@pytest.mark.parametrize(
    ("steps", "milliseconds", "after"),
    [
        ([], None, None),
        ([0.001, -0.001], None, None),
        ([0.0011], 1.1, 2.0),
        ([2], 2000.0, 2.0),
        ([-60], -60000.0, 2.0),
        ([2, -62], -60000.0, 2.0),
        ([2, -2], 2000.0, 2.0),
        ([0, 0, -0.5], -500.0, 6.0),
        ([0.0006, 0.0006], 1.2, 4.0),
    ],
)
def test_a_step_above_a_millisecond_is_told(
    clocks: Clocks, steps: list[float], milliseconds: float | None, after: float | None
) -> None:
    watch = StepWatch()
    for step in steps:
        clocks.pass_by(2 * SECOND)
        clocks.wall += round(step * SECOND)
        watch.look()
    told = None
    if milliseconds is not None:
        told = {"milliseconds": milliseconds, "after_seconds": after}
    assert watch.section() == told


def test_a_step_before_an_arrow_starts_is_told(clocks: Clocks) -> None:
    base = WallClock().base
    clocks.wall -= SECOND
    watch = StepWatch(base)
    clocks.pass_by(SECOND // 10)
    watch.look()
    assert watch.section() == {"milliseconds": -1000.0, "after_seconds": 0.1}
