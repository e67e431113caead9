"""Damage of every kind that a crash, a truncation or a bit flip leaves, put right (A.10)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.queue_twin import END, META, NOT_READY, TwinFile, written

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.layout import ROLL_CYCLES
from quiver_fast.queuefile.table import Table
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.queuefile.verify import crc32c, verify_queue

ROLL = ROLL_CYCLES["TEST4_DAILY"]
ENTRIES = [f"entry {i} {'y' * (i % 50)}".encode() for i in range(1500)]
SIZE = 1 << 18
WRITE_POSITION, TOP, LAST_INDEX = 0x40, 0x98, 0xB0


def contents(directory: Path) -> list[bytes]:
    tailer = Tailer(directory)
    return [content for _, content in iter(tailer.read, None)]


def snapshot(directory: Path) -> dict[str, bytes]:
    """The bytes of every file but the table, whose lock words and clean word change."""
    names = sorted(path for path in directory.iterdir() if path.name.startswith("2"))
    return {path.name: path.read_bytes() for path in names}


def recover(directory: Path, *, verify: bool = False) -> None:
    """Open and close, twice; the second time must change no byte."""
    Appender(directory, verify=verify).close()
    before = snapshot(directory)
    Appender(directory, verify=verify).close()
    assert snapshot(directory) == before
    assert verify_queue(directory).deviations == []


def place(directory: Path, data: bytes, *, clean: int = 0, boot: int | None = None) -> Path:
    """Put a file where an appender of this boot (or another one) left it."""
    appender = Appender(directory, roll=ROLL.name)
    appender.close()
    (path,) = directory.glob("*.cq4")
    path.write_bytes(data + bytes(max(SIZE - len(data), 0)))
    table = Table(directory, ROLL)
    table["quiver.clean"] = clean
    if boot is not None:
        table["quiver.bootId"] = boot
        table["chronicle.lastIndexMSynced"] = -1
    table.close()
    return path


def twin() -> TwinFile:
    return written(ROLL, [(False, entry) for entry in ENTRIES])


def offsets(data: bytes) -> list[int]:
    """The offsets of the data documents."""
    found, at = [], 0
    while header := struct.unpack_from("<I", data, at)[0]:
        if header & META == 0:
            found.append(at)
        at = (at + 4 + (header & 0x3FFFFFFF) + 3) & ~3
    return found


# Each takes the file as a crash left it, with the offsets of its entries, and returns
# how many of them survive.
def header_free(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<I", data, at[1200], 0)
    return 1200


def unknown_length(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<I", data, at[1200], NOT_READY)
    return 1200


def not_ready_last(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<I", data, at[-1], NOT_READY | len(ENTRIES[-1]))
    return 1499


def not_ready_meta_last(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<I", data, at[-1], NOT_READY | META | len(ENTRIES[-1]))
    return 1499


def not_ready_into_the_wild(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<I", data, at[1200], NOT_READY | 5)
    return 1200


def cut_by_length(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<I", data, at[1200], 0x3FFFFFFF)
    return 1200


def truncated_in_entry(data: bytearray, at: list[int]) -> int:
    del data[at[1200] + 6 :]
    return 1200


def truncated_in_header(data: bytearray, at: list[int]) -> int:
    del data[at[1200] + 2 :]
    return 1200


def truncated_at_header(data: bytearray, at: list[int]) -> int:
    del data[at[1200] :]
    return 1200


def dirt_after_the_tail(data: bytearray, at: list[int]) -> int:
    data[len(data) - SIZE // 4 :] = b"\xff" * (SIZE // 4)
    return 1500


def write_position_zero(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<qq", data, WRITE_POSITION, 0, 0)
    return 1500


def write_position_beyond_a_hole(data: bytearray, at: list[int]) -> int:
    """Verified: Java appends after the hole, and every reader stops before it."""
    struct.pack_into("<I", data, at[1300], 0)
    return 1300


def last_index_wrong(data: bytearray, at: list[int]) -> int:
    struct.pack_into("<q", data, LAST_INDEX, 4)
    return 1500


def no_index_at_all(data: bytearray, at: list[int]) -> int:
    (top,) = struct.unpack_from("<q", data, TOP)
    slots = top + 4 + (struct.unpack_from("<I", data, top)[0] & 0x3FFFFFFF) - 8 * ROLL.count
    data[slots - 8 : slots + 8 * ROLL.count] = bytes(8 * ROLL.count + 8)
    return 1500


def page_without_link(data: bytearray, at: list[int]) -> int:
    """A crash between an index page and its slot."""
    (top,) = struct.unpack_from("<q", data, TOP)
    slots = top + 4 + (struct.unpack_from("<I", data, top)[0] & 0x3FFFFFFF) - 8 * ROLL.count
    struct.pack_into("<q", data, slots + 8 * 11, 0)
    return 1500


DAMAGES = [
    header_free,
    unknown_length,
    not_ready_last,
    not_ready_meta_last,
    not_ready_into_the_wild,
    cut_by_length,
    truncated_in_entry,
    truncated_in_header,
    truncated_at_header,
    dirt_after_the_tail,
    write_position_zero,
    write_position_beyond_a_hole,
    last_index_wrong,
    no_index_at_all,
    page_without_link,
]


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage(
    tmp_path: Path, damage: Callable[[bytearray, list[int]], int], verify: bool
) -> None:
    data = bytearray(twin().finish())
    data += bytes(SIZE - len(data))
    at = offsets(data)
    kept = damage(data, at)
    cut = len(data) < SIZE
    path = place(tmp_path, bytes(data))
    if cut:
        with path.open("r+b") as stream:
            stream.truncate(len(data))
    # In the same boot the walk begins at the last index slot: damage before it is
    # found by `verify` alone.
    if damage in (header_free, unknown_length, not_ready_into_the_wild, cut_by_length):
        verify = True
    if damage in (write_position_beyond_a_hole, no_index_at_all):
        verify = True
    Appender(tmp_path, verify=verify).close()
    assert contents(tmp_path) == ENTRIES[:kept]
    with Appender(tmp_path) as appender:
        index = appender.append_text("after")
    assert index & 0xFFFFFFFF == kept
    assert contents(tmp_path) == [*ENTRIES[:kept], b"after"]
    recover(tmp_path, verify=verify)
    for number in (0, 1, 127, 128, kept - 1, kept):
        tailer = Tailer(tmp_path)
        tailer.move_to((index >> 32 << 32) | number)
        assert tailer.read()[1] == [*ENTRIES[:kept], b"after"][number]


@pytest.mark.parametrize("following", [1, 2, 3, 10])
def test_abandoned_reservation_becomes_meta_data(tmp_path: Path, following: int) -> None:
    """Rule 4: what follows it is a run of documents, so readers skip it."""
    data = bytearray(twin().finish())
    at = offsets(data)[-1 - following]
    struct.pack_into("<I", data, at, NOT_READY | len(ENTRIES[-1 - following]))
    path = place(tmp_path, bytes(data))
    recover(tmp_path, verify=True)
    size = len(ENTRIES[-1 - following])
    assert path.read_bytes()[at : at + 4 + size] == struct.pack("<I", META | size) + b"\x8f" * size
    assert contents(tmp_path) == ENTRIES[: -1 - following] + ENTRIES[-following:]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.__setitem__(slice(0, 4), bytes(4)),
        lambda data: data.__setitem__(slice(3, 4), b"\xc0"),
        lambda data: data.__setitem__(slice(14, 15), b"X"),
        lambda data: data.__setitem__(slice(0x1D, 0x1E), b"X"),
        lambda data: data.__setitem__(slice(0x76, 0x78), b"\x03\x10"),
        lambda data: data.__setitem__(slice(0, 200), bytes(200)),
        lambda data: data.__setitem__(slice(0, 512), b"\xa5" * 512),
        lambda data: data.__setitem__(slice(200, 201), b"\x00"),
        lambda data: data.__setitem__(slice(203, 204), b"\xc0"),
        lambda data: data.__setitem__(slice(202, 203), b"\x01"),
        # The pad before the words of writePosition leads over indexCount.
        lambda data: (data.__setitem__(0x2B, 0x30), data.__setitem__(0x5F, 0x8D)),
    ],
    ids=["free", "not-ready", "no-store", "no-word", "no-power", "zeros", "noise", "page-of-pages",
         "page-not-ready", "page-long", "words-over-a-field"],
)  # fmt: skip
@pytest.mark.parametrize("newest", [True, False])
def test_a_damaged_head_is_made_anew(
    tmp_path: Path, change: Callable[[bytearray], None], newest: bool
) -> None:
    """Rule 1: the entries tell what it was, so that none of them is set aside."""
    data = bytearray(twin().finish(end=not newest))
    path = place(tmp_path, bytes(data))
    later = tmp_path / ROLL.file_name(ROLL.cycle_of(path.name) + 1)
    if not newest:
        later.write_bytes(written(ROLL, [(False, b"later")]).finish())
    change(data)
    path.write_bytes(data)
    recover(tmp_path)
    assert contents(tmp_path) == [*ENTRIES, *([] if newest else [b"later"])]
    assert verify_queue(tmp_path).deviations == []
    before = path.read_bytes()
    recover(tmp_path)
    assert path.read_bytes() == before


# Where the head tells the version of the format: other versions are refused, and left as they are.
DATA_FORMAT = 196


@pytest.mark.parametrize("newest", [True, False])
def test_a_damaged_byte_before_the_entries_costs_none(tmp_path: Path, newest: bool) -> None:
    """Rule 1, for each byte of the head, of the page of pages and of the first page."""
    few = [b"entry %d" % number for number in range(40)]
    data = bytes(written(ROLL, [(False, entry) for entry in few]).finish(end=not newest))
    path = place(tmp_path, data)
    after = tmp_path / ROLL.file_name(ROLL.cycle_of(path.name) + 1)
    later = bytes(written(ROLL, [(False, b"later")]).finish())
    for at in set(range(data.index(few[0]) - 4)) - {DATA_FORMAT}:
        damaged = bytearray(data)
        damaged[at] ^= 1 << at * 5 % 8
        path.write_bytes(damaged + bytes(1 << 17))
        if not newest:
            after.write_bytes(later)
        Appender(tmp_path, verify=True).close()
        assert contents(tmp_path) == few + [b"later"] * (not newest), at
        assert verify_queue(tmp_path).deviations == [], at


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("at", range(4))
def test_the_length_of_the_head(tmp_path: Path, at: int, bit: int) -> None:
    """With a wrong one the entries would be taken for dirt."""
    path = place(tmp_path, twin().finish())
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)
    recover(tmp_path)
    assert contents(tmp_path) == ENTRIES


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.__delitem__(slice(100, None)),
        lambda data: data.__delitem__(slice(0, None)),
        lambda data: data.__setitem__(slice(0, len(data)), b"\xa5" * len(data)),
    ],
    ids=["cut", "empty", "noise"],
)
def test_what_is_no_queue_file_is_put_aside(
    tmp_path: Path, change: Callable[[bytearray], None]
) -> None:
    """Rule 1: renamed, never deleted, and the others are used."""
    data = bytearray(twin().finish())
    path = place(tmp_path, bytes(data))
    older = tmp_path / ROLL.file_name(ROLL.cycle_of(path.name) - 1)
    older.write_bytes(written(ROLL, [(False, b"older")]).finish())
    change(data)
    path.write_bytes(data)
    recover(tmp_path)
    assert (tmp_path / f"{path.name}.damaged").read_bytes() == data
    assert contents(tmp_path) == [b"older"]


@pytest.mark.parametrize("newest", [True, False])
def test_no_entry_is_made_of_what_was_cleared(tmp_path: Path, newest: bool) -> None:
    """A page of a wrong length leads into the first entry, and only dirt follows that one."""
    data = bytearray(written(ROLL, [(False, b"the one entry")]).data)
    page = 200 + 4 + struct.unpack_from("<I", data, 200)[0] % META
    struct.pack_into("<I", data, page, struct.unpack_from("<I", data, page)[0] + 2)
    # The code of its array.
    data[page + 4 + 11] = 0
    # An entry that would end behind the file.
    data += bytes(-len(data) % 4)
    data += struct.pack("<I", SIZE)
    path = place(tmp_path, bytes(data))
    if not newest:
        later = tmp_path / ROLL.file_name(ROLL.cycle_of(path.name) + 1)
        later.write_bytes(written(ROLL, [(False, b"later")]).finish())
    recover(tmp_path, verify=True)
    assert contents(tmp_path) == [b"the one entry", *([] if newest else [b"later"])]


def test_older_files_get_an_end_mark(tmp_path: Path) -> None:
    """Rule 6: Java's tailers hang for ever before a file without one."""
    path = place(tmp_path, twin().finish())
    cycle = ROLL.cycle_of(path.name)
    for back in (1, 2):
        older = tmp_path / ROLL.file_name(cycle - back)
        # One that was cut exactly at its tail, too.
        data = bytes(written(ROLL, [(False, b"older")]).data)
        older.write_bytes(data if back == 1 else data + bytes(8192))
    recover(tmp_path)
    for back in (1, 2):
        data = (tmp_path / ROLL.file_name(cycle - back)).read_bytes()
        assert struct.pack("<I", END) in data
    assert contents(tmp_path) == [b"older", b"older", *ENTRIES]


def test_tailer_passes_an_old_file_without_end_mark(tmp_path: Path) -> None:
    """A.8, where nothing has recovered it: also where its last entry is cut."""
    path = place(tmp_path, twin().finish())
    cycle = ROLL.cycle_of(path.name)
    data = bytes(written(ROLL, [(False, b"older"), (False, b"cut off")]).data)
    (tmp_path / ROLL.file_name(cycle - 2)).write_bytes(data)
    (tmp_path / ROLL.file_name(cycle - 1)).write_bytes(data[:-4])
    assert contents(tmp_path) == [b"older", b"cut off", b"older", *ENTRIES]


# Rule 8: after a power loss


def lost_pages(data: bytearray, first: int, last: int) -> None:
    """Pages that never reached the disk read as NULs."""
    data[first & ~4095 : last & ~4095] = bytes((last & ~4095) - (first & ~4095))


def test_text_with_a_lost_page_ends_the_file(tmp_path: Path) -> None:
    entries = [b"a" * 100, b"b" * 20000, b"c" * 100]
    data = bytearray(written(ROLL, [(False, entry) for entry in entries]).finish())
    at = offsets(data)[1]
    lost_pages(data, at + 8192, at + 16384)
    place(tmp_path, bytes(data), boot=1)
    recover(tmp_path)
    assert contents(tmp_path) == entries[:1]


@pytest.mark.parametrize("text", ["plain", "tab\tand\r\nbreaks", "äöü €  𝄞"])
def test_whole_text_survives_without_a_checkpoint(tmp_path: Path, text: str) -> None:
    stored = text.encode()
    stored = b"\n" + stored if stored[0] >= 0x80 else stored
    place(tmp_path, written(ROLL, [(False, stored)] * 3).finish(), boot=1)
    recover(tmp_path)
    assert contents(tmp_path) == [stored] * 3


@pytest.mark.parametrize(
    "wrong",
    [b"a\x01", b"a\x7f", b"a\x80", b"a\xc0\xaf", b"a\xed\xa0\x80", b"a\xf4\x90\x80\x80", b"a\xe2"],
)
def test_what_is_no_text_ends_the_file(tmp_path: Path, wrong: bytes) -> None:
    place(
        tmp_path, written(ROLL, [(False, b"good"), (False, wrong), (False, b"x")]).finish(), boot=1
    )
    recover(tmp_path)
    assert contents(tmp_path) == [b"good"]


@pytest.mark.parametrize("meta", [True, False])
def test_bytes_without_a_checkpoint_end_the_file(tmp_path: Path, meta: bool) -> None:
    """Notes of removals too: half of one would remove what it does not name."""
    documents = [(False, b"good"), (meta, b"\xb9\x01a\x82\x03\0\0\0"), (False, b"x")]
    place(tmp_path, written(ROLL, documents).finish(), boot=1)
    recover(tmp_path)
    assert contents(tmp_path) == [b"good"]


def power_loss(directory: Path, appender: Appender, *, forget: bool = True) -> None:
    """Leave the files as they are now to another boot; the table's words did not get there."""
    copies = {path.name: path.read_bytes() for path in directory.iterdir()}
    appender.close()
    for name, data in copies.items():
        (directory / name).write_bytes(data)
    table = Table(directory, appender.roll)
    table["quiver.bootId"] = 1
    table["chronicle.append.lock"] = -(1 << 63)
    if forget:
        table["chronicle.lastIndexMSynced"] = -1
    table.close()


def test_raw_bytes_survive_up_to_the_checkpoint(tmp_path: Path) -> None:
    """`group`: what sync() returned for is there, whatever became of the table."""
    appender = Appender(tmp_path, durability="group", roll=ROLL.name)
    for number in range(300):
        appender.append_raw(bytes([number % 256]) * number)
        if number in (100, 200):
            appender.flush()
    power_loss(tmp_path, appender)
    recover(tmp_path)
    assert len(contents(tmp_path)) == 201


def test_synced_entries_are_good_without_a_checkpoint(tmp_path: Path) -> None:
    appender = Appender(tmp_path, roll=ROLL.name)
    for number in range(300):
        appender.append_raw(bytes([number % 256]))
        if number == 200:
            appender.flush()
    power_loss(tmp_path, appender, forget=False)
    recover(tmp_path)
    assert len(contents(tmp_path)) == 201


def test_a_checkpoint_over_other_bytes_covers_nothing(tmp_path: Path) -> None:
    appender = Appender(tmp_path, durability="group", roll=ROLL.name)
    appender.append_raw(b"one")
    appender.flush()
    for number in range(100):
        appender.append_raw(bytes([number]) * 1000)
    appender.flush()
    power_loss(tmp_path, appender)
    (path,) = tmp_path.glob("*.cq4")
    data = bytearray(path.read_bytes())
    at = offsets(data)[50]
    data[at + 100] ^= 1
    path.write_bytes(data)
    recover(tmp_path)
    assert len(contents(tmp_path)) == 1


def test_opening_makes_all_that_is_there_good(tmp_path: Path) -> None:
    """Java's entries cannot be judged; they were synced when we opened the queue (rule 9)."""
    place(tmp_path, written(ROLL, [(False, b"\xc6number\xa1\x01")] * 5).finish())
    appender = Appender(tmp_path)
    appender.append_raw(b"lost")
    power_loss(tmp_path, appender, forget=False)
    recover(tmp_path)
    assert contents(tmp_path) == [b"\xc6number\xa1\x01"] * 5


def test_crc32c_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"56789", crc32c(b"1234")) == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"") == 0
