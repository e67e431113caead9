"""Files that go when nothing in them is live, against a model that remembers everything."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.live import LiveEntries, remove_entries
from quiver_fast.queuefile.retention import Retention
from quiver_fast.queuefile.tailer import Tailer

ROLL = "TEST4_DAILY"
# A cycle's index takes 2 pages of 32 slots, then come the entries.
SMALL = 2000

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 60)),
        # The first live entries, but for some at the front: a slow consumer's.
        st.tuples(st.just("remove"), st.integers(0, 3), st.integers(1, 80), st.integers(1, 3)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("reopen")),
    ),
    max_size=40,
)


def opened(directory: Path, appender: Appender, roll_size: int = SMALL) -> Retention:
    entries = LiveEntries(directory)
    return Retention(appender, entries.removed, entries.oldest, roll_size)


def remove(appender: Appender, retention: Retention, indexes: list[int]) -> None:
    remove_entries(appender, indexes)
    retention.note_all(indexes)


def files_of(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.cq4"))


@settings(max_examples=30, deadline=None)
@given(steps=steps)
def test_equals_a_model(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        appender = Appender(directory, roll=ROLL)
        retention = opened(directory, appender)
        model: dict[int, bytes] = {}
        number = 0
        for step in steps:
            match step:
                case ("append", int(count)):
                    for _ in range(count):
                        model[appender.append_text(f"entry {number}")] = f"entry {number}".encode()
                        number += 1
                case ("remove", int(first), int(count), int(stride)):
                    gone = list(model)[first::stride][:count]
                    remove(appender, retention, gone)
                    for index in gone:
                        del model[index]
                case ("roll",):
                    assert retention.roll()
                case ("reopen",):
                    appender.close()
                    appender = Appender(directory, roll=ROLL)
                    retention = opened(directory, appender)
            if retention.due_to_roll():
                retention.roll()
            retention.sweep()
            # The state after a crash at this point is exact.
            assert dict(LiveEntries(directory)) == model
        live_cycles = {index >> 32 for index in model}
        present = Tailer(directory).cycles()
        assert set(present[:-1]) == live_cycles - {present[-1]}
        appender.close()


def test_a_stuck_entry_keeps_its_file_only(tmp_path: Path) -> None:
    with Appender(tmp_path, roll=ROLL) as appender:
        retention = opened(tmp_path, appender)
        stuck = appender.append_text("stuck")
        for _ in range(200):
            remove(appender, retention, [appender.append_text("x" * 50) for _ in range(20)])
            if retention.due_to_roll():
                assert retention.roll()
            retention.sweep()
            assert len(files_of(tmp_path)) <= 3
        assert [index for index, _ in LiveEntries(tmp_path)] == [stuck]
        remove(appender, retention, [stuck])
        retention.sweep()
        assert len(files_of(tmp_path)) == 1


def test_entries_that_nobody_removed_keep_their_file(tmp_path: Path) -> None:
    with Appender(tmp_path, roll=ROLL) as appender:
        retention = opened(tmp_path, appender)
        remove(appender, retention, [appender.append_text("a")])
        foreign = appender.append_text("{ price: 7 }")
        assert retention.roll()
        assert retention.sweep() == []
        appender.append_text("b")
        tailer = Tailer(tmp_path)
        tailer.move_to(foreign)
        assert tailer.read() == (foreign, b"{ price: 7 }")


def test_listing_and_first_index_follow(tmp_path: Path) -> None:
    with Appender(tmp_path, roll=ROLL) as appender:
        retention = opened(tmp_path, appender)
        first = appender.append_text("a")
        remove(appender, retention, [first])
        assert retention.roll()
        assert [path.name for path in retention.sweep()] == [before_name(files_of(tmp_path)[0])]
        assert appender.bounds[0] == ((first >> 32) + 1) << 32
        assert listing(tmp_path) == ((first >> 32) + 1, (first >> 32) + 1)
        # A tailer that stood at the beginning goes on with what there is.
        second = appender.append_text("b")
        tailer = Tailer(tmp_path)
        tailer.move_to(first)
        assert tailer.read() == (second, b"b")


def before_name(name: str) -> str:
    """Return the name of the file of the day before."""
    from quiver_fast.queuefile.layout import roll_cycle

    roll = roll_cycle(ROLL)
    cycle = roll.cycle_of(name)
    assert cycle is not None
    return roll.file_name(cycle - 1)


def listing(directory: Path) -> tuple[int, int]:
    """Return the lowest and the highest cycle that the table tells."""
    from quiver_fast.queuefile.layout import roll_cycle
    from quiver_fast.queuefile.table import Table

    table = Table(directory, roll_cycle(ROLL))
    try:
        return table["listing.lowestCycle"], table["listing.highestCycle"]
    finally:
        table.close()


def test_a_file_that_cannot_go_is_said_once(tmp_path: Path) -> None:
    with Appender(tmp_path, roll=ROLL) as appender:
        retention = opened(tmp_path, appender)
        first, second = (appender.append_text(text) for text in "ab")
        remove(appender, retention, [first])
        name = files_of(tmp_path)[0]
        assert retention.roll()
        assert retention.sweep() == []
        remove(appender, retention, [second])
        # A folder in its place cannot be unlinked, whoever asks.
        (tmp_path / name).rename(tmp_path / "aside")
        (tmp_path / name).mkdir()
        with pytest.raises(OutputError, match=r"directory|permitted"):
            retention.sweep()
        assert retention.sweep() == []
        (tmp_path / name).rmdir()
