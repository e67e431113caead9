"""The head of a queue's table, with its roll cycle, epoch and wire type (A.9).

A head of another writer stays unchanged. If a few bytes are damaged, the head is compared with
each head that the queue can have, and the nearest one replaces it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import time

from quiver_fast.queuefile.layout import (
    DAY_MS,
    NUMBERS,
    OWN_FIELDS,
    ROLL_CYCLES,
    RollCycle,
    table_head,
    whole_number,
)

# The first document of a table, with every field that Java knows.
HEAD_MAX = 512
# The most damaged bytes with which a head can still be recognised.
MENDED_MAX = 4
WIRE = "BINARY_LIGHT"
ZONES = ("Z", "UTC")
FORMS = NUMBERS | {0x90: "<f", 0xA7: "<q"}
MINUTE_MS = 60_000
INTERVAL, _, _ = OWN_FIELDS.partition(b"\xc8sourceId")
OWN_SOURCE = OWN_FIELDS.removeprefix(INTERVAL)
LENGTH = 0x3FFFFFFF
NUMBER = rb"(?:[\xa1\xa4].|[\xa2\xa5]..|[\xa3\xa6\x90]....|\xa7........)"
# The next field, pad, or the document's end must follow; else the number is damaged.
BEHIND = rb"(?=[\xc0-\xdf\x8e\x8f\0]|\Z)"
# Any of its letters may be damaged.
SOURCE = re.compile(
    rb"\xc8(?:" + b"|".join(b"sourceId"[:at] + b"." + b"sourceId"[at + 1 :] for at in range(8))
    + rb")(" + NUMBER + rb")" + BEHIND,
    re.DOTALL,
)  # fmt: skip
SETTING = re.compile(
    rb"..[\0\x01]\x40\xb9\x06header\xb6\x07STStore\x82...."
    rb"\xc8wireType\xb6\x08WireType[\xe0-\xff][!-~]+\xc8metadata\xb6\x07SCQMeta\x82...."
    rb"\xc4roll\xb6\x08SCQSRoll\x82....\xc6length(?P<length>" + NUMBER + rb")"
    rb"\xc6format(?P<size>[\xe0-\xff])(?P<pattern>[ -~]*)"
    rb"\xc5epoch(?P<epoch>" + NUMBER + rb")" + BEHIND,
    re.DOTALL,
)
# Unknown fields that Java's table may have, and pad.
OTHERS = re.compile(
    rb"(?:[\xc1-\xdf][!-~]+(?:" + NUMBER + rb"|[\xe0-\xff][ -~]*|\xb2.[ -~]*|\xb6.[!-~]+\x82....))*"
    rb"\x8f*\Z",
    re.DOTALL,
)
EPOCH = re.compile(rb"\xc5epoch(" + NUMBER + rb")" + BEHIND, re.DOTALL)
WIRE_TYPE = re.compile(rb"\xc8wireType\xb6\x08WireType([\xe0-\xff])([A-Z][A-Z0-9_]*)\xc8metadata")
ROLL_TIME = re.compile(
    rb"\xc8rollTime\xb2[\x05-\x12](\d\d:\d\d(?::\d\d)?(?:\.\d+)?)"
    rb"\xccrollTimeZone[\xe0-\xff]([ -~]*?)" + BEHIND
)


@dataclass(frozen=True)
class Head:
    """The present or the new head of a table.

    Attributes:
        content: its bytes.
        damaged_at: the offset of the first damaged byte; None without damage.
    """

    content: bytes
    damaged_at: int | None


def _value(number: bytes) -> int | None:
    """Return a number of binary wire; None if Java would write it in another form."""
    form = FORMS.get(number[0])
    if form is None or len(number) != 1 + struct.calcsize(form):
        return None
    value = struct.unpack(form, number[1:])[0]
    # Neither NaN nor infinity, nor numbers that no clock has.
    whole = int(value) if abs(value) < 1 << 53 else 0
    return whole if whole_number(whole) == number else None


def _milliseconds(text: bytes) -> int | None:
    """Return the time of day of a roll time; None if it is none."""
    try:
        moment = time.fromisoformat(text.decode())
    except ValueError:
        return None
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return seconds * 1000 + moment.microsecond // 1000


def read_roll(content: bytes) -> RollCycle | None:
    """Return the roll cycle and epoch in a table's first bytes.

    Returns:
        None if they cannot be read.

    Raises:
        ValueError: they can be read, and are not supported; the text names them.
    """
    setting = SETTING.match(content)
    if setting is None:
        return None
    _refuse_others(content)
    length, epoch = _value(setting["length"]), _value(setting["epoch"])
    pattern = setting["pattern"].decode()
    if length is None or epoch is None or setting["size"][0] - 0xE0 != len(pattern):
        return None
    for roll in ROLL_CYCLES.values():
        if (roll.length_ms, roll.pattern) == (length, pattern):
            return replace(roll, epoch_ms=_roll_time(content, epoch))
    known = any(roll.pattern == pattern for roll in ROLL_CYCLES.values())
    if known and length > 0 and (DAY_MS % length == 0 or length % DAY_MS == 0):
        # No damage: it is a custom roll cycle with the file names of a known one.
        raise ValueError(f"roll cycle {pattern} of {length} ms is not supported")
    return None


def _roll_time(content: bytes, epoch: int) -> int:
    """Return a queue's epoch: Java sets it to the time of day at which the queue rolls."""
    said = ROLL_TIME.search(content)
    moment = _milliseconds(said[1]) if said else None
    return epoch if moment is None else moment


def _refuse_others(content: bytes) -> None:
    """Raise ValueError if a table names another wire type, or a zone that has no fixed days."""
    wire = WIRE_TYPE.search(content)
    if wire is not None and wire[1][0] - 0xE0 == len(wire[2]):
        name = wire[2].decode()
        if len(name) != len(WIRE) or _distance(wire[2], WIRE.encode()) > MENDED_MAX:
            raise ValueError(f"wire type {name} is not supported")
    said = ROLL_TIME.search(content)
    if said is not None and said[2].decode() not in ZONES:
        raise ValueError(f"roll time zone {said[2].decode()} is not supported")


def _distance(some: bytes, others: bytes) -> int:
    return sum(one != other for one, other in zip(some, others, strict=True))


def find_roll_near(content: bytes, rolls: Iterable[RollCycle]) -> RollCycle | None:
    """Return the roll cycle and epoch of the nearest head; None if none is near."""
    found = _nearest(content, rolls)
    return found[0] if found else None


def find_head(content: bytes, roll: RollCycle) -> Head:
    """Return the head of a table: unchanged, with its damaged bytes repaired, or made anew.

    Args:
        content: the table.
        roll: the queue's roll cycle, with its epoch.
    """
    found = _nearest(content[:HEAD_MAX], [roll])
    if found is not None and found[0] == roll:
        return found[1]
    (header,) = struct.unpack_from("<I", content) if len(content) >= HEAD_MAX else (0,)
    there = content[: min(4 + (header & LENGTH), HEAD_MAX)]
    # Keys begin at a multiple of 4, so a head of another length is damaged.
    setting = SETTING.match(there) if len(there) % 4 == 0 else None
    if setting and OTHERS.match(there, setting.end()) and read_roll(there) == roll:
        return Head(there, None)
    first, *_ = _roll_times(content[:HEAD_MAX], roll.epoch_ms)
    return Head(table_head(roll, first), 0)


def read_pattern(content: bytes) -> str | None:
    """Return a table's form of the files' names, known or not."""
    setting = SETTING.match(content)
    return setting["pattern"].decode() if setting else None


def read_epoch(content: bytes) -> int:
    """Return the epoch of a table with an unreadable roll cycle; 0 if it names none."""
    said = EPOCH.search(content)
    return _roll_time(content, (_value(said[1]) if said else None) or 0)


def _nearest(content: bytes, rolls: Iterable[RollCycle]) -> tuple[RollCycle, Head] | None:
    far, at, roll, head = MENDED_MAX + 1, 0, None, b""
    for candidate, expected in (pair for roll in rolls for pair in _heads(content, roll)):
        there = content[: len(expected)].ljust(len(expected), b"\0")
        wrong = [at for at, byte in enumerate(expected) if there[at] != byte]
        if len(wrong) < far:
            far, at, roll, head = len(wrong), min(wrong, default=0), candidate, expected
        if not wrong:
            break
    return None if roll is None else (roll, Head(head, at if far else None))


def _heads(content: bytes, roll: RollCycle) -> Iterator[tuple[RollCycle, bytes]]:
    """Yield each possible head of a table with such bytes, for a roll cycle."""
    source = SOURCE.search(content)
    said = OWN_SOURCE[:-2] + source[1] if source else OWN_SOURCE
    for epoch in _epochs(content, roll):
        ours = replace(roll, epoch_ms=epoch)
        for roll_time in _roll_times(content, epoch):
            for fields in (said, INTERVAL + said):
                yield ours, table_head(ours, roll_time, fields)


def _epochs(content: bytes, roll: RollCycle) -> list[int]:
    """Return the possible epochs of a table, if the form of the number may be damaged."""
    if ROLL_TIME.search(content):
        return [_roll_time(content, 0)]
    at = table_head(roll).index(b"\xc5epoch") + 6
    numbers = [bytes([code]) + content[at + 1 : at + 1 + struct.calcsize(form)]
               for code, form in FORMS.items()]  # fmt: skip
    found = [0, *map(_value, numbers)]
    return [epoch for epoch in dict.fromkeys(found) if epoch is not None]


def _roll_times(content: bytes, epoch: int) -> Iterator[bytes]:
    """Yield the possible fields of a table's roll time: the present ones, and none."""
    said = ROLL_TIME.search(content)
    yield said[0] if said else b""
    if 0 <= epoch < DAY_MS and epoch % MINUTE_MS == 0:
        text = f"{epoch // MINUTE_MS // 60:02}:{epoch // MINUTE_MS % 60:02}".encode()
        for zone in ZONES:
            yield (
                b"\xc8rollTime\xb2\x05" + text
                + b"\xccrollTimeZone" + bytes([0xE0 + len(zone)]) + zone.encode()
            )  # fmt: skip
