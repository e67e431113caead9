"""The layout of a file, by its lines; and the fault of a line that is no record of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from quiver_fast.records.formats import (
    LARGEST_TIME,
    RECEIVE,
    SEND,
    V3,
    detect,
    has_ids,
    has_settlements,
    is_end_line,
    is_streamed,
    shown_line,
    time_unit,
)
from quiver_fast.words import counted

EXCERPT_SIZE = 80
"""Bytes that are kept of a line that is no record (records/lines.pxd)."""


# Encodings of other systems: their marks, as excerpts show bytes that are no UTF-8, and lines
# without one, whose letters are digits mostly. UTF-16's first mark begins UTF-32's too.
_WIDE = (
    ("UTF-32", "little", "\\xff\\xfe\0\0", re.compile("(?:[ -~\r]\0\0\0)+")),
    ("UTF-32", "big", "\0\0\\xfe\\xff", re.compile("(?:\0\0\0[ -~\r])+\0{0,3}")),
    ("UTF-16", "little", "\\xff\\xfe", re.compile("(?:[ -~\r]\0)+")),
    ("UTF-16", "big", "\\xfe\\xff", re.compile("(?:\0[ -~\r])+\0?")),
)


def layout_of(
    lines: Iterable[bytes], record_format: str | None = None, operation: str | None = None
) -> tuple[tuple[str, str] | None, str | None]:
    """Tell the revision and operation, and the unit, of a file from its first records.

    Args:
        lines: From the first one, without their newlines.
        record_format: The revision, where known.
        operation: ``"send"`` or ``"receive"``, where known.

    Returns:
        The result of :func:`detect`, and the unit of the arrow's own times; None for what these
        lines do not tell.
    """
    unit = None
    for line in lines:
        if is_streamed(line):
            unit = unit or _streamed_unit(line)
            continue
        layout = detect(line, record_format, operation)
        if layout is not None:
            return layout, unit or time_unit(own_time(line, *layout))
    return None, unit


def own_time(line: bytes, record_format: str, operation: str) -> int:
    """Return the time in a record that the arrow itself took."""
    fields = line.split(b",")
    return int(fields[0] if (record_format, operation) == (V3, SEND) else fields[-1])


def is_record(line: bytes, record_format: str | None, operation: str | None, unit: str) -> bool:
    """Say whether a line is a record, a settlement, one of streaming mode or an end's number.

    Args:
        line: Without its newline.
        record_format: The file's revision; None where no line told it.
        operation: ``"send"`` or ``"receive"``; None likewise.
        unit: That of the arrow's own times in the file.
    """
    if is_streamed(line):
        return _streamed_unit(line) == unit
    if is_end_line(line):
        return True
    found = None if record_format is None else detect(line, record_format, operation)
    return found is not None and time_unit(own_time(line, *found)) == unit


def _streamed_unit(line: bytes) -> str | None:
    """Return the unit of both own times of a line of streaming mode; None if they differ."""
    first, last = (time_unit(int(time)) for time in line.split(b",")[2:4])
    return first if first == last else None


def line_fault(
    text: str,
    record_format: str | None = None,
    operation: str | None = None,
    unit: str | None = None,
) -> str | None:
    """Return the fault of a line that is no record; None where it is not clear.

    Args:
        text: The beginning of the line.
        record_format: The file's revision, where known.
        operation: ``"send"`` or ``"receive"``, where known.
        unit: That of the arrow's own times in the file, where known.
    """
    if "\0" in text:
        return _wide_fault(text) or "it has NUL bytes"
    if text.find("\r") == len(text) - 1 >= 0:
        return "it ends in CR LF, and records end in LF"
    if "\r" in text:
        return "it has a CR, which ends no record"
    # The times of a longer line may be cut off.
    if record_format is None or operation is None or len(text) >= EXCERPT_SIZE:
        return None
    return _field_fault(text.split(","), record_format, operation, unit)


def _wide_fault(text: str) -> str | None:
    """Say which encoding with NUL bytes a line is in; None for none."""
    for encoding, order, mark, letters in _WIDE:
        # A mark tells the order of the bytes.
        source = encoding if text.startswith(mark) else f"{encoding}{order[0].upper()}E"
        if source == encoding or letters.fullmatch(text):
            return (
                f"it is {encoding} ({order}-endian), and records are UTF-8: "
                f"iconv -f {source} -t UTF-8 makes it so"
            )
    return None


def _field_fault(
    fields: list[str], record_format: str, operation: str, unit: str | None
) -> str | None:
    """Say which field is wrong in a line that has as many as a record."""
    settles = has_settlements(record_format, operation) and fields[0][:1] in ("S", "s")
    times = fields[1:] if has_ids(record_format) else fields
    expected = 2 if operation == RECEIVE or record_format == V3 else 1
    if len(times) != expected or not all(time.isascii() and time.isdigit() for time in times):
        return None
    if any(int(time) > LARGEST_TIME for time in times):
        return "it has a time of 2^63 or more"
    if operation == SEND and has_ids(record_format) and fields[0][settles:] == "":
        return "its id is empty"
    line = ",".join(fields).encode()
    if unit is None or detect(line, record_format, operation) is None:
        return None
    own = time_unit(own_time(line, record_format, operation))
    return None if own == unit else f"its time is in {own}, but those before are in {unit}"


def malformed_text(records: dict[str, Any]) -> str | None:
    """Return a line on the lines that are no records; None without any.

    Args:
        records: The section ``records`` of a summary.
    """
    first = records["first_malformed"]
    if first is None:
        return None
    why = "" if first["fault"] is None else f" ({first['fault']})"
    lines = counted(records["malformed"], "line", ("is not a record", "are not records"))
    what = f"{lines}; the first is line {first['line']}"
    return f"{what}: {shown_line(first['text'])}{why}"
