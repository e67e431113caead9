"""New files: complete and on disk before they have their name, and then the name is (A.1)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.create import create_cycle_file
from quiver_fast.queuefile.layout import roll_cycle
from quiver_fast.queuefile.table import TABLE_NAME

ROLL = roll_cycle("TEST4_DAILY")
META, LENGTH = 0x40000000, 0x3FFFFFFF


class Recorder:
    """Syncs and renames in order, each with the content of the file at that time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str, bytes]] = []
        self._sync, self._rename = os.fsync, Path.rename
        patch.setattr(os, "fsync", self.sync)
        patch.setattr(Path, "rename", lambda path, target: self.rename(path, target))

    def sync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self._sync(descriptor)
        if path.is_dir():
            self.calls.append(("sync folder", path.name, " ".join(os.listdir(path)).encode()))
        else:
            self.calls.append(("sync", path.name, path.read_bytes()))

    def rename(self, path: Path, target: str | Path) -> Path:
        assert not Path(target).exists()
        self.calls.append(("rename", path.name, path.read_bytes()))
        return self._rename(path, target)

    def of(self, name: str) -> list[tuple[str, str, bytes]]:
        """Return what was done for a file: the calls from the sync of its content on."""
        first = [call[:2] for call in self.calls].index(("sync", f"{name}.partial"))
        return self.calls[first : first + 3]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


def check_order(recorder: Recorder, folder: Path, name: str) -> bytes:
    """Judge how a file came to be; return what it was when it got its name."""
    synced, renamed, listed = recorder.of(name)
    assert synced[:2] == ("sync", f"{name}.partial")
    assert renamed == ("rename", f"{name}.partial", synced[2])
    assert listed[:2] == ("sync folder", folder.name)
    names = listed[2].decode().split()
    assert name in names
    assert f"{name}.partial" not in names
    return synced[2]


def check_complete(content: bytes) -> None:
    """Header, page of pages and first page, ready, and nothing else."""
    names, at = [], 0
    while at < len(content):
        (header,) = struct.unpack_from("<I", content, at)
        assert header & ~LENGTH == META
        # Event name: its code, its length, then it.
        assert content[at + 4] == 0xB9
        names.append(content[at + 6 : at + 6 + content[at + 5]])
        at = at + 4 + (header & LENGTH) + 3 & ~3
    assert (names, at) == ([b"header", b"index2index", b"index"], len(content))


def test_a_cycle_file(tmp_path: Path, recorder: Recorder) -> None:
    path = tmp_path / "20261120T4.cq4"
    create_cycle_file(path, ROLL)
    check_complete(check_order(recorder, tmp_path, path.name))
    assert len(recorder.calls) == 3


def test_a_new_queue_and_each_roll(tmp_path: Path, recorder: Recorder) -> None:
    with Appender(tmp_path, roll=ROLL.name) as appender:
        append_records(appender, b"x" * (ROLL.capacity + 1), 1)
    cycles = sorted(path.name for path in tmp_path.glob("*.cq4"))
    assert len(cycles) == 2
    for name in cycles:
        check_complete(check_order(recorder, tmp_path, name))
    check_order(recorder, tmp_path, TABLE_NAME)


def test_an_error_before_the_rename_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk it would take what others need."""

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        create_cycle_file(tmp_path / "20261120T4.cq4", ROLL)
    assert list(tmp_path.iterdir()) == []


def test_a_crash_before_the_rename_leaves_no_file_of_a_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(path: Path, target: Path) -> Path:
        raise SystemExit

    path = tmp_path / "20261120T4.cq4"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crash)
        with pytest.raises(SystemExit):
            create_cycle_file(path, ROLL)
    assert ROLL.cycle_of(next(tmp_path.iterdir()).name) is None
    # Its leftover file does not disturb anybody.
    create_cycle_file(path, ROLL)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
