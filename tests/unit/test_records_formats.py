"""The definitions of the three record revisions, against the contract's own words."""

import subprocess
import sys

import pytest

from quiver_fast.records import formats
from quiver_fast.records.formats import RECEIVE, SEND, V1, V2, V3, detect
from quiver_fast.records.layout import is_record, line_fault

MS = b"1472344673324"
US = b"1472344673324000"
NS = b"1472344673324000000"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"10,1472344673324,1472344673345", (V1, RECEIVE)),  # the contract's example
        (b"1472344673324,1472344673345", (V3, RECEIVE)),  # likewise
        (MS + b",0", (V3, SEND)),
        (b"10," + MS, (V1, SEND)),
        (b"S10," + MS, (V2, SEND)),
        (b"s10," + MS, (V2, SEND)),
        (US + b",0", (V3, SEND)),
        (NS + b"," + NS, (V3, RECEIVE)),
        (b"," + MS, None),
        (b"," + MS + b"," + MS, (V1, RECEIVE)),
        (b"S," + MS, None),
        (b"any id at all," + US, (V1, SEND)),
        (b"", None),
        (b",", None),
        (b"10,5", None),
        (b"hello, world", None),
        (MS, None),
        (MS + b"," + MS + b"\r", None),
        (b"-" + MS + b",0", None),
        (b"+" + MS + b"," + b"+" + MS, None),
        (b"1,2," + MS, None),
        (b"1," + MS + b"," + MS + b"," + MS, None),
        (b"9999999999999999999," + b"9999999999999999999", None),  # above 63 bits
    ],
)
def test_detect(line, expected):
    assert detect(line) == expected


@pytest.mark.parametrize(
    ("line", "record_format", "operation", "expected"),
    [
        (b"5,0", V3, None, (V3, SEND)),
        (b"5,7", V3, None, (V3, RECEIVE)),
        (b"5,0", V3, RECEIVE, None),
        (b"5,7", V3, SEND, None),
        (b"5,7", V1, None, (V1, SEND)),
        (b"s5,7", V1, None, (V1, SEND)),
        (b"s5,7", V2, None, (V2, SEND)),
        (b"5,7", V2, None, (V2, SEND)),
        (b"5,7,9", V2, None, (V2, RECEIVE)),
        (b"5,7,9", V1, SEND, None),
        (b"S,7", V1, None, (V1, SEND)),
        (b"S,7", V2, None, None),
        (b",7", V1, None, None),
        (b",7,9", V1, None, (V1, RECEIVE)),
        (MS + b"," + MS, None, SEND, (V1, SEND)),  # an id that looks like a time
        (b"s5," + MS, None, RECEIVE, None),
    ],
)
def test_detect_with_what_is_known(line, record_format, operation, expected):
    assert detect(line, record_format, operation) == expected


def test_every_revisions_own_lines_are_detected():
    sent, received = {V3: MS + b",0"}, {V3: MS + b"," + MS}
    for record_format in formats.RECORD_FORMATS:
        line = sent.get(record_format, b"7," + MS)
        assert detect(line, record_format) == (record_format, SEND)
        line = received.get(record_format, b"7," + MS + b"," + MS)
        assert detect(line, record_format) == (record_format, RECEIVE)


def test_lines_that_tell_an_end_are_no_records():
    line = formats.END_LINE.format(number=7).encode().rstrip(b"\n")
    assert formats.is_end_line(line)
    assert detect(line) is None
    assert is_record(line, V2, SEND, "ms")
    for other in (b"@", b"@x", b"@-1", b"@1,2", b"7", b"@9223372036854775808"):
        assert not formats.is_end_line(other)


@pytest.mark.parametrize(
    ("time", "unit"),
    [(int(MS), "ms"), (int(US), "us"), (int(NS), "ns"), (0, "ms"), (-int(MS), "ms"), (5, "ms")],
)
def test_time_unit(time, unit):
    assert formats.time_unit(time) == unit
    assert unit in formats.UNITS_PER_SECOND


def test_only_v2_senders_settle():
    settling = [
        (record_format, operation)
        for record_format in formats.RECORD_FORMATS
        for operation in formats.OPERATIONS
        if formats.has_settlements(record_format, operation)
    ]
    assert settling == [(V2, SEND)]
    assert [formats.has_ids(record_format) for record_format in (V1, V2, V3)] == [True, True, False]


def test_an_arrow_that_writes_records_imports_nothing_heavy():
    program = (
        # Cython's own functions need collections.abc, and so does every arrow.
        "import collections.abc, sys; before = set(sys.modules)\n"
        "from quiver_fast.records import formats, writer\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    outside = [name for name in loaded if not name.startswith(("quiver_fast", "_cython"))]
    # Cython keeps its shared types in modules named cython_runtime and _cython_…
    assert set(outside) <= {"__future__", "cython_runtime", "cython_shared"}


@pytest.mark.parametrize(
    ("text", "fault", "shown"),
    [
        ("WARN: é", None, "WARN: é"),
        ("1,2\r", "it ends in CR LF, and records end in LF", r"1,2\r"),
        ("1,2\r1,2\r", "it has a CR, which ends no record", r"1,2\r1,2\r"),
        ("\0\x1b", "it has NUL bytes", r"\x00\x1b"),
        ("x" * 200, None, "x" * 80),
    ],
)
def test_a_line_that_is_no_record(text, fault, shown):
    assert line_fault(text) == fault
    assert formats.shown_line(text) == shown


OTHER_UNIT = "its time is in us, but those before are in ms"


@pytest.mark.parametrize(
    ("text", "record_format", "operation", "fault"),
    [
        ("1472344673324000,0", V3, SEND, OTHER_UNIT),
        ("1472344673324,1472344673324000", V3, RECEIVE, OTHER_UNIT),
        ("7,1472344673324,1472344673324000", V1, RECEIVE, OTHER_UNIT),
        ("S7,1472344673324000", V2, SEND, OTHER_UNIT),
        (",1472344673324", V1, SEND, "its id is empty"),
        (",1472344673324,1472344673324", V2, RECEIVE, None),
        ("s,1472344673324", V2, SEND, "its id is empty"),
        ("7,9223372036854775808", V1, SEND, "it has a time of 2^63 or more"),
        ("9223372036854775808,5", V3, RECEIVE, "it has a time of 2^63 or more"),
        ("1472344673324000,1472344673324", V3, RECEIVE, None),
        ("7,x", V1, SEND, None),
        ("7", V1, SEND, None),
        ("7,5,9", V1, SEND, None),
        ("x" * 78 + ",1", V1, SEND, None),
    ],
)
def test_what_is_wrong_with_a_line(text, record_format, operation, fault):
    assert line_fault(text, record_format, operation, "ms") == fault
    assert line_fault(text) is None


def test_units_are_told_by_magnitude():
    edges = [(10**14 - 1, "ms"), (10**14, "us"), (10**17 - 1, "us"), (10**17, "ns")]
    assert [formats.time_unit(time) for time, _ in edges] == [unit for _, unit in edges]
    for time, unit in edges:
        low, end = formats.UNIT_RANGES[unit]
        assert low <= time < end
