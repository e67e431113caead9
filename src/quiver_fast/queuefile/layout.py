"""What a queue's files are made of: roll cycles, names, and the bytes of their headers.

Specified in docs/internals/queue-files.md; binary wire is A.3.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from quiver_fast.errors import UsageError

__all__ = [
    "DEFAULT_ROLL",
    "ROLL_CYCLES",
    "RollCycle",
    "cycle_file_head",
    "index_document",
    "roll_cycle",
    "table_document",
    "table_head",
]

META = 0x40000000
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
    """How often a queue begins a new file, and how its entries are indexed (A.5).

    Attributes:
        name: Chronicle's name of the cycle.
        length_ms: milliseconds that one file covers.
        pattern: Java's date pattern of the file names.
        count: slots of an index page, and pages of a file.
        spacing: entries from one slot to the next.
    """

    name: str
    length_ms: int
    pattern: str
    count: int
    spacing: int

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
        return utc_ms // self.length_ms

    def file_name(self, cycle: int) -> str:
        """Return the name of a cycle's file."""
        moment = EPOCH + timedelta(milliseconds=cycle * self.length_ms)
        formatted = "".join(
            moment.strftime(DATE_PARTS[part][0]) if part in DATE_PARTS else part.strip("'")
            for part in self._parts()
        )
        return f"{formatted}.cq4"

    def cycle_of(self, name: str) -> int | None:
        """Return the cycle of a file name; None if it is not one of this roll cycle's."""
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
        cycle = elapsed // timedelta(milliseconds=self.length_ms)
        # A time within a cycle, not its beginning, is no file name of ours.
        return cycle if self.file_name(cycle) == name else None


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


def _int(value: int) -> bytes:
    if 0 <= value <= 255:
        return struct.pack("<BB", 0xA1, value)
    if value <= 32767:
        return struct.pack("<Bh", 0xA5, value)
    if value <= 65535:
        return struct.pack("<BH", 0xA2, value)
    return struct.pack("<Bi", 0xA6, value)


def _pad(gap: int) -> bytes:
    return b"\x8f" * gap if gap < 5 else b"\x8e" + struct.pack("<I", gap - 5) + bytes(gap - 5)


def _block(content: bytes) -> bytes:
    return b"\x82" + struct.pack("<I", len(content)) + content


def _aligned(at: int, code: int, boundary: int) -> bytes:
    """Return pad and code so that what follows, for bytes from ``at`` on, is aligned."""
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
    inner = _field("indexCount") + _int(roll.count) + _field("indexSpacing") + _int(roll.spacing)
    for name, value in (("index2Index", index2index), ("lastIndex", 0)):
        inner += _field(name)
        inner += _long(inner_at + len(inner), value)
    body += _block(inner) + _field("dataFormat") + _int(1)
    return _document(prefix + _block(body), meta=True)


def index_document(at: int, name: str, count: int) -> bytes:
    """Return an empty `index2index` or `index` document that begins at offset ``at`` (A.4)."""
    content = _event(name)
    content += _aligned(at + 4 + len(content), 0x8D, 8)
    return _document(content + struct.pack("<qq", count, 0) + bytes(8 * count), meta=True)


def table_head(roll: RollCycle) -> bytes:
    """Return the first document of ``metadata.cq4t``, `!STStore` (A.9)."""
    cycle = _field("length") + _int(roll.length_ms)
    cycle += _field("format") + _text(roll.pattern) + _field("epoch") + _int(0)
    meta = _field("roll") + _type("SCQSRoll") + _block(cycle)
    meta += _field("deltaCheckpointInterval") + _int(64) + _field("sourceId") + _int(0)
    body = _field("wireType") + _type("WireType") + _text("BINARY_LIGHT")
    body += _field("metadata") + _type("SCQMeta") + _block(meta)
    prefix = _event("header") + _type("STStore")
    # The pad is inside the outer block, so that the document itself needs none.
    body += _pad(-(len(prefix) + 5 + len(body)) % 4)
    return _document(prefix + _block(body), meta=True)


def table_document(at: int, key: str, value: int) -> tuple[bytes, int]:
    """Return one key's document at offset ``at`` of the table, and its value's offset (A.9)."""
    content = _event(key)
    content += _long(at + 4 + len(content), value)
    return _document(content, meta=False), at + 4 + len(content) - 8
