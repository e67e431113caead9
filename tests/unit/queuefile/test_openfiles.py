"""Writers that close their files for others: what they wrote before and write after is there."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.lock import locked
from quiver_fast.queuefile.openfiles import OpenFiles
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import verify_queue

DURABILITIES = ["none", "interval:1", "group"]


@contextmanager
def sharing(folder: Path, count: int, most: int, durability: str) -> Iterator[list[Appender]]:
    """Let writers share so many open files."""
    shared = OpenFiles(most)
    with ExitStack() as stack:
        appenders = [
            stack.enter_context(Appender(folder / f"q{at}", durability=durability))
            for at in range(count)
        ]
        for appender in appenders:
            shared.share(appender)
        yield appenders


def entries(folder: Path) -> list[bytes]:
    tailer = Tailer(folder)
    found = []
    while (entry := tailer.read()) is not None:
        found.append(entry[1])
    return found


@pytest.mark.parametrize("durability", DURABILITIES)
def test_each_has_its_entries(tmp_path: Path, durability: str) -> None:
    with sharing(tmp_path, 5, 2, durability) as appenders:
        before = len(os.listdir("/proc/self/fd"))
        for turn in range(300):
            appenders[turn * 7 % 5].append_text(f"{turn}")
            assert sum(not appender.shut for appender in appenders) <= 2
        assert len(os.listdir("/proc/self/fd")) <= before + 4
    for at in range(5):
        assert entries(tmp_path / f"q{at}") == [
            b"%d" % turn for turn in range(300) if turn * 7 % 5 == at
        ]
        assert not verify_queue(tmp_path / f"q{at}").deviations


def test_the_one_that_was_used_longest_ago_is_closed(tmp_path: Path) -> None:
    with sharing(tmp_path, 4, 3, "none") as (one, two, three, four):
        for appender in (one, two, three, one, four):
            appender.append_text("entry")
        assert [each.shut for each in (one, two, three, four)] == [False, True, False, False]


def test_other_writers_are_kept_out_of_closed_files(tmp_path: Path) -> None:
    with sharing(tmp_path, 2, 1, "none") as (appender, other):
        appender.append_text("ours")
        other.append_text("in place of it")
        program = "from quiver_fast.queuefile.appender import Appender; Appender('q0')"
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert f"process {os.getpid()} writes to this queue" in ended.stderr


def test_entries_of_a_writer_that_does_not_see_us_stay(tmp_path: Path) -> None:
    """As in another container: its system has no process with our number."""
    with sharing(tmp_path, 2, 1, "none") as (appender, other):
        first = appender.append_text("ours")
        other.append_text("in place of it")
        with Appender(tmp_path / "q0") as foreign:
            foreign.append_text("theirs")
        assert appender.append_text("ours again") == first + 2
        assert appender.bounds[1] == first + 2
    assert entries(tmp_path / "q0") == [b"ours", b"theirs", b"ours again"]


def test_a_file_that_was_cut_takes_no_more(tmp_path: Path) -> None:
    with sharing(tmp_path, 2, 1, "none") as (appender, other):
        appender.append_text("entry")
        other.append_text("in place of it")
        (path,) = (tmp_path / "q0").glob("*.cq4")
        os.truncate(path, 512)
        with pytest.raises(OutputError, match="Input/output error"):
            appender.append_text("more")
        with pytest.raises(OutputError, match="Input/output error"):
            appender.close()


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with sharing(tmp_path, 2, 1, "none") as (appender, other):
        appender.append_text("entry")
        other.append_text("in place of it")
        (path,) = (tmp_path / "q0").glob("*.cq4")
        path.rename(tmp_path / "aside")
        with pytest.raises(OutputError, match="No such file"):
            appender.append_text("more")
        (tmp_path / "aside").rename(path)
        appender.append_text("more")
    assert entries(tmp_path / "q0") == [b"entry", b"more"]


def test_a_table_that_was_cut_is_an_error(tmp_path: Path) -> None:
    with sharing(tmp_path, 2, 1, "none") as (appender, other):
        appender.append_text("entry")
        other.append_text("in place of it")
        os.truncate(tmp_path / "q0" / "metadata.cq4t", 100)
        with pytest.raises(OutputError, match="Input/output error"):
            appender.append_text("more")
        other.append_text("more")
        with pytest.raises(OutputError, match="Input/output error"):
            appender.close()


def test_files_that_another_process_has_locked(tmp_path: Path) -> None:
    with sharing(tmp_path, 2, 1, "none") as (appender, other):
        appender.append_text("entry")
        other.append_text("in place of it")
        with (tmp_path / "q0" / ".quiver.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(OutputError, match="resource busy"):
                appender.append_text("more")
        appender.append_text("more")


def test_old_files_are_deleted_at_a_start_after_others_were_opened(tmp_path: Path) -> None:
    with sharing(tmp_path, 2, 1, "none") as (appender, _other):
        appender.append_text("entry")
        (path,) = (tmp_path / "q0").glob("*.cq4")
        with Appender(tmp_path / "new", retain=1) as made:
            made.append_text("entry")
        old = tmp_path / "new" / f"20200101{path.name[8:]}"
        old.write_bytes(path.read_bytes())
        with Appender(tmp_path / "new", retain=1) as opened:
            opened.append_text("entry")
        assert not old.exists()


class Busy:
    """Files that a sync needs."""

    def __init__(self, *, lent: bool) -> None:
        self.shut, self.lent, self.synced = True, lent, False
        self.shared: OpenFiles | None = None

    def take_back(self) -> None:
        self.shut = False

    def let_go(self) -> None:
        self.shut = True

    def is_idle(self) -> bool:
        return self.synced and not self.lent

    def finish_sync(self) -> bool:
        self.synced = not self.lent
        return not self.lent


def test_files_that_a_sync_needs_stay_open() -> None:
    shared = OpenFiles(1)
    busy, other = Busy(lent=False), Busy(lent=False)
    shared.use(busy, waits=True)
    with pytest.raises(BlockingIOError):
        shared.use(other, waits=True)
    # Who cannot wait has them synced at once.
    shared.use(other, waits=False)
    assert (busy.synced, busy.shut, other.shut) == (True, True, False)
    # If a sync of them is under way already, one more is open until the next sync.
    other.lent = True
    shared.use(busy, waits=False)
    assert (busy.shut, other.shut) == (False, False)


def test_one_server_for_a_directory(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(OutputError, match="another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
