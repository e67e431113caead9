"""The three revisions of the record lines that arrows print, one definition of each.

A revision is named by a plain string, :data:`V1`, :data:`V2` or :data:`V3`. An arrow
either sends or receives, so a file of records holds the lines of one operation, with
the settlements of a v2 sender between them. Times are epoch milliseconds; the optional
finer units show in the number of a time's digits.

This module is imported when an arrow starts and therefore imports nothing.
"""

from __future__ import annotations

V1 = "v1"
V2 = "v2"
V3 = "v3"
RECORD_FORMATS = (V1, V2, V3)

SEND = "send"
RECEIVE = "receive"
OPERATIONS = (SEND, RECEIVE)

# Ours, where several ends write one file: the next lines are of this end, numbered from 0
# among all of its side. No line of any revision lacks a comma. It stands before the first record,
# wherever the end changes, and again after each flush (records/writer.pyx).
END_LINE = "@{number}\n"
# "for the first message and for every 256th message thereafter prefixed with 'S'"
SETTLEMENT_SAMPLE_INTERVAL = 256

FLUSHES_PER_SECOND = 2
"""How often our arrows write the records that they have: a wrapper reads along.

They do so when the monotonic clock is at a multiple of this part of a second. All arrows of a
machine have that clock, so that their records reach up to the same moments.
"""

IDS_OF_AN_END = 10**13
"""The ids of sender K of many are K times this + 1, + 2 and so on: their quotient tells it."""

TIME_DIGITS = {"ms": 13, "us": 16, "ns": 19}
UNITS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# The times of a unit: from the first number to below the second. The next finer unit
# has three digits more: a bound with one digit more is far from the times of both.
UNIT_RANGES = {
    "ms": (-(2**63), 10**14),
    "us": (10**14, 10**17),
    "ns": (10**17, 2**63),
}

_UNIT_BY_DIGITS = {digits: unit for unit, digits in TIME_DIGITS.items()}
LARGEST_TIME = 2**63 - 1
_MOST_DIGITS = 19


def has_ids(record_format: str) -> bool:
    """Say whether the lines of ``record_format`` carry message ids."""
    return record_format != V3


def has_settlements(record_format: str, operation: str) -> bool:
    """Say whether settlement lines may stand among the records."""
    return record_format == V2 and operation == SEND


def time_unit(time: int) -> str:
    """Return the unit of an epoch time, ``"ms"``, ``"us"`` or ``"ns"``, from its digits.

    Short times, of which none is an epoch time, are in milliseconds, the unit of the
    contract; :data:`UNIT_RANGES` has the bounds.
    """
    for unit, (_, end) in UNIT_RANGES.items():
        if time < end:
            return unit
    return "ns"


def detect(
    line: bytes, record_format: str | None = None, operation: str | None = None
) -> tuple[str, str] | None:
    """Tell the revision and operation of a file from one line of it.

    The arguments narrow the choice. Where several remain, the first
    of these holds: three fields are a v1 receiver's; a second field ``0`` is a v3
    sender's; a prefix ``S`` or ``s`` is a v2 settlement; two times are a v3
    receiver's; anything else before a time is the id of a v1 sender. v1 and v2 differ
    in nothing but settlements, so a v2 file without any is called v1.

    Args:
        line: A line without its newline.
        record_format: The revision, where known. Then a time is any decimal that
            fits 63 bits; otherwise only one of 13, 16 or 19 digits, so that other
            output is not taken for records.
        operation: ``"send"`` or ``"receive"``, where known.

    Returns:
        ``(record_format, operation)``, or None for a line that fits nothing.
    """
    for reading in _readings(line.split(b","), epoch_times=record_format is None):
        if record_format in (None, reading[0]) and operation in (None, reading[1]):
            return reading
    return None


def shown_line(text: str) -> str:
    """Return the beginning of a line that is no record as a terminal can show it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)[:80]


def is_streamed(line: bytes) -> bool:
    """Say whether a line, without its newline, is one of streaming mode, which only we have.

    It is ``F,{sent},{first},{time},{bytes}`` when the message is whole, else the same with ``B``.
    The bytes are those of the body since the line before of the same message. No record of any
    revision has five fields.
    """
    kind, *fields = line.split(b",")
    return kind in (b"F", b"B") and len(fields) == 4 and all(map(_is_time, fields))


def is_end_line(line: bytes) -> bool:
    """Say whether a line, without its newline, says of which end the next ones are."""
    return line.startswith(b"@") and _is_time(line[1:])


def _readings(fields: list[bytes], epoch_times: bool) -> list[tuple[str, str]]:
    """Return every way to read the fields of a line, the first choice first."""
    is_time = _is_epoch_time if epoch_times else _is_time
    if len(fields) == 3 and is_time(fields[1]) and is_time(fields[2]):
        return [(V1, RECEIVE), (V2, RECEIVE)]
    if len(fields) != 2:
        return []
    first, second = fields
    readings = []
    # An id may be empty; it may be S in a format without settlements.
    no_id, bare = first == b"", first in (b"S", b"s")
    if second == b"0" and is_time(first):
        readings.append((V3, SEND))
    if is_time(second) and not no_id:
        if first.startswith((b"S", b"s")) and not bare:
            readings.append((V2, SEND))
        if second != b"0" and is_time(first):
            readings.append((V3, RECEIVE))
        if not (bare and epoch_times):
            readings.append((V1, SEND))
        if not bare:
            readings.append((V2, SEND))
    return readings


def _is_time(field: bytes) -> bool:
    """Say whether ``field`` is a decimal integer of 63 bits: digits only, no sign."""
    return len(field) <= _MOST_DIGITS and field.isdigit() and int(field) <= LARGEST_TIME


def _is_epoch_time(field: bytes) -> bool:
    """Say whether ``field`` is a time that also tells its unit."""
    return len(field) in _UNIT_BY_DIGITS and _is_time(field)
