"""The layout of a queue's files: roll cycles, names, and the bytes of their headers.

Specified in docs/internals/queue-files.md; binary wire is A.3.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from quiver_fast.errors import UsageError

META = 0x40000000
DAY_MS = 86_400_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Java's name of a part of a date: (strftime's, its pattern).
DATE_PARTS = {
    "yyyy": ("%Y", r"\d{4}"),
    "MM": ("%m", r"\d{2}"),
    "dd": ("%d", r"\d{2}"),
    "HH": ("%H", r"\d{2}"),
    "mm": ("%M", r"\d{2}"),
    "ss": ("%S", r"\d{2}"),
}


@dataclass(frozen=True)
class RollCycle:
    """A roll cycle: how often a queue begins a new file, and the shape of its index (A.5).

    Attributes:
        name: Chronicle's name of the cycle.
        length_ms: milliseconds that one file covers.
        pattern: Java's date pattern of the file names.
        count: slots of an index page, and pages of a file.
        spacing: entries from one slot to the next.
        epoch_ms: the beginning of cycle 0, UTC milliseconds; not 0 only in Java's queues.
    """

    name: str
    length_ms: int
    pattern: str
    count: int
    spacing: int
    epoch_ms: int = 0

    @property
    def shift(self) -> int:
        """Bits of an index below the cycle."""
        bits = 2 * (self.count.bit_length() - 1) + self.spacing.bit_length() - 1
        return max(32, bits)

    @property
    def capacity(self) -> int:
        """The most entries that one file holds."""
        return min((1 << self.shift) - 1, self.count * self.count * self.spacing)

    def _parts(self) -> list[str]:
        return re.findall(r"yyyy|MM|dd|HH|mm|ss|'[^']*'|-", self.pattern)

    def cycle_at(self, utc_ms: int) -> int:
        """Return the cycle of a time."""
        return (utc_ms - self.epoch_ms) // self.length_ms

    def ends_at(self, cycle: int) -> int:
        """Return the time at which a cycle is over, UTC milliseconds."""
        return (cycle + 1) * self.length_ms + self.epoch_ms

    @property
    def _names_from(self) -> int:
        """The time of cycle 0 in the names of files: Java uses only whole days of the epoch."""
        if self.epoch_ms < 0 and self.epoch_ms % DAY_MS:
            return -DAY_MS
        return self.epoch_ms - self.epoch_ms % DAY_MS

    def file_name(self, cycle: int) -> str:
        """Return the name of a cycle's file."""
        moment = EPOCH + timedelta(milliseconds=cycle * self.length_ms + self._names_from)
        formatted = "".join(
            moment.strftime(DATE_PARTS[part][0]) if part in DATE_PARTS else part.strip("'")
            for part in self._parts()
        )
        return f"{formatted}.cq4"

    def cycle_of(self, name: str) -> int | None:
        """Return the cycle of a file name; None if the name does not fit this roll cycle."""
        parts = self._parts()
        expression = "".join(
            f"({DATE_PARTS[part][1]})" if part in DATE_PARTS else re.escape(part.strip("'"))
            for part in parts
        )
        match = re.fullmatch(expression + r"\.cq4", name)
        if match is None:
            return None
        formats = " ".join(DATE_PARTS[part][0] for part in parts if part in DATE_PARTS)
        try:
            moment = datetime.strptime(" ".join(match.groups()), formats)
        except ValueError:
            return None
        elapsed = moment.replace(tzinfo=timezone.utc) - EPOCH
        elapsed -= timedelta(milliseconds=self._names_from)
        cycle = elapsed // timedelta(milliseconds=self.length_ms)
        # A time within a cycle, not its beginning, is no file name of ours.
        return cycle if cycle >= 0 and self.file_name(cycle) == name else None


ROLL_CYCLES = {
    cycle.name: cycle
    for cycle in (
        RollCycle("FAST_DAILY", 86_400_000, "yyyyMMdd'F'", 4096, 256),
        RollCycle("FAST_HOURLY", 3_600_000, "yyyyMMdd-HH'F'", 4096, 256),
        RollCycle("FIVE_MINUTELY", 300_000, "yyyyMMdd-HHmm'V'", 2048, 256),
        RollCycle("MINUTELY", 60_000, "yyyyMMdd-HHmm", 2048, 16),
        RollCycle("TEST_SECONDLY", 1_000, "yyyyMMdd-HHmmss'T'", 32768, 4),
        RollCycle("TEST4_DAILY", 86_400_000, "yyyyMMdd'T4'", 32, 4),
    )
}
DEFAULT_ROLL = "FAST_DAILY"


def roll_cycle(name: str) -> RollCycle:
    """Return a roll cycle by its name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in ROLL_CYCLES:
        raise UsageError(f"roll cycle must be one of {' '.join(ROLL_CYCLES)}, not '{name}'")
    return ROLL_CYCLES[name]


# Binary wire, A.3


def _field(name: str) -> bytes:
    return bytes([0xC0 + len(name)]) + name.encode()


def _event(name: str) -> bytes:
    return bytes([0xB9, len(name)]) + name.encode()


def _type(name: str) -> bytes:
    return bytes([0xB6, len(name)]) + name.encode()


def _text(text: str) -> bytes:
    return bytes([0xE0 + len(text)]) + text.encode()


# The forms of a whole number, in the order in which Java prefers them.
NUMBERS = {0xA1: "<B", 0xA4: "<b", 0xA5: "<h", 0xA2: "<H", 0xA6: "<i", 0xA3: "<I"}
FLOAT = struct.Struct("<f")


def whole_number(value: int) -> bytes:
    """Return a number in the form that Java chooses (A.3)."""
    for code, form in NUMBERS.items():
        size = 8 * struct.calcsize(form)
        least = -(1 << size - 1) if form.islower() else 0
        if least <= value < least + (1 << size):
            return bytes([code]) + struct.pack(form, value)
    if FLOAT.unpack(FLOAT.pack(value))[0] == value:
        return b"\x90" + FLOAT.pack(value)
    return b"\xa7" + struct.pack("<q", value)


def _pad(gap: int) -> bytes:
    return b"\x8f" * gap if gap < 5 else b"\x8e" + struct.pack("<I", gap - 5) + bytes(gap - 5)


def _block(content: bytes) -> bytes:
    return b"\x82" + struct.pack("<I", len(content)) + content


def _aligned(at: int, code: int, boundary: int) -> bytes:
    """Return pad and code, from ``at`` on, so that the next bytes are aligned."""
    return _pad(-(at + 1) % boundary) + bytes([code])


def _document(content: bytes, meta: bool) -> bytes:
    header = struct.pack("<I", len(content) | (META if meta else 0))
    return header + content + bytes(-len(content) % 4)


def _long(at: int, value: int) -> bytes:
    return _aligned(at, 0xA7, 8) + struct.pack("<q", value)


def cycle_file_head(roll: RollCycle, index2index: int = 0) -> bytes:
    """Return the first document of a cycle file, `!SCQStore`, of an empty queue (A.4).

    Args:
        roll: the queue's roll cycle.
        index2index: offset of the document of that name.
    """
    prefix = _event("header") + _type("SCQStore")
    # Each block's content begins five bytes after its code; offsets count from the file's start.
    at = 4 + len(prefix) + 5
    body = _field("writePosition")
    body += _aligned(at + len(body), 0x8D, 16) + struct.pack("<qqqq", 2, 2, 0, 0)
    body += _field("indexing") + _type("SCQSIndexing")
    inner_at = at + len(body) + 5
    inner = (
        _field("indexCount")
        + whole_number(roll.count)
        + _field("indexSpacing")
        + whole_number(roll.spacing)
    )
    for name, value in (("index2Index", index2index), ("lastIndex", 0)):
        inner += _field(name)
        inner += _long(inner_at + len(inner), value)
    body += _block(inner) + _field("dataFormat") + whole_number(1)
    return _document(prefix + _block(body), meta=True)


def index_document(at: int, name: str, count: int) -> bytes:
    """Return an empty `index2index` or `index` document that begins at offset ``at`` (A.4)."""
    content = _event(name)
    content += _aligned(at + 4 + len(content), 0x8D, 8)
    return _document(content + struct.pack("<qq", count, 0) + bytes(8 * count), meta=True)


# Fields of our own tables after the roll cycle.
OWN_FIELDS = (
    _field("deltaCheckpointInterval") + whole_number(64) + _field("sourceId") + whole_number(0)
)


def table_head(roll: RollCycle, roll_time: bytes = b"", fields: bytes = OWN_FIELDS) -> bytes:
    """Return the first document of ``metadata.cq4t``, `!STStore` (A.9).

    Args:
        roll: the queue's roll cycle.
        roll_time: Java's fields after the epoch.
        fields: the fields after the roll cycle.
    """
    cycle = _field("length") + whole_number(roll.length_ms)
    cycle += _field("format") + _text(roll.pattern) + _field("epoch") + whole_number(roll.epoch_ms)
    meta = _field("roll") + _type("SCQSRoll") + _block(cycle + roll_time) + fields
    body = _field("wireType") + _type("WireType") + _text("BINARY_LIGHT")
    body += _field("metadata") + _type("SCQMeta") + _block(meta)
    prefix = _event("header") + _type("STStore")
    # The pad is inside the outer block, so that the document itself needs none.
    body += _pad(-(len(prefix) + 5 + len(body)) % 4)
    return _document(prefix + _block(body), meta=True)


def table_document(at: int, key: str, value: int) -> tuple[bytes, int]:
    """Return one key's document at offset ``at`` of the table, and its value's offset (A.9)."""
    return word_document(at, _event(key), value)


def word_document(at: int, event: bytes, value: int) -> tuple[bytes, int]:
    """As `table_document`, for a key with its code and length."""
    content = event + _long(at + 4 + len(event), value)
    return _document(content, meta=False), at + 4 + len(content) - 8
