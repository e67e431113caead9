"""The bytes that the specification prints, its index arithmetic and its names (A.4, A.5, A.9)."""

from __future__ import annotations

import struct
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.errors import UsageError
from quiver_fast.queuefile.layout import (
    ROLL_CYCLES,
    cycle_file_head,
    index_document,
    roll_cycle,
    table_document,
    table_head,
)
from quiver_fast.queuefile.table import DEFAULTS

DAILY = ROLL_CYCLES["FAST_DAILY"]

CYCLE_HEAD = """
c1 00 00 40 b9 06 68 65 61 64 65 72 b6 08 53 43 51 53 74 6f 72 65 82 aa 00 00 00 cd 77 72 69 74
65 50 6f 73 69 74 69 6f 6e 8e 01 00 00 00 00 8d 02 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
c8 69 6e 64 65 78 69 6e 67 b6 0c 53 43 51 53 49 6e 64 65 78 69 6e 67 82 4c 00 00 00 ca 69 6e 64
65 78 43 6f 75 6e 74 a5 00 10 cc 69 6e 64 65 78 53 70 61 63 69 6e 67 a5 00 01 cb 69 6e 64 65 78
32 49 6e 64 65 78 8f a7 00 00 00 00 00 00 00 00 c9 6c 61 73 74 49 6e 64 65 78 8e 00 00 00 00 a7
00 00 00 00 00 00 00 00 ca 64 61 74 61 46 6f 72 6d 61 74 a1 01 00 00 00
"""
TOP_HEAD = """
24 80 00 40 b9 0b 69 6e 64 65 78 32 69 6e 64 65 78 8e 01 00 00 00 00 8d 00 10 00 00 00 00 00 00
"""
PAGE_HEAD = "1c 80 00 40 b9 05 69 6e 64 65 78 8f 8f 8f 8f 8d 00 10 00 00 00 00 00 00"
TABLE_HEAD = """
b0 00 00 40 b9 06 68 65 61 64 65 72 b6 07 53 54 53 74 6f 72 65 82 9a 00 00 00 c8 77 69 72 65 54
79 70 65 b6 08 57 69 72 65 54 79 70 65 ec 42 49 4e 41 52 59 5f 4c 49 47 48 54 c8 6d 65 74 61 64
61 74 61 b6 07 53 43 51 4d 65 74 61 82 60 00 00 00 c4 72 6f 6c 6c b6 08 53 43 51 53 52 6f 6c 6c
82 27 00 00 00 c6 6c 65 6e 67 74 68 a6 00 5c 26 05 c6 66 6f 72 6d 61 74 eb 79 79 79 79 4d 4d 64
64 27 46 27 c5 65 70 6f 63 68 a1 00 d7 64 65 6c 74 61 43 68 65 63 6b 70 6f 69 6e 74 49 6e 74 65
72 76 61 6c a1 40 c8 73 6f 75 72 63 65 49 64 a1 00 8f 8f 8f
"""


def test_cycle_file_head() -> None:
    assert cycle_file_head(DAILY) == bytes.fromhex(CYCLE_HEAD)


@pytest.mark.parametrize("roll", ROLL_CYCLES.values(), ids=ROLL_CYCLES)
def test_words_are_where_they_are_in_every_roll_cycle(roll) -> None:
    head = cycle_file_head(roll, 200)
    assert len(head) == 200
    assert struct.unpack_from("<q", head, 0x98) == (200,)


def test_index_documents() -> None:
    top = index_document(200, "index2index", 4096)
    page = index_document(33008, "index", 4096)
    assert top.startswith(bytes.fromhex(TOP_HEAD))
    assert page.startswith(bytes.fromhex(PAGE_HEAD))
    assert 200 + len(top) == 33008
    assert 33008 + len(page) == 65808


def test_table() -> None:
    assert table_head(DAILY) == bytes.fromhex(TABLE_HEAD)
    document, at = table_document(180, "listing.highestCycle", -(1 << 31))
    word = bytes.fromhex("20000000b914") + b"listing.highestCycle" + b"\x8f\xa7"
    assert document == word + struct.pack("<q", -(1 << 31))
    assert at == 180 + len(word)
    assert list(DEFAULTS)[:8] == [
        "listing.highestCycle",
        "listing.lowestCycle",
        "listing.modCount",
        "chronicle.write.lock",
        "chronicle.append.lock",
        "chronicle.lastIndexReplicated",
        "chronicle.lastAcknowledgedIndexReplicated",
        "chronicle.lastIndexMSynced",
    ]


@pytest.mark.parametrize(
    ("name", "file_name", "shift"),
    [
        ("FAST_DAILY", "20261120F.cq4", 32),
        ("FAST_HOURLY", "20261120-13F.cq4", 32),
        ("FIVE_MINUTELY", "20261120-1335V.cq4", 32),
        ("MINUTELY", "20261120-1337.cq4", 32),
        ("TEST_SECONDLY", "20261120-133742T.cq4", 32),
        ("TEST4_DAILY", "20261120T4.cq4", 32),
    ],
)
def test_names_and_shifts(name: str, file_name: str, shift: int) -> None:
    moment = datetime(2026, 11, 20, 13, 37, 42, tzinfo=timezone.utc)
    roll = roll_cycle(name)
    cycle = roll.cycle_at(int(moment.timestamp() * 1000))
    assert roll.file_name(cycle) == file_name
    assert roll.cycle_of(file_name) == cycle
    assert roll.shift == shift


def test_capacity() -> None:
    assert ROLL_CYCLES["FAST_DAILY"].capacity == (1 << 32) - 1
    assert ROLL_CYCLES["MINUTELY"].capacity == 2048 * 2048 * 16
    assert ROLL_CYCLES["TEST4_DAILY"].capacity == 4096


@given(st.sampled_from(sorted(ROLL_CYCLES)), st.integers(0, 4_000_000_000_000))
def test_every_cycle_has_a_name_of_its_own(name: str, milliseconds: int) -> None:
    roll = roll_cycle(name)
    cycle = roll.cycle_at(milliseconds)
    assert roll.cycle_of(roll.file_name(cycle)) == cycle


@pytest.mark.parametrize(
    "name",
    ["20261120.cq4", "20261320F.cq4", "20261120F.cq4.partial", "20261120F.cq4.damaged", "x.cq4"],
)
def test_other_names_are_none_of_ours(name: str) -> None:
    assert DAILY.cycle_of(name) is None


def test_a_time_within_a_cycle_is_no_name() -> None:
    assert ROLL_CYCLES["FIVE_MINUTELY"].cycle_of("20261120-1337V.cq4") is None


def test_unknown_roll_cycle() -> None:
    with pytest.raises(UsageError, match="roll cycle must be one of"):
        roll_cycle("WEEKLY")
