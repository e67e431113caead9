"""The rows of a run while it goes on: their counts and their times."""

import subprocess
import sys
from bisect import bisect_right

import pytest

from quiver_fast.records.parser import read_transfers

ROLES = ("sender", "receiver")
# Epoch times of the wrapper and of records come from clocks that the system reads one by one.
CLOCKS_MS = 5
# Few messages: they come to a run of seconds without a limit of their rate.
LARGE = ("--body-size", "200k", "--credit", "10")


def quiver(*words):
    done = subprocess.run(
        [sys.executable, "-m", "quiver_fast.cli.pair.command", *words],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(text):
    """Return the cells of each row of upstream's table, numbers as floats."""
    table = text.split("\n\n")[0].splitlines()[3:]
    return [
        [None if cell == "-" else float(cell.replace(",", "")) for cell in line.split()]
        for line in table
    ]


def snapshots_of(directory, role):
    """Return the columns of a snapshots file by name."""
    names = ("timestamp", "period", "count", "period_count")
    lines = (directory / f"{role}-snapshots.csv").read_text().splitlines()
    return [dict(zip(names, map(int, line.split(",")), strict=False)) for line in lines]


def own_times(directory, role):
    """Return when each message was sent or received, in epoch milliseconds."""
    file = directory / f"{role}-transfers.csv.zst"
    found = read_transfers(file, operation="send" if role == "sender" else "receive")
    assert found.time_unit == "us"
    return sorted(time / 1000 for time in (found.received if role == "receiver" else found.sent))


def test_a_row_counts_what_was_done_until_its_time(tmp_path):
    """However late buffers were written, and whoever was slow: the records say so."""
    rows = rows_of(quiver("-d", "5", *LARGE, "--output", str(tmp_path)))
    assert len(rows) >= 2
    for side, role in enumerate(ROLES):
        times, taken = own_times(tmp_path, role), snapshots_of(tmp_path, role)
        assert sum(each["period_count"] for each in taken) == len(times)
        assert rows[-1][5 * side + 1] == len(times)
        for each in taken:
            least = bisect_right(times, each["timestamp"] - CLOCKS_MS)
            most = bisect_right(times, each["timestamp"] + CLOCKS_MS)
            assert least <= each["count"] <= most


def test_the_rows_of_many_ends_come_to_all_their_messages(tmp_path):
    words = ("-d", "5", "--senders", "2", "--receivers", "2", "--processes", "4")
    rows = rows_of(quiver(*words, *LARGE, "--output", str(tmp_path)))
    for side, role in enumerate(ROLES):
        ends = [snapshots_of(tmp_path, f"{role}.{number}") for number in (0, 1)]
        assert rows[-1][5 * side + 1] == sum(taken[-1]["count"] for taken in ends)
        for taken in ends:
            assert sum(each["period_count"] for each in taken) == taken[-1]["count"] > 0


def test_each_end_has_a_last_row_with_all_its_messages(tmp_path):
    rows = rows_of(quiver("-c", "3000", "--rate", "1k", "--output", str(tmp_path)))
    assert (rows[-1][1], rows[-1][6]) == (3000, 3000)
    for role in ROLES:
        taken = snapshots_of(tmp_path, role)
        assert sum(each["period_count"] for each in taken) == taken[-1]["count"] == 3000
        assert all(each["period"] >= 0 for each in taken)


@pytest.mark.measured
@pytest.mark.parametrize("words", [[], ["--senders", "2", "--receivers", "2"]])
def test_a_steady_rate_is_shown_steady(tmp_path, figure, words):
    # The last row has more than a second: of a shorter time a late message is more than 1 %.
    rows = rows_of(quiver("-d", "9", "--rate", "20k", *words, "--output", str(tmp_path)))
    assert len(rows) >= 5
    shown = [row[column] for row in rows for column in (2, 7) if row[column] is not None]
    worst = max(abs(rate / 20_000 - 1) for rate in shown)
    figure("worst row, away from 20k/s", 100 * worst, at_most=1, unit="%")
