"""The time of syncs by policy, and the effect of a failed sync (A.11)."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from quiver_fast.errors import OutputError
from quiver_fast.queuefile import deletion
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.durability import Policy, boot_id, parse_durability
from quiver_fast.queuefile.layout import ROLL_CYCLES
from quiver_fast.queuefile.table import Table
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import verify_queue

CHECKPOINT = re.compile(rb"checkpoint: \{ seq: (\d+), pos: (\d+), crc32c: [0-9a-f]{8} \}")


def table_word(directory: Path, key: str) -> int:
    table = Table(directory, ROLL_CYCLES["FAST_DAILY"])
    value = table[key]
    table.close()
    return value


def synced_index(directory: Path) -> int:
    return table_word(directory, "chronicle.lastIndexMSynced")


def checkpoints(directory: Path) -> list[tuple[int, int]]:
    (path,) = directory.glob("*.cq4")
    return [(int(seq), int(pos)) for seq, pos in CHECKPOINT.findall(path.read_bytes())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", (Policy.NEVER, 0.0)),
        ("group", (Policy.GROUP, 0.0)),
        ("interval:250", (Policy.INTERVAL, 0.25)),
    ],
)
def test_policies(text: str, expected: tuple[Policy, float]) -> None:
    assert parse_durability(text) == expected


@pytest.mark.parametrize("text", ["", "None", "interval", "interval:", "interval:0", "interval:x"])
def test_no_policies(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="durability must be"):
        Appender(tmp_path, durability=text)


def test_none_never_checkpoints(tmp_path: Path) -> None:
    with Appender(tmp_path) as appender:
        index = appender.append_text("one")
        assert synced_index(tmp_path) < index
        appender.flush()
        assert synced_index(tmp_path) == index
    assert checkpoints(tmp_path) == []


def test_group_checkpoints_every_sync(tmp_path: Path) -> None:
    with Appender(tmp_path, durability="group") as appender:
        for count in (1, 10, 100):
            append_records(appender, b"x" * 8 * count, 8)
            appender.flush()
            # Nothing came: nothing is written.
            appender.flush()
        assert synced_index(tmp_path) == appender.bounds[1]
    found = checkpoints(tmp_path)
    assert [seq for seq, _ in found] == [1, 11, 111]
    assert found[0][1] == 65808
    assert verify_queue(tmp_path).deviations == []


def test_interval_syncs_by_itself(tmp_path: Path) -> None:
    with Appender(tmp_path, durability="interval:1") as appender:
        index = appender.append_text("one")
        deadline = time.monotonic() + 60
        while synced_index(tmp_path) < index and time.monotonic() < deadline:
            time.sleep(0.001)
        assert synced_index(tmp_path) == index
        appender.append_text("two")
        assert checkpoints(tmp_path)[0] == (1, 65808)
    assert verify_queue(tmp_path).deviations == []


def test_interval_syncs_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is synced whenever it changed: the deletion of files comes without an entry."""
    lowest = []

    class Watched(Table):
        def sync(self) -> None:
            lowest.append(self["listing.lowestCycle"])
            super().sync()

    monkeypatch.setattr("quiver_fast.queuefile.appender.Table", Watched)
    roll = ROLL_CYCLES["TEST4_DAILY"]
    # Today's file would stay.
    later = deletion.wall_ms() + 10 * roll.length_ms
    monkeypatch.setattr(deletion, "wall_ms", lambda: later)
    with Appender(tmp_path, roll=roll.name, durability="interval:3600000") as writer:
        last = append_records(writer, b"x" * (roll.capacity + 1), 1) >> roll.shift
        lowest.clear()
        writer.sync_now()
        writer.sync_now()
        assert lowest == [last - 1]
        writer.retain(1)
        writer.sync_now()
        writer.sync_now()
        assert lowest == [last - 1, last]


def test_failed_sync_ends_all_writing(tmp_path: Path) -> None:
    """A second attempt would prove nothing; readers go on."""
    appender = Appender(tmp_path, durability="group")
    appender.append_text("one")
    (path,) = tmp_path.glob("*.cq4")
    (number,) = (fd for fd in os.listdir("/proc/self/fd") if links_to(fd, path))
    os.close(int(number))
    for _ in range(2):
        with pytest.raises(OutputError, match="Bad file descriptor"):
            appender.flush()
        with pytest.raises(OutputError, match="Bad file descriptor"):
            appender.append_text("two")
    assert Tailer(tmp_path).read()[1] == b"one"
    with pytest.raises(OutputError, match="Bad file descriptor"):
        appender.close()
    with Appender(tmp_path) as appender:
        appender.append_text("two")
    assert Tailer(tmp_path).skip(9) == 2


def links_to(descriptor: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(path)
    except OSError:
        return False


def test_words_of_boot_and_stop(tmp_path: Path) -> None:
    assert boot_id() != 0
    with Appender(tmp_path):
        assert table_word(tmp_path, "quiver.bootId") == boot_id()
        assert table_word(tmp_path, "quiver.clean") == 0
    assert table_word(tmp_path, "quiver.clean") == 1
