"""Writers killed at random moments, full disks, and readers beside the writer."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.preload import compile_preload, preloading
from support.queue_kills import content_of, killed_writer

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.layout import ROLL_CYCLES
from quiver_fast.queuefile.live import remove_entries
from quiver_fast.queuefile.retention import Retention
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import verify_queue

# How often writers are killed, over all cases.
KILLS = int(os.environ.get("QUIVER_FAST_KILLS", "60"))
# Kills of one queue, which is read wholly after each.
KILLS_OF_ONE = 10
# Files cannot be mapped while `quiver_no_maps` is set.
NO_MAPS = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int quiver_no_maps;

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  if (!quiver_no_maps || flags != MAP_SHARED)
    return (void *) syscall(SYS_mmap, at, size, protection, flags, fd, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}
"""
ROLLS = """
import ctypes, sys
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.retention import Retention
from quiver_fast.queuefile.tailer import Tailer

with Appender(sys.argv[1]) as appender:
    appender.append_text("before")
    tailer = Tailer(sys.argv[1])
    assert tailer.read()[1] == b"before"
    no_maps = ctypes.c_int.in_dll(ctypes.CDLL(None), "quiver_no_maps")
    no_maps.value = 1
    assert not Retention(appender, {}, {}, 65536).roll()
    no_maps.value = 0
    assert tailer.read() is None
    appender.append_text("after")
    while (entry := tailer.read()) is None:
        pass
    assert entry[1] == b"after"
"""


def kill_again_and_again(directory: Path, times: int, roll: str, durability: str) -> None:
    generator = random.Random(times)
    acknowledged: list[tuple[int, int]] = []
    count = 0
    for _ in range(times):
        acknowledged += killed_writer(directory, roll, durability, count, generator)
        # Also what was committed and not acknowledged stays.
        Appender(directory, roll=roll).close()
        left = snapshot(directory)
        count = check_acknowledged(directory, acknowledged)
        assert verify_queue(directory).deviations == []
        Appender(directory).close()
        assert snapshot(directory) == left


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.cq4*")}


def check_acknowledged(directory: Path, acknowledged: list[tuple[int, int]]) -> int:
    """Every acknowledged entry is there, in order; return the number after the last entry."""
    tailer = Tailer(directory)
    entries = dict(iter(tailer.read, None))
    assert all(entries[index] == content_of(number) for number, index in acknowledged)
    bodies = (content if content[0] < 0x80 else content[6:] for content in entries.values())
    numbers = [int(body.split()[0]) for body in bodies]
    assert numbers == list(range(len(numbers)))
    return len(numbers)


# TEST4_DAILY: a file is full after 4096 entries, an index page after 128.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("roll", "durability"),
    [("FAST_DAILY", "none"), ("TEST4_DAILY", "group"), ("TEST4_DAILY", "none"),
     ("TEST_SECONDLY", "interval:1")],
)  # fmt: skip
def test_killed_writers(tmp_path: Path, roll: str, durability: str) -> None:
    for part in range(max(KILLS // (4 * KILLS_OF_ONE), 1)):
        kill_again_and_again(tmp_path / str(part), KILLS_OF_ONE, roll, durability)


# Space, A.12


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mount)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system needs root")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def take_all_space(path: Path) -> None:
    with path.open("ab", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(4096))


def fill(appender: Appender, size: int) -> int:
    """Append until it fails; return how often it did not."""
    count = 0

    def append_all() -> None:
        nonlocal count
        while True:
            appender.append_text("x" * size)
            count += 1

    with pytest.raises(OutputError, match=r"No space left|File too large"):
        append_all()
    return count


def test_full_disk_is_an_error_and_no_crash(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    appender = Appender(small_disk / "queue")
    large = fill(appender, 50_000)
    # There may be room for a smaller one; in the end for none.
    small = fill(appender, 10)
    tailer = Tailer(small_disk / "queue")
    assert tailer.skip(1 << 30) == large + small
    with pytest.raises(OutputError):
        appender.append_text("x" * 10)
    ballast.unlink()
    appender.append_text("there is room again")
    assert tailer.read()[1] == b"there is room again"
    appender.close()
    assert verify_queue(small_disk / "queue").deviations == []
    with Appender(small_disk / "queue") as appender:
        appender.append_text("and after the restart")


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_failure_while_rolling(tmp_path: Path) -> None:
    """The old file is ended, the new one cannot be made: appends fail until it can."""
    roll = ROLL_CYCLES["TEST4_DAILY"]
    appender = Appender(tmp_path, roll=roll.name)
    append_records(appender, b"x" * roll.capacity, 1)
    tailer = Tailer(tmp_path)
    with file_size_limit(100):
        for _ in range(3):
            with pytest.raises(OutputError, match="File too large"):
                appender.append_text("does not fit")
    assert tailer.skip(1 << 20) == roll.capacity
    appender.append_text("fits")
    # After an end mark a tailer looks for the next file every millisecond.
    time.sleep(0.01)
    assert tailer.read()[1] == b"fits"
    appender.close()
    report = verify_queue(tmp_path)
    assert [file.entries for file in report.files] == [roll.capacity, 1]
    assert report.deviations == []


def test_failure_of_an_early_roll(tmp_path: Path) -> None:
    """The old file was cut to its end; it takes the next entries, whose space is allocated."""
    appender = Appender(tmp_path)
    appender.append_text("before")
    tailer = Tailer(tmp_path)
    with file_size_limit(100):
        assert not Retention(appender, {}, {}, 65536).roll()
        assert tailer.read()[1] == b"before"
        assert tailer.read() is None
    entries = [b"x" * 1000] * 50
    append_records(appender, b"".join(entries), 1000)
    time.sleep(0.01)
    assert [content for _, content in iter(tailer.read, None)] == entries
    appender.close()
    report = verify_queue(tmp_path)
    assert (report.entries, report.deviations) == (51, [])


def test_an_early_roll_on_a_full_disk_keeps_the_room_for_removals(small_disk: Path) -> None:
    with Appender(small_disk / "queue") as appender:
        index = appender.append_text("removed again and again")
        take_all_space(small_disk / "ballast")
        assert not Retention(appender, {}, {}, 65536).roll()
        take_all_space(small_disk / "ballast")
        for _ in range(200):
            remove_entries(appender, [index])
        (small_disk / "ballast").unlink()
    assert verify_queue(small_disk / "queue").deviations == []


def test_a_next_file_that_cannot_be_mapped_at_first(tmp_path: Path) -> None:
    """Readers go on to it as soon as it is there, so the old file takes nothing more."""
    source, queue = tmp_path / "no_maps.c", tmp_path / "queue"
    source.write_text(NO_MAPS)
    environment = {**os.environ, **preloading(compile_preload(source, tmp_path))}
    command = [sys.executable, "-c", ROLLS, queue]
    subprocess.run(command, env=environment, check=True, timeout=60)
    assert verify_queue(queue).deviations == []


def test_file_size_limit(tmp_path: Path) -> None:
    """EFBIG, where no file system can be mounted too."""
    with file_size_limit(3 << 20):
        appender = Appender(tmp_path)
        count = fill(appender, 5000)
        assert count > 500
    appender.append_text("the limit is off")
    appender.close()
    report = verify_queue(tmp_path)
    assert (report.entries, report.deviations) == (count + 1, [])


def test_full_disk_at_start(small_disk: Path) -> None:
    take_all_space(small_disk / "ballast")
    with pytest.raises(OutputError, match="No space left"):
        Appender(small_disk / "queue")
    (small_disk / "ballast").unlink()
    Appender(small_disk / "queue").close()


# Readers beside the writer


def follow(directory: Path, count: int, found: list) -> None:
    tailer = Tailer(directory)
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        entry = tailer.read()
        if entry is None:
            time.sleep(0.0005)
        else:
            found.append(entry)


@pytest.mark.parametrize("durability", ["none", "interval:5"])
def test_tailers_follow_across_rolls(tmp_path: Path, durability: str) -> None:
    """TEST_SECONDLY, for some seconds: in this process and in another one."""
    count = 2500
    appender = Appender(tmp_path, roll="TEST_SECONDLY", durability=durability)
    found: list[tuple[int, bytes]] = []
    reader = threading.Thread(target=follow, args=(tmp_path, count, found))
    reader.start()
    program = (
        "import sys, pathlib; sys.path[:0] = sys.argv[2:]; "
        "from test_crash import follow; found = []; "
        f"follow(pathlib.Path(sys.argv[1]), {count}, found); print(hash(tuple(found)), len(found))"
    )
    places = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), *places],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONHASHSEED": "0"},
    )  # fmt: skip
    appended = []
    for number in range(count):
        text = f"{number} {'w' * (number % 2000)}"
        appended.append((appender.append_text(text), text.encode()))
        time.sleep(0.001)
    reader.join()
    output = other.communicate(timeout=60)[0]
    appender.close()
    assert found == appended
    assert output.split()[1] == str(count)
    assert len({index >> 32 for index, _ in appended}) >= 3
    report = verify_queue(tmp_path)
    assert (report.entries, report.deviations) == (count, [])


def test_tailer_survives_growth_and_truncation(tmp_path: Path) -> None:
    """The appender's map moves and its file shrinks; tailers stand where they stood."""
    tailer = None
    for turn in range(5):
        with Appender(tmp_path) as appender:
            tailer = tailer or Tailer(tmp_path)
            append_records(appender, bytes([65 + turn]) * 5_000_000, 1000)
            assert tailer.skip(2500) == 2500
        assert tailer.skip(10_000) == 2500
        assert tailer.read() is None


def test_tailer_at_a_page_border(tmp_path: Path) -> None:
    """A stop cuts the file; the header that tailers look at stays in it."""
    with Appender(tmp_path) as appender:
        tailer = Tailer(tmp_path)
        # The first entry is at 65808.
        appender.append_text("x" * (69632 - 65808 - 4))
        appender.append_text("y" * (4096 - 4))
        assert tailer.skip(9) == 2
    assert tailer.read() is None


def test_tailer_waits_for_the_first_file(tmp_path: Path) -> None:
    tailer = Tailer(tmp_path)
    assert tailer.read() is None
    with Appender(tmp_path, roll="TEST_SECONDLY") as appender:
        index = appender.append_text("first")
        time.sleep(0.11)
        assert tailer.read() == (index, b"first")


def test_seek_beyond_the_end_then_more(tmp_path: Path) -> None:
    with Appender(tmp_path) as appender:
        first = appender.append_text("one")
        tailer = Tailer(tmp_path)
        for beyond in (first + 5, first + (1 << 32)):
            tailer.move_to(beyond)
            assert tailer.read() is None
        tailer.move_to(first + 1)
        appender.append_text("two")
        assert tailer.read() == (first + 1, b"two")
        assert tailer.index == first + 2
        tailer.move_to(-5)
        assert tailer.read() == (first, b"one")
    with pytest.raises(OutputError, match="No such file"):
        Tailer(tmp_path / "absent")
