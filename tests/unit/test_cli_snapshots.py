"""The counts of a snapshot, and the time of its records."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.cli.arrow import snapshot_taker
from quiver_fast.cli.arrow.control import Flushed
from quiver_fast.cli.arrow.snapshot_taker import SnapshotTaker, covered_ns

START = 1_472_344_673_000
"""When the taker begins, in epoch milliseconds."""
UPTIME = 7_000_000_000
"""The same on the monotonic clock, in nanoseconds."""
USAGE = SimpleNamespace(cpu_ms=100, rss=4096)


class Arrow:
    """A file of records and its taker, and a clock that the test sets; times are in ms."""

    def __init__(self, directory, monkeypatch, operation="receive", rate=0):
        self.operation = operation
        self.file = directory / "transfers.csv"
        self.file.write_bytes(b"")
        self.now = 0.0
        clock = SimpleNamespace(
            monotonic_ns=lambda: UPTIME + round(self.now * 1e6),
        )
        monkeypatch.setattr(snapshot_taker, "time", clock)
        options = SimpleNamespace(streaming=False, settlement=False, rate=rate, rate_steps=None)
        plan = SimpleNamespace(
            operation=operation, options=options, run_start=None, run_id=None,
            clock_base=START * 1_000_000 - UPTIME,
        )  # fmt: skip
        self.lines = directory / "snapshots.csv"
        self.taker = SnapshotTaker(plan, self.file, self.lines)

    def does(self, *times):
        """Write the records of transfers at ``times``, milliseconds from the start."""
        with self.file.open("ab") as file:
            for time in times:
                own = round((START + time) * 1000)
                line = f"{own},0" if self.operation == "send" else f"{own - 50},{own}"
                file.write(f"{line}\n".encode())

    def tells(self, time):
        """Return the report of an arrow that wrote all its records so far until ``time``."""
        return Flushed(UPTIME + round(time * 1e6), self.file.stat().st_size)

    def take(self, now, told=None, ended=False):
        self.now = now
        return self.taker.take(USAGE, told, ended)


@pytest.fixture(name="arrow")
def make_arrow(tmp_path, monkeypatch):
    return Arrow(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(None, None, 100), (120, None, 80), (None, 170, 70), (120, 170, 50), (90, 210, 100),
     (250, None, 0), (120, 110, 0)],
)  # fmt: skip
def test_a_period_is_cut_to_its_records(first, last, expected):
    assert covered_ns(100, 200, first, last) == expected


def test_records_are_counted_up_to_the_moment_that_the_arrow_tells(arrow):
    arrow.does(100, 600, 1400)
    told = arrow.tells(1500)
    arrow.does(1503)
    first = arrow.take(1506, told)
    assert (first.timestamp, first.count) == (START + 1500, 3)
    second = arrow.take(3506, arrow.tells(3500))
    assert (second.timestamp, second.period, second.period_count) == (START + 3500, 2000, 1)
    assert second.covered == 2000


def test_two_arrows_that_tell_of_one_moment_agree_whenever_they_are_asked(tmp_path, monkeypatch):
    counts = []
    for name, now in (("one", 1501), ("other", 1660)):
        (tmp_path / name).mkdir()
        arrow = Arrow(tmp_path / name, monkeypatch)
        arrow.does(*range(0, 1500, 10))
        told = arrow.tells(1500)
        arrow.does(*range(1500, int(now), 10))
        taken = arrow.take(now, told)
        counts.append((taken.timestamp, taken.count, taken.rate))
    assert counts[0] == counts[1] == (START + 1500, 150, 100)


def test_an_arrow_that_tells_nothing_is_counted_to_the_end_of_its_file(arrow):
    arrow.does(100, 600, 1400, 1503)
    taken = arrow.take(1506)
    assert (taken.timestamp, taken.count) == (START + 1506, 4)


def test_so_is_one_that_has_not_told_for_long(arrow):
    arrow.does(100)
    told = arrow.tells(500)
    arrow.does(600)
    assert arrow.take(1500, told).count == 1
    late = arrow.take(1501, told)
    assert (late.timestamp, late.count) == (START + 1501, 2)
    # Its later report of an earlier time is no step back.
    again = arrow.take(1502, arrow.tells(1400))
    assert (again.timestamp, again.period_count, again.rate) == (START + 1501, 0, None)


def test_the_first_period_begins_with_the_first_record(arrow):
    assert arrow.take(1000, arrow.tells(1000)).rate == 0
    arrow.does(*range(2500, 3000, 5))
    first = arrow.take(3004, arrow.tells(3000))
    assert (first.period, first.covered, first.rate) == (2000, 500, 200)
    arrow.does(*range(3000, 5000, 5))
    assert arrow.take(5004, arrow.tells(5000)).rate == 200


@pytest.mark.parametrize(("operation", "rate"), [("receive", 0), ("send", 0), ("receive", 200)])
def test_the_last_period_ends_with_the_last_record(tmp_path, monkeypatch, operation, rate):
    arrow = Arrow(tmp_path, monkeypatch, operation, rate)
    arrow.does(*range(0, 1000, 5))
    arrow.take(1004, arrow.tells(1000))
    arrow.does(*range(1000, 1505, 5))
    told = arrow.tells(1550)
    last = arrow.take(2000, told, ended=True)
    assert (last.period, last.covered) == (1000, 500)
    assert last.rate == 202, "the first record is at the beginning, and the last at the end"


def test_a_late_sender_is_not_measured_by_the_times_of_its_schedule(tmp_path, monkeypatch):
    arrow = Arrow(tmp_path, monkeypatch, "send", rate=200)
    arrow.does(*range(0, 1000, 5))
    arrow.take(1004, arrow.tells(1000))
    # From here on it sends half of the messages that are due.
    arrow.does(*range(1000, 1250, 5))
    last = arrow.take(1600, arrow.tells(1500), ended=True)
    assert (last.covered, last.rate) == (500, 100)


def test_a_late_sender_that_was_killed_is_measured_until_its_end(tmp_path, monkeypatch):
    arrow = Arrow(tmp_path, monkeypatch, "send", rate=200)
    told = arrow.tells(1000)
    arrow.does(*range(0, 1500, 5))
    assert arrow.take(2000, told, ended=True).covered == 2000


def test_a_last_period_without_records_is_whole(arrow):
    arrow.does(100)
    arrow.take(1004, arrow.tells(1000))
    last = arrow.take(2000, arrow.tells(1900), ended=True)
    assert (last.covered, last.rate) == (1000, 0)


@given(
    st.lists(st.integers(0, 10_000), max_size=60),
    st.lists(st.tuples(st.integers(0, 10_000), st.booleans()), max_size=8),
)
@settings(deadline=None)
def test_the_periods_add_up_to_all_records(tmp_path_factory, times, moments):
    """Whatever is told, and when: each record is in one period."""
    with pytest.MonkeyPatch.context() as patch:
        arrow = Arrow(tmp_path_factory.mktemp("arrow"), patch)
        times = sorted(times)
        done, periods = 0, []
        for moment, tells in sorted(moments):
            until = sum(time < moment for time in times)
            arrow.does(*times[done:until])
            done = until
            told = arrow.tells(moment)
            periods.append(arrow.take(moment, told if tells else None))
            assert periods[-1].count == until
        arrow.does(*times[done:])
        periods.append(arrow.take(11_000, arrow.tells(11_000), ended=True))
        assert sum(period.period_count for period in periods) == len(times)
        assert sum(period.period for period in periods) == 11_000
        assert all(0 <= period.covered < period.period + 1 for period in periods)
        assert arrow.lines.read_text() == "".join(period.line() for period in periods)
