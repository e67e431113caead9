"""Tables of queues that Java made: what it wrote stays, and damage is mended and told (A.9)."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.layout import (
    DAY_MS,
    ROLL_CYCLES,
    RollCycle,
    cycle_file_head,
    index_document,
    table_document,
    table_head,
    word_document,
)
from quiver_fast.queuefile.table import DEFAULTS, Table
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import verify_queue

NAME = "metadata.cq4t"
DAILY = ROLL_CYCLES["FAST_DAILY"]
NOW = 20_000 * DAY_MS + 5_000_000
SOURCE = b"\xc8sourceId\xa1\x07"
AT_17 = b"\xc8rollTime\xb2\x0517:00\xccrollTimeZone\xe1Z"
FOREIGN = b"\xccsomethingNew\xe3abc"
# The epoch and roll time of queues of Java's; all name the source 7.
HEADS = {
    "no epoch": table_head(DAILY, b"", SOURCE),
    "ours": table_head(DAILY),
    "roll time": table_head(replace(DAILY, epoch_ms=61_200_000), AT_17, SOURCE),
    "roll time of UTC": table_head(
        replace(DAILY, epoch_ms=61_200_000), AT_17[:-2] + b"\xe3UTC", SOURCE
    ),
    "epoch": table_head(replace(DAILY, epoch_ms=NOW), b"", SOURCE),
    "small epoch": table_head(replace(DAILY, epoch_ms=1), b"", SOURCE),
    "negative epoch": table_head(replace(DAILY, epoch_ms=-3_600_000), b"", SOURCE),
    "hourly": table_head(replace(ROLL_CYCLES["FAST_HOURLY"], epoch_ms=NOW), b"", SOURCE),
    "other fields": table_head(replace(DAILY, epoch_ms=NOW), b"", SOURCE + FOREIGN),
}
LONG_NAME = b"index." + b"n" * 300
KEYS = {name: 7 if name.startswith("chronicle.last") else value for name, value in DEFAULTS.items()}


def javas_table(head: bytes) -> bytearray:
    """Return a table with the keys of Java's and of two named tailers, as Java lays them out."""
    table = bytearray(head)
    for name, value in KEYS.items():
        if not name.startswith("quiver."):
            table += table_document(len(table), name, value)[0]
    table += table_document(len(table), "index.mine", 0x4E20_0000_0001)[0]
    event = b"\xb9" + bytes([len(LONG_NAME) & 0x7F | 0x80, len(LONG_NAME) >> 7]) + LONG_NAME
    table += word_document(len(table), event, 77)[0]
    return table.ljust(131072, b"\0")


def values(directory: Path, roll: RollCycle) -> dict[str, int]:
    table = Table(directory, roll)
    found = {name: table[name] for name in ("index.mine", LONG_NAME.decode())}
    table.close()
    return found


READ = {"index.mine": 0x4E20_0000_0001, LONG_NAME.decode(): 77}


def epoch_roll(name: str) -> RollCycle:
    roll = ROLL_CYCLES["FAST_HOURLY"] if name == "hourly" else DAILY
    epochs = {"roll": 61_200_000, "epoch": NOW, "small": 1, "negative": -3_600_000}
    epochs |= {"hourly": NOW, "other": NOW}
    return replace(roll, epoch_ms=epochs.get(name.split()[0], 0))


def cycle_file(roll: RollCycle) -> bytes:
    head = cycle_file_head(roll, 200)
    pages = index_document(200, "index2index", roll.count)
    entry = struct.pack("<I4s", 4, b"java")
    return head + pages + index_document(200 + len(pages), "index", roll.count) + entry


# Java: 17:00 is another day's; an epoch within a day leaves the names of days.
NAMES = {
    "no epoch": "20241004F.cq4",
    "ours": "20241004F.cq4",
    "roll time": "20241003F.cq4",
    "roll time of UTC": "20241003F.cq4",
    "epoch": "20241004F.cq4",
    "small epoch": "20241004F.cq4",
    "negative epoch": "20241003F.cq4",
    "hourly": "20241004-00F.cq4",
    "other fields": "20241004F.cq4",
}
CYCLES = {"roll": 19_999, "epoch": 0, "hourly": 0, "other": 0}


@pytest.mark.parametrize("name", HEADS)
def test_a_queue_keeps_its_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Epoch, roll time, other fields and other keys stay; indexes and names are as Java's."""
    roll = epoch_roll(name)
    content = javas_table(HEADS[name])
    (tmp_path / NAME).write_bytes(content)
    file = tmp_path / NAMES[name]
    file.write_bytes(cycle_file(roll))
    cycle = CYCLES.get(name.split()[0], 20_000)
    assert roll.file_name(roll.cycle_at(NOW)) == file.name
    assert list(iter(Tailer(tmp_path).read, None)) == [(cycle << 32, b"java")]
    with Appender(tmp_path) as appender:
        index = appender.append_text("ours")
        assert appender.roll == roll
    assert caplog.records == []
    after = (tmp_path / NAME).read_bytes()
    assert after[: len(HEADS[name])] == HEADS[name]
    assert values(tmp_path, roll) == READ
    assert [found for found, _ in iter(Tailer(tmp_path).read, None)] == [cycle << 32, index]
    assert verify_queue(tmp_path).deviations == []


Change = Callable[[bytearray], object]


def letter(word: bytes) -> Change:
    def change(table: bytearray) -> None:
        table[table.index(word) + 1] ^= 0x20

    return change


def put(word: bytes, offset: int, content: bytes) -> Change:
    def change(table: bytearray) -> None:
        at = table.index(word) + offset
        table[at : at + len(content)] = content

    return change


def at_the_end(content: bytes) -> Change:
    def change(table: bytearray) -> None:
        at = (len(table.rstrip(b"\0")) + 11) & ~3
        table[at : at + len(content)] = content

    return change


def begun(header: int, content: bytes) -> Change:
    """A key that a killed JVM began behind the last one."""
    return at_the_end(struct.pack("<I", header) + content)


WORDS = (b"header", b"STStore", b"wireType", b"WireType", b"BINARY_LIGHT", b"metadata", b"SCQMeta",
         b"roll", b"SCQSRoll", b"length", b"format", b"epoch", b"sourceId")  # fmt: skip
DAMAGES: dict[str, Change] = {
    **{f"letter of {word.decode()}": letter(word) for word in WORDS},
    "length of the head": put(b"\xb9\x06header", -4, b"\x10\0"),
    "length of the roll cycle": put(b"length", 7, b"\x01"),
    "form of the names": put(b"yyyyMMdd", 0, b"x"),
    "form of the epoch": put(b"epoch", 5, b"\xa0"),
    "bytes after the last key": at_the_end(b"\0\0\0\0dirt"),
    "bytes far behind": at_the_end(b"\0" * 40_000 + b"\x01"),
    "begun, length unknown": begun(0x80000000, b"\xb9\x0dindex.begun!!"),
    "begun, length known": begun(0x80000020, b"\xb9\x0dindex.begun!!"),
    "begun, ready": begun(0x20, b"\xb9\x0dindex"),
    "header of a key": put(b"listing.modCount", -6, b"\x11\x22"),
    "code of a key": put(b"listing.modCount", -2, b"\xb8"),
    "code of a word": put(b"listing.modCount", 17, b"\xa6"),
    "length of a name": put(b"listing.modCount", -1, b"\x40"),
    "letter of a name": put(b"listing.modCount", 3, b"\x01"),
    "first byte": put(b"listing.highestCycle", -6, b"\0\0\0\0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["no epoch", "roll time", "epoch"])
def test_a_damaged_table_keeps_what_can_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    table = javas_table(HEADS[name])
    DAMAGES[damage](table)
    (tmp_path / NAME).write_bytes(table)
    roll = epoch_roll(name)
    (tmp_path / roll.file_name(roll.cycle_at(NOW))).write_bytes(cycle_file(roll))
    assert verify_queue(tmp_path).deviations != []
    with Appender(tmp_path) as appender:
        assert appender.roll == roll
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert said.getMessage().startswith(f"{tmp_path / NAME}: damaged at ")
    assert (tmp_path / NAME).read_bytes().startswith(HEADS[name])
    assert values(tmp_path, roll) == READ
    after = (tmp_path / NAME).read_bytes()
    # A key whose name can be read keeps its word, too.
    assert after.count(b"chronicle.lastIndexReplicated") == 1
    assert after.count(b"listing.modCount") == 1
    assert verify_queue(tmp_path).deviations == []
    Appender(tmp_path).close()
    assert len(caplog.records) == 1


def test_a_damaged_epoch_of_a_roll_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = javas_table(HEADS["roll time"])
    put(b"epoch", 7, b"\x12")(table)
    (tmp_path / NAME).write_bytes(table)
    with Appender(tmp_path) as appender:
        assert appender.roll.epoch_ms == 61_200_000
    assert len(caplog.records) == 1
    assert (tmp_path / NAME).read_bytes().startswith(HEADS["roll time"])
    assert values(tmp_path, epoch_roll("roll time")) == READ


def test_a_foreign_head_of_a_damaged_length_is_mended(tmp_path: Path) -> None:
    """Keys that begin at no multiple of 4 could not be stored at once."""
    table = javas_table(HEADS["other fields"])
    table[0] -= 1
    (tmp_path / NAME).write_bytes(table)
    (tmp_path / NAMES["other fields"]).write_bytes(cycle_file(epoch_roll("other fields")))
    with Appender(tmp_path) as appender:
        assert appender.roll == epoch_roll("other fields")
    assert verify_queue(tmp_path).deviations == []


REFUSED = {
    "wire type FIELDLESS_BINARY": [(b"\xecBINARY_LIGHT", b"\xf0FIELDLESS_BINARY")],
    "wire type BINARY": [(b"\xecBINARY_LIGHT", b"\xe6BINARY")],
    "wire type TEXT": [(b"\xecBINARY_LIGHT", b"\xe4TEXT")],
    "wire type BINARY_HEAVY": [(b"\xecBINARY_LIGHT", b"\xecBINARY_HEAVY")],
    "roll time zone America/New_York": [(b"\xe1Z", b"\xf0America/New_York")],
    "roll cycle yyyyMMdd is": [(b"\xebyyyyMMdd'F'", b"\xe8yyyyMMdd")],
    "roll cycle yyyyMMdd'F' of 21600000 ms": [
        (b"\x00\x5c\x26\x05", struct.pack("<i", DAY_MS // 4))
    ],
    "epoch": [(b"\xa6\x80\xd6\xa5\x03", b"\xa7" + struct.pack("<q", NOW + 900 * DAY_MS))],
}


@pytest.mark.parametrize("refused", REFUSED)
def test_others_are_refused_by_name(tmp_path: Path, refused: str) -> None:
    named = "20241003.cq4" if refused == "roll cycle yyyyMMdd is" else "20241003F.cq4"
    head = HEADS["roll time"]
    if refused == "epoch":
        head = head.replace(AT_17, b"")
    for change in REFUSED[refused]:
        assert change[0] in head
        head = head.replace(*change)
    content = bytes(javas_table(head))
    (tmp_path / NAME).write_bytes(content)
    (tmp_path / named).write_bytes(cycle_file(DAILY))
    for kind in (Appender, Tailer):
        with pytest.raises(OutputError, match=refused):
            kind(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {NAME, named}
    assert (tmp_path / NAME).read_bytes() == content


@pytest.mark.parametrize("table", [None, b"", b"\0" * 131072, bytes(range(256)) * 512])
def test_files_of_no_known_roll_cycle_are_refused(tmp_path: Path, table: bytes | None) -> None:
    """A new table would hide them."""
    if table is not None:
        (tmp_path / NAME).write_bytes(table)
    (tmp_path / "20241003.cq4").write_bytes(b"java's")
    for kind in (Appender, Tailer):
        with pytest.raises(OutputError, match="names of its files are of no supported roll cycle"):
            kind(tmp_path)
    assert (tmp_path / "20241003.cq4").read_bytes() == b"java's"
    assert not (tmp_path / ".quiver.lock").exists()
