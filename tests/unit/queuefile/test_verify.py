"""The checker finds every deviation, and the decoder every form of entry."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queue_twin import END, META, NOT_READY, raw

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.dump import Entry, Form, decode, read_entries
from quiver_fast.queuefile.layout import ROLL_CYCLES
from quiver_fast.queuefile.verify import verify_queue

ROLL = ROLL_CYCLES["TEST4_DAILY"]
FIRST = 784  # offset of the first entry of a TEST4_DAILY file
COUNT = 200


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    with Appender(tmp_path, roll=ROLL.name, durability="group") as appender:
        for number in range(COUNT):
            appender.append_text(f"entry {number:05}")
            if number == 150:
                appender.flush()
    return tmp_path


def set_at(place: int, content: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[place : place + len(content)] = content

    return change


def word(place: int, value: int) -> Callable[[bytearray], None]:
    return set_at(place, struct.pack("<q", value))


def header(place: int, value: int) -> Callable[[bytearray], None]:
    return set_at(place, struct.pack("<I", value))


def cut(place: int) -> Callable[[bytearray], None]:
    return lambda data: data.__delitem__(slice(place, None))


@pytest.mark.parametrize(
    ("change", "offset", "text"),
    [
        (cut(0), 0, "the file is empty"),
        (header(0, 0), 0, "a first document with header 00000000"),
        (set_at(14, b"X"), 4, "no !SCQStore"),
        (set_at(0x20, b"X"), 0, "no aligned word writePosition"),
        (set_at(0xC4, b"\x00"), 0, "dataFormat is 0, not 1"),
        (word(0x40, 5), 0x40, "writePosition is 5"),
        (word(0x48, 5), 0x48, "the sequence word is"),
        (word(0xB0, 4), 0xB0, "lastIndex is 4"),
        (word(0x98, 0x110), 0x98, "no index document"),
        (header(FIRST, NOT_READY), FIRST, "not ready, header 80000000"),
        (header(FIRST, 1 << 29), FIRST, "cut by the end of the file"),
        (set_at(FIRST + 15, b"\1"), FIRST + 15, "pad that is not zero"),
        (set_at(FIRST + 6, b"\1"), FIRST + 6, "a control character in a text"),
        (set_at(FIRST + 6, b"\xff"), FIRST + 6, "a text that is not UTF-8"),
        (set_at(FIRST + 6, b"X"), 3492, "a checkpoint of"),
        (lambda data: data.extend(b"dirt"), 8192, "bytes after the last document"),
    ],
)
def test_deviations(
    queue: Path, change: Callable[[bytearray], None], offset: int, text: str
) -> None:
    (path,) = queue.glob("*.cq4")
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    found = verify_queue(queue).deviations
    assert any(
        text in deviation.text and (deviation.path, deviation.offset) == (path, offset)
        for deviation in found
    ), [str(deviation) for deviation in found]


def test_clean_queue(queue: Path) -> None:
    told: list[tuple[int, int]] = []
    report = verify_queue(queue, lambda at, total: told.append((at, total)))
    assert (report.entries, report.deviations) == (COUNT, [])
    (file,) = report.files
    (path,) = queue.glob("*.cq4")
    assert (file.path, file.entries, file.ended) == (path, COUNT, False)
    assert file.size <= path.stat().st_size < file.size + 4100


def test_index_deviations(queue: Path) -> None:
    """Every word of the pages: each is either right or found wrong."""
    (path,) = queue.glob("*.cq4")
    data = path.read_bytes()
    (top,) = struct.unpack_from("<q", data, 0x98)
    for at in (top, FIRST - 288):
        slots = at + 4 + (struct.unpack_from("<I", data, at)[0] & ~META) - 8 * ROLL.count
        for place in (slots - 16, slots - 8, slots, slots + 8, slots + 8 * 31):
            changed = bytearray(data)
            struct.pack_into("<q", changed, place, 12344)
            path.write_bytes(changed)
            assert verify_queue(queue).deviations, place


def test_older_file_without_end_mark(queue: Path) -> None:
    (path,) = queue.glob("*.cq4")
    older = queue / ROLL.file_name(ROLL.cycle_of(path.name) - 1)
    older.write_bytes(path.read_bytes())
    texts = [str(deviation) for deviation in verify_queue(queue).deviations]
    assert any("listing.lowestCycle" in text for text in texts)
    assert any("an older file without an end mark" in text for text in texts)
    data = bytearray(older.read_bytes())
    at = data.rindex(b"entry 00199") + 12
    data[at : at + 4] = struct.pack("<I", END)
    older.write_bytes(data)
    texts = [str(deviation) for deviation in verify_queue(queue).deviations]
    assert not any("end mark" in text for text in texts)


def test_table_deviations(queue: Path) -> None:
    table = queue / "metadata.cq4t"
    data = table.read_bytes()
    table.unlink()
    assert "the table is missing" in str(verify_queue(queue).deviations[0])
    table.write_bytes(data.replace(b"yyyy", b"xxxx"))
    assert "no known roll cycle" in str(verify_queue(queue).deviations[0])
    changed = bytearray(data)
    struct.pack_into("<I", changed, 180, NOT_READY | 32)
    table.write_bytes(changed)
    assert "header 80000020" in str(verify_queue(queue).deviations[0])
    with pytest.raises(OutputError, match="No such file"):
        verify_queue(queue / "absent")


# dump


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_text_comes_back(text: str) -> None:
    stored = text.encode()
    stored = b"\n" + stored if stored[0] >= 0x80 else stored
    if text.startswith("\n") and stored[1:2] >= b"\x80":
        return  # as if it were the pad: blank space before a value means nothing
    assert decode(7, stored) == Entry(7, Form.TEXT, text)
    assert decode(7, stored).as_text() == text


@given(st.binary())
def test_raw_bytes_come_back(content: bytes) -> None:
    assert decode(7, raw(content)) == Entry(7, Form.RAW, content)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        (raw(b"\x01\x02\x03\xff"), "!!binary AQID/w=="),
        (raw(b""), '!!binary ""'),
        (b"\xc6number\xa1\x01", "!!binary xm51bWJlcqEB"),
        (b"\x82\x05\x00\x00\x00\x8aab", "!!binary ggUAAACKYWI="),
        (b"\x82", "!!binary gg=="),
        (b"a\xff", "!!binary Yf8="),
    ],
)
def test_bytes_as_text(stored: bytes, text: str) -> None:
    assert decode(0, stored).as_text() == text


def test_entries_from_an_index_on(queue: Path) -> None:
    entries = list(read_entries(queue))
    assert [entry.content for entry in entries] == [f"entry {i:05}" for i in range(COUNT)]
    assert list(read_entries(queue, entries[100].index)) == entries[100:]
