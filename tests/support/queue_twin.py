"""Queue files in slow and obvious Python, from the specification: the twin of the fast code."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from quiver_fast.queuefile.layout import RollCycle, cycle_file_head

META, NOT_READY, END = 0x40000000, 0x80000000, 0xC0000000
PAGE_BYTES = 4096


def padded(data: bytes, boundary: int) -> bytes:
    return data + bytes(-len(data) % boundary)


def document(content: bytes, *, meta: bool = False) -> bytes:
    return padded(struct.pack("<I", len(content) | (META if meta else 0)) + content, 4)


def raw(content: bytes) -> bytes:
    """A raw entry's content (A.6, form 2)."""
    return struct.pack("<BIB", 0x82, len(content) + 1, 0x8A) + content


@dataclass
class TwinFile:
    """A cycle file of its one writer; `write` for each document, then `finish`."""

    roll: RollCycle
    data: bytearray = field(default_factory=bytearray)
    sequence: int = 0
    last: int = 0
    pages: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        head = cycle_file_head(self.roll, 200)
        self.data += head
        self.top = self._array(b"\xb9\x0bindex2index")
        self._page()

    def _array(self, event: bytes) -> int:
        """Write an index document; return the offset of its slots."""
        pad = 0
        while (len(self.data) + 4 + len(event) + pad) % 8 != 7:
            pad += 1
        # Five bytes of pad and more have a code and a length of their own (A.3).
        filler = b"\x8f" * pad if pad < 5 else b"\x8e" + struct.pack("<I", pad - 5) + bytes(pad - 5)
        count = self.roll.count
        content = event + filler + b"\x8d" + struct.pack("<qq", count, 0) + bytes(8 * count)
        slots = len(self.data) + 4 + len(content) - 8 * count
        self.data += document(content, meta=True)
        return slots

    def _fill(self, slots: int, slot: int, value: int) -> None:
        struct.pack_into("<q", self.data, slots + 8 * slot, value)
        struct.pack_into("<q", self.data, slots - 8, slot + 1)

    def _page(self) -> None:
        at = len(self.data)
        slots = self._array(b"\xb9\x05index")
        self._fill(self.top, len(self.pages), at)
        self.pages.append(slots)

    def write(self, content: bytes, *, meta: bool = False) -> None:
        roll = self.roll
        number, rest = divmod(self.sequence, roll.count * roll.spacing)
        if number == len(self.pages):
            self._page()
        at = len(self.data)
        self.data += document(content, meta=meta)
        if meta:
            return
        if self.sequence % roll.spacing == 0:
            self._fill(self.pages[number], rest // roll.spacing, at)
            struct.pack_into("<q", self.data, 0xB0, self.sequence + roll.spacing)
        self.last = at
        word = (at << roll.shift) % (1 << 64) | self.sequence
        struct.pack_into("<qQ", self.data, 0x40, at, word)
        self.sequence += 1

    def finish(self, *, end: bool = False) -> bytes:
        """The file after an orderly stop, or a roll."""
        tail = bytes(self.data) + struct.pack("<I", END if end else 0)
        return padded(tail, PAGE_BYTES)


def read_file(data: bytes) -> Iterator[bytes]:
    """Yield the entries of a cycle file."""
    at = 0
    while at + 4 <= len(data):
        (header,) = struct.unpack_from("<I", data, at)
        length = header & 0x3FFFFFFF
        if header == 0 or header & NOT_READY or at + 4 + length > len(data):
            return
        if not header & META:
            yield bytes(data[at + 4 : at + 4 + length])
        at = (at + 4 + length + 3) & ~3


def written(roll: RollCycle, documents: Iterable[tuple[bool, bytes]]) -> TwinFile:
    """A file of documents, each with whether it is meta-data."""
    twin = TwinFile(roll)
    for meta, content in documents:
        twin.write(content, meta=meta)
    return twin
