"""The slow twin of the parser: every line of a file taken apart the obvious way."""

import re

from id_twin import INT64_MAX, halves_of

from quiver_fast.records.formats import RECEIVE, SEND, V1, V2, V3, detect

OWN_TIMES = ("received", "settled_times", "sent")
COLUMNS = ("sent", "received", "ids", "settled_ids", "settled_times", "settled_sampled", "ends")


def slow_time(field):
    if re.fullmatch(rb"[0-9]{1,19}", field) and int(field) <= INT64_MAX:
        return int(field)
    return None


def slow_unit(time):
    """Return the unit of a time by its digits; short ones are in milliseconds."""
    digits = len(str(time))
    return "ms" if digits <= 14 else "us" if digits <= 17 else "ns"


def slow_record(line, layout, settlements):
    """Return {column: value} for one line, or None where it is malformed."""
    record_format, operation = layout
    fields = line.split(b",")
    if len(fields) != (3 if operation == RECEIVE and record_format != V3 else 2):
        return None
    if layout == (V3, SEND):
        record = {"sent": slow_time(fields[0])}
        return record if fields[1] == b"0" and None not in record.values() else None
    if layout == (V3, RECEIVE):
        record = {"sent": slow_time(fields[0]), "received": slow_time(fields[1])}
        return record if fields[1] != b"0" and None not in record.values() else None
    if operation == SEND and (fields[0] == b"" or (settlements and fields[0] in (b"S", b"s"))):
        return None
    if operation == RECEIVE:
        record = {"sent": slow_time(fields[1]), "received": slow_time(fields[2])}
    elif settlements and line[:1] in (b"S", b"s"):
        record = {"settled_times": slow_time(fields[1])}
        if None in record.values():
            return None
        return record | {
            "settled_ids": halves_of(fields[0][1:]),
            "settled_sampled": line[:1] == b"S",
        }
    else:
        record = {"sent": slow_time(fields[1])}
    return None if None in record.values() else record | {"ids": halves_of(fields[0])}


def slow_end(line):
    """Return the end that a line tells; None for one that tells none."""
    return slow_time(line[1:]) if line.startswith(b"@") else None


def slow_parse(text, record_format=None, operation=None):
    """Parse the obvious way; return everything that Transfers says, as plain values."""
    *lines, rest = text.split(b"\n")
    columns = {name: [] for name in COLUMNS}
    detected = record_format is None
    layout = (record_format, operation) if record_format and operation else None
    bad = []
    unit = None
    end, present = -1, {"sent"}
    for number, line in enumerate(lines, 1):
        if slow_end(line) is not None:
            end = slow_end(line)
            present.add("ends")
            continue
        layout = layout or detect(line, record_format, operation)
        settlements = layout and (layout == (V2, SEND) or (detected and layout == (V1, SEND)))
        record = layout and slow_record(line, layout, settlements)
        # The times of the arrow's own clock are of one unit, which the first one tells.
        own = record and next(record[name] for name in OWN_TIMES if name in record)
        unit = unit or (record and slow_unit(own))
        if record is None or slow_unit(own) != unit:
            bad.append((number, line[:80].decode("utf-8", "backslashreplace")))
            continue
        for name, value in record.items():
            columns[name].append(value)
        if "sent" in record:
            columns["ends"].append(end)
    # The writer encodes control characters: with one, it is not the beginning of a record.
    truncated = rest != b"" and min(rest) >= 0x20
    if rest and not truncated:
        bad.append((len(lines) + 1, rest[:80].decode("utf-8", "backslashreplace")))
    if detected and columns["settled_ids"]:
        layout = (V2, SEND)
    record_format, operation = layout or (record_format, operation)
    if operation == RECEIVE:
        present.add("received")
    if record_format in (V1, V2):
        present.add("ids")
    if (record_format, operation) == (V2, SEND):
        present |= {"settled_ids", "settled_times", "settled_sampled"}
    return {name: columns[name] if name in present else None for name in COLUMNS} | {
        "record_format": record_format,
        "operation": operation,
        "time_unit": unit or "ms",
        "malformed": len(bad),
        "first_malformed": bad[0] if bad else None,
        "truncated": truncated,
    }
