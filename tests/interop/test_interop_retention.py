"""Queues that the server deleted files of, as the real Chronicle Queue reads them (A.12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chronicle import entries, read_queues, run_java

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.live import LiveEntries, remove_entries
from quiver_fast.queuefile.retention import Retention
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import verify_queue

pytestmark = [pytest.mark.peer("chronicle"), pytest.mark.timeout(200)]


def test_java_reads_what_is_left(tmp_path: Path) -> None:
    """Files without live entries are deleted, some at the front and some between, of eight."""
    kept = {2, 5}
    with Appender(tmp_path) as appender:
        live = LiveEntries(tmp_path)
        retention = Retention(appender, live.removed, live.oldest, 65536)
        gone = []
        for number in range(8):
            indexes = [appender.append_text(f"{{ file: {number}, n: {n} }}") for n in range(300)]
            gone += indexes[1 if number in kept else 0 :]
            if number < 7:
                assert retention.roll()
        remove_entries(appender, gone)
        retention.note_all(gone)
        assert len(retention.sweep()) == 5
        last = appender.append_text("last")
    assert len(list(tmp_path.glob("*.cq4"))) == 3
    assert verify_queue(tmp_path).deviations == []
    left = list(iter(Tailer(tmp_path).read, None))
    # Entries stay as long as their file.
    assert len(left) == 3 * 300 + 1
    assert left[-1] == (last, b"last")
    assert read_queues(tmp_path) == [left]
    places = [left[0], left[299], left[300], left[-1]]
    assert entries(run_java("seek", tmp_path, *(index for index, _ in places)).stdout) == places
