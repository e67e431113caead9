"""The appender's files, equal to the twin's byte for byte, and the tailer's entries."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_twin import TwinFile, raw, read_file, written

from quiver_fast.errors import OutputError
from quiver_fast.queuefile import deletion
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.layout import ROLL_CYCLES, cycle_file_head
from quiver_fast.queuefile.lock import WriterLock
from quiver_fast.queuefile.table import FREE, Table, cycles_in
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import verify_queue

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
DOCUMENTS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), TEXT),
        st.tuples(st.just("raw"), st.binary(max_size=300)),
        st.tuples(st.just("meta"), st.binary(min_size=1, max_size=100)),
    ),
    max_size=60,
)
# Coarse: no roll within a test, but at midnight.
COARSE = ["FAST_DAILY", "TEST4_DAILY"]


def only_file(directory: Path) -> Path:
    (path,) = directory.glob("*.cq4")
    return path


def read_all(directory: Path) -> list[tuple[int, bytes]]:
    tailer = Tailer(directory)
    return list(iter(tailer.read, None))


def append(appender: Appender, kind: str, content: str | bytes) -> None:
    if isinstance(content, str):
        appender.append_text(content)
    elif kind == "raw":
        appender.append_raw(content)
    else:
        appender.append_meta_data(content)


def stored(kind: str, content: str | bytes) -> tuple[bool, bytes]:
    """A document's content in the file, and whether it is meta-data."""
    if isinstance(content, str):
        text = content.encode()
        return False, (b"\n" + text if text[0] >= 0x80 else text)
    return kind == "meta", raw(content) if kind == "raw" else content


@pytest.mark.parametrize("roll", COARSE)
@settings(max_examples=40, deadline=None)
@given(documents=DOCUMENTS, stops=st.sets(st.integers(0, 59), max_size=3))
def test_bytes_are_the_twins(tmp_path_factory, roll: str, documents, stops: set[int]) -> None:
    """However often the appender is closed and opened in between."""
    directory = tmp_path_factory.mktemp("queue")
    appender = Appender(directory, roll=roll)
    for number, (kind, content) in enumerate(documents):
        if number in stops:
            appender.close()
            appender = Appender(directory)
        append(appender, kind, content)
    appender.close()
    pairs = [stored(kind, content) for kind, content in documents]
    assert only_file(directory).read_bytes() == written(ROLL_CYCLES[roll], pairs).finish()
    entries = [content for meta, content in pairs if not meta]
    assert [content for _, content in read_all(directory)] == entries
    assert list(read_file(only_file(directory).read_bytes())) == entries


@pytest.mark.parametrize("roll", ROLL_CYCLES)
def test_all_roll_cycles(tmp_path: Path, roll: str) -> None:
    count = 3000
    with Appender(tmp_path, roll=roll) as appender:
        indexes = [appender.append_text(f"entry {i}") for i in range(count)]
    assert [(i, t.decode()) for i, t in read_all(tmp_path)] == [
        (index, f"entry {i}") for i, index in enumerate(indexes)
    ]
    report = verify_queue(tmp_path)
    assert report.deviations == []
    assert report.entries == count


def test_many_pages_then_the_next_cycle(tmp_path: Path) -> None:
    """TEST4_DAILY: 32 pages of 32 slots, every fourth entry; then the file is full (A.5)."""
    roll = ROLL_CYCLES["TEST4_DAILY"]
    texts = [f"entry {i} {'x' * (i % 77)}".encode() for i in range(roll.capacity + 500)]
    with Appender(tmp_path, roll=roll.name) as appender:
        indexes = [appender.append_text(text.decode()) for text in texts]
        first = indexes[0] >> roll.shift
    assert [index >> roll.shift for index in indexes] == [first] * roll.capacity + [first + 1] * 500
    older, newer = (tmp_path / roll.file_name(first + i) for i in range(2))
    head = written(roll, [(False, text) for text in texts[: roll.capacity]])
    assert older.read_bytes() == head.finish(end=True)
    rest = written(roll, [(False, text) for text in texts[roll.capacity :]])
    assert newer.read_bytes() == rest.finish()
    assert read_all(tmp_path) == list(zip(indexes, texts, strict=True))
    tailer = Tailer(tmp_path)
    for number in [0, 1, 3, 4, 127, 128, 129, 4095, 4096, 4097, 4500]:
        tailer.move_to(indexes[number])
        assert tailer.read() == (indexes[number], texts[number])
    assert verify_queue(tmp_path).deviations == []


def test_clock_behind_the_last_file_appends_to_it(tmp_path: Path) -> None:
    """Cycle of an append: max(now, last existing); after an end mark the next (A.5)."""
    roll = ROLL_CYCLES["FAST_DAILY"]
    with Appender(tmp_path) as appender:
        today = appender.append_text("today") >> 32
    for days in (3, 4):
        (tmp_path / roll.file_name(today + days)).write_bytes(TwinFile(roll).finish(end=days == 4))
    with Appender(tmp_path) as appender:
        assert appender.append_text("later") == (today + 5) << 32
    assert cycles_in(tmp_path, roll) == [today, today + 3, today + 4, today + 5]
    assert verify_queue(tmp_path).deviations == []


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 4095, 65536, 1 << 20, 16 << 20])
def test_entry_sizes(tmp_path: Path, size: int) -> None:
    with Appender(tmp_path) as appender:
        appender.append_text("a" * size)
        appender.append_text("next")
    assert [len(content) for _, content in read_all(tmp_path)] == [size, 4]


def test_entry_limit(tmp_path: Path) -> None:
    with Appender(tmp_path, max_entry=10) as appender:
        appender.append_raw(b"abcd")
        with pytest.raises(OutputError, match="Invalid argument"):
            appender.append_raw(b"abcde")
        with pytest.raises(OutputError):
            appender.append_text("")
        with pytest.raises(ValueError, match="NUL"):
            appender.append_text("a\0b")
    with pytest.raises(ValueError, match="max_entry"):
        Appender(tmp_path, max_entry=1 << 30)


def test_records(tmp_path: Path) -> None:
    with Appender(tmp_path) as appender:
        last = append_records(appender, b"aaabbbccc", 3)
        assert appender.bounds == (last - 2, last, last + 1)
        assert append_records(appender, b"", 3) == -1
        with pytest.raises(ValueError, match="no records of"):
            append_records(appender, b"aaab", 3)
        with pytest.raises(ValueError, match="no records of"):
            append_records(appender, b"aaab", 0)
    assert [content for _, content in read_all(tmp_path)] == [b"aaa", b"bbb", b"ccc"]


def test_closed_appender_refuses(tmp_path: Path) -> None:
    appender = Appender(tmp_path)
    appender.close()
    appender.close()
    with pytest.raises(OutputError, match="Bad file descriptor"):
        appender.append_text("late")


def test_one_writer(tmp_path: Path) -> None:
    with Appender(tmp_path), pytest.raises(OutputError, match="another process writes"):
        Appender(tmp_path)
    Appender(tmp_path).close()


def lock_word(directory: Path, value: int | None = None) -> int:
    table = Table(directory, ROLL_CYCLES["FAST_DAILY"])
    if value is not None:
        table["chronicle.append.lock"] = value
    word = table["chronicle.append.lock"]
    table.close()
    return word


def test_lock_word_for_java(tmp_path: Path) -> None:
    with Appender(tmp_path):
        assert lock_word(tmp_path) == os.getpid()
    assert lock_word(tmp_path) == FREE


def test_dead_and_foreign_writers(tmp_path: Path) -> None:
    Appender(tmp_path).close()
    child = os.fork()
    if child == 0:
        os._exit(0)
    # A zombie: it has ended, and nobody has asked how.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    lock_word(tmp_path, child)
    Appender(tmp_path).close()
    os.waitpid(child, 0)
    for pid in (child, os.getpid()):
        lock_word(tmp_path, pid)
        Appender(tmp_path).close()
    # Java may put a thread's id above the pid.
    for word in (os.getppid(), os.getppid() | 7 << 32):
        lock_word(tmp_path, word)
        with pytest.raises(OutputError, match=f"process {os.getppid()} writes"):
            Appender(tmp_path)
    lock_word(tmp_path, FREE)
    lock = WriterLock(tmp_path)
    lock.release()


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut"])
@pytest.mark.parametrize("roll", ROLL_CYCLES)
def test_table_is_rebuilt_from_the_names(tmp_path: Path, damage: str, roll: str) -> None:
    with Appender(tmp_path, roll=roll) as appender:
        index = appender.append_text("kept")
    table = tmp_path / "metadata.cq4t"
    content = table.read_bytes()
    table.unlink()
    if damage != "missing":
        table.write_bytes(
            {"empty": b"", "garbage": bytes(range(256)), "cut": content[:200]}[damage]
        )
    with Appender(tmp_path) as appender:
        assert appender.bounds[1] == index
    report = verify_queue(tmp_path)
    assert (report.entries, report.deviations) == (1, [])


def test_unknown_roll_cycle_is_refused(tmp_path: Path) -> None:
    Appender(tmp_path).close()
    table = tmp_path / "metadata.cq4t"
    table.write_bytes(table.read_bytes().replace(b"yyyyMMdd'F'", b"yyyyMMdd'X'"))
    # The names tell that it was only damaged.
    Appender(tmp_path).close()
    assert b"yyyyMMdd'F'" in table.read_bytes()
    table.write_bytes(table.read_bytes().replace(b"yyyyMMdd'F'", b"yyyyMMdd'X'"))
    file = only_file(tmp_path)
    file.rename(str(file).replace("F.cq4", "X.cq4"))
    for kind in (Appender, Tailer):
        with pytest.raises(OutputError, match="roll cycle yyyyMMdd'X' is not supported"):
            kind(tmp_path)


def test_old_format_is_left_alone(tmp_path: Path) -> None:
    """Files of Chronicle Queue before 5.19.11 are not aligned (A.13): no damage, but not ours."""
    Appender(tmp_path).close()
    path = only_file(tmp_path)
    content = path.read_bytes().replace(b"dataFormat\xa1\x01", b"dataFormat\xa1\x00")
    path.write_bytes(content)
    for kind in (Appender, Tailer):
        with pytest.raises(OutputError):
            kind(tmp_path)
    assert path.read_bytes() == content


def test_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roll = ROLL_CYCLES["TEST4_DAILY"]
    # Today's file would stay.
    later = deletion.wall_ms() + 10 * roll.length_ms
    monkeypatch.setattr(deletion, "wall_ms", lambda: later)
    with Appender(tmp_path, roll=roll.name) as appender:
        tailer = Tailer(tmp_path)
        for _ in range(4):
            last = append_records(appender, b"x" * roll.capacity, 1)
        newest = last >> roll.shift
        with pytest.raises(ValueError, match="newest"):
            appender.retain(0)
        deleted = appender.retain(2)
        assert deleted == [tmp_path / roll.file_name(newest - i) for i in (3, 2)]
        assert appender.bounds[0] == (newest - 1) << roll.shift
        # One that was in a deleted file reads it to its end.
        assert tailer.skip(5 * roll.capacity) == 3 * roll.capacity
        assert verify_queue(tmp_path).deviations == []
    with Appender(tmp_path, retain=1) as appender:
        assert cycles_in(tmp_path, roll) == [newest]
        appender.append_text("the next cycle")
        assert cycles_in(tmp_path, roll) == [newest + 1]
    assert verify_queue(tmp_path).deviations == []


def test_space_is_given_back(tmp_path: Path) -> None:
    with Appender(tmp_path) as appender:
        append_records(appender, bytes([65]) * 3_000_000, 1000)
        assert only_file(tmp_path).stat().st_size % (1 << 20) == 0
    size = only_file(tmp_path).stat().st_size
    assert size % 4096 == 0
    assert size < 3_100_000 + 65808


def test_java_end_text_is_ignored(tmp_path: Path) -> None:
    with Appender(tmp_path, roll="TEST4_DAILY") as appender:
        append_records(appender, b"x" * 4097, 1)
    path = min(tmp_path.glob("*.cq4"))
    data = bytearray(path.read_bytes())
    at = data.rindex(struct.pack("<I", 0xC0000000)) + 4
    data[at : at + 4] = b"\xc3EOF"
    path.write_bytes(data)
    assert len(read_all(tmp_path)) == 4097
    assert verify_queue(tmp_path).deviations == []


def test_head_of_a_new_file(tmp_path: Path) -> None:
    Appender(tmp_path).close()
    data = only_file(tmp_path).read_bytes()
    assert data[:200] == cycle_file_head(ROLL_CYCLES["FAST_DAILY"], 200)
    assert len(data) == 65808 + 4096 - 65808 % 4096


def test_the_writer_keeps_few_pages_mapped(tmp_path: Path) -> None:
    """Of its file: the system keeps the others in its own memory."""
    with Appender(tmp_path) as appender:
        append_records(appender, b"x" * 64 * 200_000, 64)
        resident, of_file = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if re.match(r"[0-9a-f]+-", line):
                of_file = line.endswith(".cq4")
            elif of_file and line.startswith("Rss:"):
                resident += int(line.split()[1]) * 1024
    assert 0 < resident < 6 << 20
