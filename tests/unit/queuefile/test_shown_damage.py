"""`dump` and `tail` of damaged files: the damage is told with its place, and the rest is shown."""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quiver_fast.cli.queue.command import main
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.layout import ROLL_CYCLES
from quiver_fast.queuefile.tailer import Tailer

ROLL = ROLL_CYCLES["TEST4_DAILY"]
COUNT = 10
# From one entry to the next: a header, 7 bytes and pad.
STEP = 12
CYCLE = 20_000


@pytest.fixture(name="content", scope="module")
def content_of_a_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of ten entries, without an end mark."""
    directory = tmp_path_factory.mktemp("intact")
    with Appender(directory, roll=ROLL.name) as appender:
        for number in range(COUNT):
            appender.append_text(f"entry {number}")
    (path,) = directory.glob("*.cq4")
    return path.read_bytes()


def place_of(content: bytes, number: int) -> int:
    return content.index(b"entry %d" % number) - 4


def ended(content: bytes) -> bytes:
    at = place_of(content, COUNT - 1) + STEP
    return content[:at] + struct.pack("<I", 0xC0000000) + content[at + 4 :]


def three_files(
    directory: Path, content: bytes, damaged: int, change: Callable[[bytearray], object]
) -> Path:
    """Make three files of ten entries, one of them damaged; return that one."""
    paths = [directory / ROLL.file_name(CYCLE + number) for number in range(3)]
    for number, path in enumerate(paths):
        data = bytearray(content if number == 2 else ended(content))
        if number == damaged:
            change(data)
        path.write_bytes(data)
    return paths[damaged]


def index(file: int, number: int) -> int:
    return (CYCLE + file) << 32 | number


def numbers(output: str) -> list[int]:
    """Return the indexes of the entries that are shown, each with its own text."""
    shown = [line.split("\t") for line in output.splitlines()]
    assert all(text == f"entry {int(found) & 0xFFFFFFFF}" for found, text in shown)
    return [int(found) for found, _ in shown]


# Headers that a document may have got.
HEADERS = {
    "free": 0,
    "not ready": 0x80000000,
    "not ready, of its length": 0x80000007,
    "end mark": 0xC0000000,
    "longer than the file": 0x3FFFFFFF,
    "all bits": 0xFFFFFFFF,
    "meta-data longer than the file": 0x7FFFFFFF,
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("entries", [(0,), (5,), (9,), (2, 6), (4, 5), tuple(range(10))], ids=str)
@pytest.mark.parametrize("file", [0, 1, 2])
def test_dump_of_damaged_headers(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    file: int,
    entries: tuple[int, ...],
    header: str,
) -> None:
    def damage(data: bytearray) -> None:
        for number in entries:
            struct.pack_into("<I", data, place_of(content, number), HEADERS[header])

    path = three_files(tmp_path, content, file, damage)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["dump", str(tmp_path), "--quiet"]) == 1
    captured = capsys.readouterr()
    every = [index(one, number) for one in range(3) for number in range(COUNT)]
    lost = {index(file, number) for number in entries}
    shown = numbers(captured.out)
    assert shown == [one for one in every if one not in lost]
    places = re.findall(r"warning: (\S+): at (\d+): (\d+) entr", captured.err)
    assert {found for found, _, _ in places} == {str(path)}
    assert int(places[0][1]) == place_of(content, entries[0])
    assert sum(int(count) for _, _, count in places) == len(entries)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def every_index() -> list[int]:
    return [index(file, number) for file in range(3) for number in range(COUNT)]


def put(number: int, header: int) -> Callable[[bytearray], object]:
    """Return what gives an entry another header."""
    return lambda data: struct.pack_into("<I", data, place_of(data, number), header)


def cut_at(number: int) -> Callable[[bytearray], object]:
    def cut(data: bytearray) -> None:
        del data[place_of(data, number) + 2 :]

    return cut


def forget_words(data: bytearray) -> None:
    """Lose what tells of the last entry, and the length of one before it."""
    put(5, 0x3FFFFFFF)(data)
    data[64:80] = bytes(16)


# Damages of the file in the middle: the hidden entries, and the warnings.
CHANGES: dict[str, tuple[Callable[[bytearray], object], range, str]] = {
    "cut": (cut_at(5), range(5, 10), "5 entries cannot be read"),
    "as meta-data": (put(5, 0x40000007), range(9, 10), "1 entry cannot be read"),
    "swallows one": (put(5, 19), range(9, 10), "1 entry cannot be read"),
    "empty": (bytearray.clear, range(10), "at 0: the file is empty"),
    "no header": (lambda data: data.__setitem__(slice(0, 64), bytes(64)), range(10),
                  "at 0: no header of a queue's file"),
    "no words": (forget_words, range(5, 10), "what follows is not shown"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("words", [["dump"], ["dump", "--json"], ["tail", "--from", "0"]])
def test_damage_of_other_kinds(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    words: list[str],
    change: str,
) -> None:
    made, lost, told = CHANGES[change]
    path = three_files(tmp_path, content, 1, made)
    stop_at_the_end(monkeypatch)
    assert main([words[0], str(tmp_path), *words[1:], "--quiet"]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"quiver-queue: warning: {path}: at ")
    assert told in line
    # Indexes: where a header told a wrong length, they are right again behind the end of the file.
    shown = [
        int(found) for found in re.findall(r'^(?:{"index": )?(\d+)', captured.out, re.MULTILINE)
    ]
    assert shown == [one for one in every_index() if one not in [index(1, n) for n in lost]]


def stop_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt a tail as soon as it waits."""

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)


def test_dump_goes_on_without_a_file_that_cannot_be_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = three_files(tmp_path, content, 1, lambda data: None)
    told: list[tuple[Path, int, str]] = []
    path.unlink()
    # The system refuses to map it, whoever asks.
    path.symlink_to("/proc/self/status")
    tailer = Tailer(tmp_path, lambda *damage: told.append(damage))
    shown = [found for found, _ in iter(tailer.read, None)]
    assert shown == [one for one in every_index() if one >> 32 != CYCLE + 1]
    assert [damage[:2] for damage in told] == [(path, 0)]


KINDS = {
    "a folder": lambda path: path.mkdir(),
    "a full folder": lambda path: (path / "deeper").mkdir(parents=True),
    "a link to a folder": lambda path: path.symlink_to("/proc"),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [["dump"], ["dump", "--json"], ["tail", "--from", "0"]])
def test_what_is_in_place_of_a_file_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    words: list[str],
    kind: str,
) -> None:
    path = three_files(tmp_path, content, 1, lambda data: None)
    path.unlink()
    KINDS[kind](path)
    stop_at_the_end(monkeypatch)
    assert main([words[0], str(tmp_path), *words[1:], "--quiet"]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"quiver-queue: warning: {path}: at 0: a ")
    assert line.endswith(" in place of a file with entries")
    assert len(captured.out.splitlines()) == 2 * COUNT
    # The check fails, too.
    assert main(["verify", str(tmp_path), "--quiet"]) == 1
    assert f"fault: {path.name}: at 0: no file" in capsys.readouterr().out


def test_a_queue_within_the_folder_of_another_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = three_files(tmp_path, content, 1, lambda data: None)
    path.unlink()
    Appender(path).close()
    assert main(["dump", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_tail_begins_behind_damage(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
) -> None:
    """From the end on nothing old is shown, but damage that the tail comes by is told."""
    path = three_files(tmp_path, content, 2, put(9, 0))
    stop_at_the_end(monkeypatch)
    assert main(["tail", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    at = place_of(content, 9)
    assert captured.err == f"quiver-queue: warning: {path}: at {at}: 1 entry cannot be read\n"


@pytest.mark.parametrize("start", [4, 5, 6, 9])
def test_an_index_behind_damage_is_found(tmp_path: Path, content: bytes, start: int) -> None:
    three_files(tmp_path, content, 2, put(5, 0))
    tailer = Tailer(tmp_path, lambda *damage: None)
    tailer.move_to(index(2, start))
    found = tailer.read()
    assert found is not None
    assert found[0] == index(2, start + (start == 5))


def test_what_is_no_damage(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
) -> None:
    """Neither a reservation that was never finished, nor an entry that is being written."""

    def begin(data: bytearray) -> None:
        put(9, 0x80000007)(data)
        # The words are those of the entry before.
        at = place_of(content, 8)
        struct.pack_into("<qQ", data, 64, at, at << 32 | 8)

    three_files(tmp_path, content, 2, begin)
    stop_at_the_end(monkeypatch)
    assert main(["dump", str(tmp_path), "--quiet"]) == 0
    shown = numbers(capsys.readouterr().out)
    assert shown == every_index()[:-1]
    assert main(["tail", str(tmp_path)]) == 130

    def abandon(data: bytearray) -> None:
        put(5, 0x80000007)(data)
        at = place_of(content, 9)
        struct.pack_into("<qQ", data, 64, at, at << 32 | 8)

    three_files(tmp_path, content, 2, abandon)
    capsys.readouterr()
    assert main(["dump", str(tmp_path), "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert len(captured.out.splitlines()) == 29


def test_recovery_tells_of_the_entries_that_it_drops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = three_files(tmp_path, content, 2, put(5, 0))
    Appender(tmp_path).close()
    (said,) = (record.getMessage() for record in caplog.records)
    at = place_of(content, 5)
    assert said == f"{path}: damaged at {at}; 5 entries from there on are dropped"
    assert len(list(iter(Tailer(tmp_path).read, None))) == 25
    Appender(tmp_path).close()
    assert len(caplog.records) == 1
