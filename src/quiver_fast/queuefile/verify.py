"""An independent checker of queue files: every deviation from part A, nothing changed.

With the writer and the reader it shares only the table of roll cycles and their file names
(layout.py), because a mistake that both share would pass unseen. It is plain and slow: about a
second per million entries, and a second per 14 MB that checkpoints cover.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.layout import ROLL_CYCLES, RollCycle

META, NOT_READY, LENGTH, END = 0x40000000, 0x80000000, 0x3FFFFFFF, 0xC0000000
# Java's text after an end mark (A.2).
END_TEXT = b"\xc3EOF"
WORD, WORDS = 0xA7, 0x8D
PROGRESS_STEP = 1 << 26
CONTROLS = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
CHECKPOINT = re.compile(rb"checkpoint: \{ seq: (\d+), pos: (\d+), crc32c: ([0-9a-f]{8}) \}")
# CRC-32C of each byte: the polynomial 0x1EDC6F41, bits reversed.
CRC_TABLE = list(range(256))
for _ in range(8):
    CRC_TABLE = [crc >> 1 ^ (0x82F63B78 if crc & 1 else 0) for crc in CRC_TABLE]
# Names in the first document of a table, each after its code (A.9).
TABLE_NAMES = (
    b"\xb9\x06header", b"\xb6\x07STStore", b"\xc8wireType", b"\xb6\x08WireType",
    b"\xecBINARY_LIGHT", b"\xc8metadata", b"\xb6\x07SCQMeta", b"\xc4roll", b"\xb6\x08SCQSRoll",
    b"\xc6length", b"\xc8sourceId",
)  # fmt: skip
KEYS = ("listing.highestCycle", "listing.lowestCycle", "listing.modCount")

# The first document of a file by A.4, but for its numbers and words.
HEAD_SIZE = 197
HEAD_PARTS = {
    4: bytes.fromhex("b906686561646572b60853435153746f726582aa000000cd7772697465506f736974696f6e"),
    0x29: bytes.fromhex("8e01000000008d02000000000000000200000000000000"),
    0x50: bytes.fromhex(
        "c8696e646578696e67b60c53435153496e646578696e67824c000000ca696e646578436f756e74"
    ),
    0xA0: bytes.fromhex("c96c617374496e6465788e00000000a7"),
    0xB8: bytes.fromhex("ca64617461466f726d6174a101"),
}

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Deviation:
    """Something that is not as part A of the specification says.

    Attributes:
        path: the file.
        offset: where in it, bytes.
        text: the fault.
    """

    path: Path
    offset: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}: at {self.offset}: {self.text}"


@dataclass
class FileReport:
    """The contents of one cycle file.

    Attributes:
        path: the file.
        entries: data documents.
        size: bytes of the file that documents take.
        ended: whether there is an end mark.
    """

    path: Path
    entries: int = 0
    size: int = 0
    ended: bool = False


@dataclass
class Report:
    """The contents of a queue's directory, and its faults.

    Attributes:
        files: the cycle files, oldest first.
        deviations: the faults, in the order of the files.
    """

    files: list[FileReport] = field(default_factory=list)
    deviations: list[Deviation] = field(default_factory=list)

    @property
    def entries(self) -> int:
        """Data documents of all files."""
        return sum(file.entries for file in self.files)


def verify_queue(directory: str | Path, progress: Progress | None = None) -> Report:
    """Check every file of a queue that nobody writes to.

    Args:
        directory: the queue's.
        progress: called with the bytes read and the bytes of all files, now and then.

    Raises:
        OutputError: the directory or a file cannot be read.
    """
    folder = Path(directory)
    report = Report()
    try:
        roll = _check_table(folder, report)
        if roll is None:
            return report
        paths = [folder / roll.file_name(cycle) for cycle in _cycles(folder, roll)]
        for path in paths:
            # Within its folder, a queue may have another one.
            if not path.is_file() and not (path / "metadata.cq4t").is_file():
                report.deviations.append(Deviation(path, 0, "no file, where one has entries"))
        paths = [path for path in paths if path.is_file()]
        total = sum(path.stat().st_size for path in paths)
        done = 0
        for path in paths:
            _FileCheck(path, roll, report, path is not paths[-1]).run(
                partial(_tell, progress, done, total)
            )
            done += path.stat().st_size
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: {error.strerror}") from None
    return report


def _tell(progress: Progress | None, before: int, total: int, at: int) -> None:
    if progress is not None:
        progress(before + at, total)


def _cycles(folder: Path, roll: RollCycle) -> list[int]:
    found = (roll.cycle_of(name) for name in os.listdir(folder))
    return sorted(cycle for cycle in found if cycle is not None)


# metadata.cq4t, A.9


def _check_table(folder: Path, report: Report) -> RollCycle | None:
    """Check the table; return the queue's roll cycle, None if nothing tells it."""
    path = folder / "metadata.cq4t"
    by_name = next((roll for roll in ROLL_CYCLES.values() if _cycles(folder, roll)), None)
    if not path.is_file():
        report.deviations.append(Deviation(path, 0, "the table is missing"))
        return by_name
    data = path.read_bytes()
    setting = re.search(rb"\xc6format[\xe0-\xff]([ -~]*)\xc5epoch", data[:512])
    patterns = {roll.pattern.encode(): roll for roll in ROLL_CYCLES.values()}
    roll = patterns.get(setting[1]) if setting else None
    if roll is None:
        report.deviations.append(Deviation(path, 0, "no known roll cycle"))
        return by_name
    roll = replace(roll, epoch_ms=_number_of(data[:512], b"epoch") or 0)
    for name in TABLE_NAMES:
        if name not in data[:512]:
            text = name[name[0] in (0xB6, 0xB9) :][1:].decode()
            report.deviations.append(Deviation(path, 0, f"the header names no {text}"))
    words = _table_words(path, data, report)
    cycles = _cycles(folder, roll)
    truth = (cycles[-1], cycles[0]) if cycles else (-(1 << 31), (1 << 31) - 1)
    for key, expected in zip(KEYS, truth, strict=False):
        at, value = words.get(key, (0, None))
        if value != expected:
            report.deviations.append(Deviation(path, at, f"{key} is {value}, not {expected}"))
    return roll


def _table_words(path: Path, data: bytes, report: Report) -> dict[str, tuple[int, int]]:
    """Return offset and value of each key."""
    words: dict[str, tuple[int, int]] = {}
    at = 0
    while at + 4 <= len(data):
        (header,) = struct.unpack_from("<I", data, at)
        end = at + 4 + (header & LENGTH)
        if header == 0:
            if data.count(0, at) != len(data) - at:
                report.deviations.append(Deviation(path, at, "bytes after the last key"))
            break
        if header & NOT_READY or end > len(data):
            report.deviations.append(Deviation(path, at, f"a document with header {header:08x}"))
            break
        if not header & META and data[at + 4] == 0xB9 and data[end - 9] == WORD and end % 8 == 0:
            name = data[at + 6 : at + 6 + data[at + 5]].decode("ascii", "replace")
            words[name] = (end - 8, struct.unpack_from("<q", data, end - 8)[0])
        elif not header & META:
            report.deviations.append(Deviation(path, at, "a document that is no key and word"))
        at = -(-end // 4) * 4
    return words


# Cycle files, A.2, A.4, A.6


class _FileCheck:
    """The check of one cycle file."""

    def __init__(self, path: Path, roll: RollCycle, report: Report, older: bool) -> None:
        self._path = path
        self._roll = roll
        self._report = report
        self._found = FileReport(path)
        report.files.append(self._found)
        self._older = older
        self._data: mmap.mmap | bytes = b""
        # Offsets of data documents whose sequence is a multiple of the spacing.
        self._indexed: list[int] = []
        self._count, self._spacing = roll.count, roll.spacing
        # Offset of each index document, and of its first slot.
        self._pages: dict[int, int] = {}
        # Why a document is not an index page: this matters if something refers to it.
        self._no_pages: dict[int, str] = {}
        self._last = 0
        self._entries = 0

    def _wrong(self, at: int, text: str) -> None:
        self._report.deviations.append(Deviation(self._path, at, text))

    def _long(self, at: int) -> int:
        value: int = struct.unpack_from("<q", self._data, at)[0]
        return value

    def run(self, progress: Callable[[int], object]) -> None:
        """Check the whole file."""
        with self._path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                self._wrong(0, "the file is empty")
                return
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as self._data:
                words = self._check_head()
                if words is not None:
                    self._found.size = self._walk(progress)
                    self._check_tail(self._found.size)
                    self._check_words(words)
                    self._check_index(words["index2Index"])
                self._found.entries = self._entries

    def _check_head(self) -> dict[str, int] | None:
        """Check `!SCQStore`; return where its words are, None if it is none."""
        data = self._data
        (header,) = struct.unpack_from("<I", data) if len(data) >= 4 else (0,)
        end = 4 + (header & LENGTH)
        if header & (META | NOT_READY) != META or end > len(data):
            self._wrong(0, f"a first document with header {header:08x}")
            return None
        head = data[:end]
        if not head[4:].startswith(b"\xb9\x06header\xb6\x08SCQStore"):
            self._wrong(4, "the first document is no !SCQStore")
            return None
        words = {
            "writePosition": _value_of(head, b"writePosition", WORDS, 16),
            "index2Index": _value_of(head, b"index2Index", WORD, 0),
            "lastIndex": _value_of(head, b"lastIndex", WORD, 0),
        }
        numbers = (("indexCount", self._roll.count), ("indexSpacing", self._roll.spacing))
        for name, expected in (*numbers, ("dataFormat", 1)):
            value = _number_of(head, name.encode())
            if value != expected:
                self._wrong(0, f"{name} is {value}, not {expected}")
        self._check_constants(head, words)
        # A file's own numbers hold for it.
        self._count = _number_of(head, b"indexCount") or self._count
        self._spacing = _number_of(head, b"indexSpacing") or self._spacing
        missing = [name for name, at in words.items() if at is None]
        for name in missing:
            self._wrong(0, f"no aligned word {name}")
        return None if missing else {name: at for name, at in words.items() if at is not None}

    def _check_constants(self, head: bytes, words: dict[str, int | None]) -> None:
        """Check the bytes before the words, in a file whose words are at the usual places."""
        if tuple(words.values()) != (0x40, 0x98, 0xB0) or len(head) != HEAD_SIZE:
            return
        for at, expected in HEAD_PARTS.items():
            actual = head[at : at + len(expected)]
            if actual != expected:
                self._wrong(at, f"the header has {actual.hex()}, not {expected.hex()}")

    def _walk(self, progress: Callable[[int], object]) -> int:
        """Check every document; return where they end."""
        data = self._data
        (header,) = struct.unpack_from("<I", data)
        at = _next(0, header)
        report_at = PROGRESS_STEP
        while at + 4 <= len(data):
            (header,) = struct.unpack_from("<I", data, at)
            if header in (0, END):
                return at
            end = at + 4 + (header & LENGTH)
            if header & NOT_READY:
                self._wrong(at, f"a document that is not ready, header {header:08x}")
                return at
            if end > len(data):
                self._wrong(
                    at, f"a document of {header & LENGTH} bytes, cut by the end of the file"
                )
                return at
            following = _next(at, header)
            if any(data[end:following]):
                self._wrong(end, "pad that is not zero")
            if header & META:
                self._take_meta(at, end)
            else:
                self._take_entry(at, end)
            at = following
            if at >= report_at:
                progress(at)
                report_at += PROGRESS_STEP
        return at

    def _take_entry(self, at: int, end: int) -> None:
        content = self._data[at + 4 : end]
        if content[0] < 0x80:
            self._check_text(at, content)
        elif content[0] == 0x82 and content[5:6] == b"\x8a":
            (length,) = struct.unpack_from("<I", content, 1)
            if length != len(content) - 5:
                self._wrong(at + 4, f"raw bytes of {length - 1} in a document of {len(content)}")
        if self._entries % self._spacing == 0:
            self._indexed.append(at)
        self._last = at
        self._entries += 1

    def _check_text(self, at: int, content: bytes) -> None:
        control = CONTROLS.search(content)
        if control:
            self._wrong(at + 4 + control.start(), "a control character in a text")
        try:
            content.decode()
        except UnicodeDecodeError as error:
            self._wrong(at + 4 + error.start, "a text that is not UTF-8")

    def _take_meta(self, at: int, end: int) -> None:
        content = self._data[at + 4 : min(end, at + 4 + 128)]
        if content.startswith((b"\xb9\x05index", b"\xb9\x0bindex2index")):
            self._take_page(at, end)
        elif content.startswith(b"checkpoint:"):
            self._check_checkpoint(at, content[: end - at - 4])

    def _take_page(self, at: int, end: int) -> None:
        slots = end - 8 * self._count
        code = slots - 17
        if code < at + 10 or self._data[code] != WORDS or slots % 8:
            self._no_pages[at] = "an index document without an aligned array"
        elif self._long(code + 1) != self._count:
            self._no_pages[at] = f"an index of {self._long(code + 1)}, not {self._count}"
        else:
            self._pages[at] = slots

    def _check_checkpoint(self, at: int, content: bytes) -> None:
        said = CHECKPOINT.fullmatch(content)
        if said is None:
            self._wrong(at + 4, "a checkpoint that cannot be read")
            return
        if int(said[1]) != self._entries:
            self._wrong(
                at + 4, f"a checkpoint after {int(said[1])} entries stands after {self._entries}"
            )
        value, place = 0, int(said[2])
        while place < at:
            (header,) = struct.unpack_from("<I", self._data, place)
            document = self._data[place : place + 4 + (header & LENGTH)]
            if not (header & META and document[4:].startswith(b"\xb9\x05index")):
                value = crc32c(document, value)
            place = _next(place, header)
        if place != at or value != int(said[3], 16):
            self._wrong(at + 4, f"a checkpoint of {said[3].decode()} over bytes of {value:08x}")

    def _check_tail(self, tail: int) -> None:
        """Check the bytes after the last document."""
        data = self._data
        ended = tail + 4 <= len(data) and struct.unpack_from("<I", data, tail)[0] == END
        self._found.ended = ended
        if self._older and not ended:
            self._wrong(tail, "an older file without an end mark")
        at = tail + 4 if ended else tail
        if ended and data[at : at + 4] == END_TEXT:
            at += 4
        while at < len(data):
            chunk = data[at : at + PROGRESS_STEP]
            if chunk.count(0) != len(chunk):
                dirt = re.search(rb"[^\0]", chunk)
                self._wrong(at + (dirt.start() if dirt else 0), "bytes after the last document")
                return
            at += PROGRESS_STEP

    def _shift(self) -> int:
        """Bits of the sequence in the sequence word, by the file's own numbers (A.5)."""
        return max(32, (self._count * self._count * self._spacing - 1).bit_length())

    def _check_words(self, words: dict[str, int]) -> None:
        """Check the words that tell of the last entry."""
        at = words["writePosition"]
        if self._long(at) != self._last:
            self._wrong(at, f"writePosition is {self._long(at)}, not {self._last}")
        if self._entries:
            expected = (self._last << self._shift()) % (1 << 64) | (self._entries - 1)
            (value,) = struct.unpack_from("<Q", self._data, at + 8)
            if value != expected:
                self._wrong(at + 8, f"the sequence word is {value:016x}, not {expected:016x}")
        indexed = len(self._indexed) * self._spacing
        if self._long(words["lastIndex"]) != indexed:
            value = self._long(words["lastIndex"])
            self._wrong(words["lastIndex"], f"lastIndex is {value}, not {indexed}")

    def _check_index(self, word: int) -> None:
        """Check the page of pages, and each page in it."""
        top = self._long(word)
        if top == 0:
            return
        if top not in self._pages:
            self._wrong(word, f"index2Index {top} is {self._fault_of(top)}")
            return
        slots = self._pages[top]
        pages = struct.unpack_from(f"<{self._count}q", self._data, slots)
        self._check_used(slots, pages)
        for number, page in enumerate(pages):
            if page and page not in self._pages:
                self._wrong(slots + 8 * number, f"{page} is {self._fault_of(page)}")
            elif page:
                self._check_page(number, page)

    def _fault_of(self, at: int) -> str:
        return self._no_pages.get(at, "no index document")

    def _check_page(self, number: int, page: int) -> None:
        slots = self._pages[page]
        filled = struct.unpack_from(f"<{self._count}q", self._data, slots)
        self._check_used(slots, filled)
        first = number * self._count
        for slot, at in enumerate(filled):
            known = first + slot < len(self._indexed)
            expected = self._indexed[first + slot] if known else 0
            sequence = (first + slot) * self._spacing
            # A page that was written late knows nothing of the entries before it.
            if at != expected and (at or expected > page):
                self._wrong(slots + 8 * slot, f"index of entry {sequence} is {at}, not {expected}")

    def _check_used(self, slots: int, values: tuple[int, ...]) -> None:
        used = max((slot + 1 for slot, value in enumerate(values) if value), default=0)
        if self._long(slots - 8) != used:
            self._wrong(slots - 8, f"{self._long(slots - 8)} slots used, not {used}")


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the CRC-32C of ``data``, going on from ``value``."""
    value ^= 0xFFFFFFFF
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def _next(at: int, header: int) -> int:
    return (at + 4 + (header & LENGTH) + 3) & ~3


def _after(head: bytes, name: bytes) -> int:
    """Return the offset after a field's name and pad in binary wire, -1 for none (A.3)."""
    at = head.find(bytes([0xC0 + len(name)]) + name)
    if at < 0:
        return -1
    at += 1 + len(name)
    while at < len(head) and head[at] in (0x8E, 0x8F):
        at += 1 if head[at] == 0x8F else 5 + struct.unpack_from("<I", head, at + 1)[0]
    return at


def _value_of(head: bytes, name: bytes, code: int, skipped: int) -> int | None:
    at = _after(head, name)
    if at < 0 or at >= len(head) or head[at] != code:
        return None
    at += 1 + skipped
    return at if at % 8 == 0 and at + 8 <= len(head) else None


def _number_of(head: bytes, name: bytes) -> int | None:
    at = _after(head, name)
    forms = {0xA1: "<B", 0xA2: "<H", 0xA3: "<I", 0xA4: "<b", 0xA5: "<h", 0xA6: "<i", 0xA7: "<q",
             0x90: "<f"}  # fmt: skip
    if at < 0 or at >= len(head) or head[at] not in forms:
        return None
    form = forms[head[at]]
    if at + 1 + struct.calcsize(form) > len(head):
        return None
    value: float = struct.unpack_from(form, head, at + 1)[0]
    return int(value) if abs(value) < 1 << 63 else None
