"""Files that are deleted because there are newer ones, under clocks that are set (A.12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.queue_twin import TwinFile

from quiver_fast.queuefile import deletion
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.deletion import Expiry
from quiver_fast.queuefile.layout import DAY_MS, ROLL_CYCLES
from quiver_fast.queuefile.table import cycles_in

ROLL = ROLL_CYCLES["FAST_DAILY"]
TODAY = 20_000
MONTH = 30


class Clocks:
    """The two clocks of a machine, in days; setting one does not change the other."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = float(TODAY) + 0.5, 3.0
        patch.setattr(deletion, "wall_ms", lambda: int(self.wall * DAY_MS))
        patch.setattr(deletion, "steady_ms", lambda: int(self.steady * DAY_MS))

    def wait(self, days: float) -> None:
        self.wall += days
        self.steady += days


@pytest.fixture(name="clocks")
def clocks_of_a_test(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


# Cycles that have a file, the days that the clock is set by, and the cycles that go: by number.
CASES = {
    "each day has a file": ([-3, -2, -1, 0], 0, 2, [-3, -2]),
    "days without a file": ([-90, -60, -30, 0], 0, 2, [-90, -60]),
    "fewer files": ([-9, 0], 0, 2, []),
    "set forward": ([-1, 0, MONTH], MONTH, 2, [-1]),
    "set forward, one file": ([-1, 0, MONTH], MONTH, 1, [-1]),
    "set forward, before an entry": ([-2, -1, 0], MONTH, 2, [-2]),
    "set back": ([-1, 0, 1], -MONTH, 2, [-1]),
    "set back, to a file's day": ([-MONTH, -1, 0], -MONTH, 1, [-1]),
    "files of a later time": ([-1, 0, MONTH], 0, 1, [-1]),
    "more files of a later time": ([-1, 0, 5, 6, MONTH], 0, 2, [-1, 5]),
}


@pytest.mark.parametrize("case", CASES)
def test_number_decides_and_the_present_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clocks: Clocks, case: str
) -> None:
    days, step, retained, gone = CASES[case]
    expiry = Expiry(tmp_path, ROLL)
    assert expiry.expired([TODAY], retained) == []
    clocks.wall += step
    assert expiry.expired([TODAY + day for day in days], retained) == [TODAY + day for day in gone]
    said = [record.getMessage() for record in caplog.records]
    way = "forward" if step > 0 else "back"
    expected = f"{tmp_path}: the clock was set {way} by {MONTH * 86400} s; "
    assert [line.startswith(expected) for line in said] == [True] * (step != 0)
    # Each step is told once.
    expiry.expired([TODAY + day for day in days], retained)
    assert len(caplog.records) == len(said)


def test_the_time_before_a_step_passes(tmp_path: Path, clocks: Clocks) -> None:
    """The file that the clock would be in without the step stays until that day is over."""
    expiry = Expiry(tmp_path, ROLL)
    clocks.wall += MONTH
    files = [TODAY, TODAY + MONTH]
    assert expiry.expired(files, 1) == []
    clocks.wait(1)
    assert expiry.expired([*files, TODAY + MONTH + 1], 1) == files


@pytest.mark.parametrize("retain", [1, 2])
def test_a_start_after_the_clock_was_set_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clocks: Clocks, retain: int
) -> None:
    for day in (-1, 0, MONTH):
        content = TwinFile(ROLL).finish(end=day < MONTH)
        (tmp_path / ROLL.file_name(TODAY + day)).write_bytes(content)
    with Appender(tmp_path, retain=retain):
        assert cycles_in(tmp_path, ROLL) == [TODAY, TODAY + MONTH]
    (said,) = (record.getMessage() for record in caplog.records)
    name = ROLL.file_name(TODAY + MONTH)
    assert said.startswith(f"{tmp_path / name}: its time is {MONTH} cycles later than the clock's")


def test_a_start_after_a_pause_tells_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clocks: Clocks
) -> None:
    for day in (-90, -60):
        (tmp_path / ROLL.file_name(TODAY + day)).write_bytes(TwinFile(ROLL).finish(end=day == -90))
    with Appender(tmp_path, retain=2):
        assert cycles_in(tmp_path, ROLL) == [TODAY - 90, TODAY - 60]
    assert caplog.records == []
