"""An independent check of a queue's files, which changes nothing: slow, obvious, by the book.

It shares no code with the writer and the reader: documents are walked one by one, and what
the header's words and the index pages say is compared with that walk.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["FileReport", "check_file"]

_META, _NOT_READY, _END, _LENGTH = 0x40000000, 0x80000000, 0xC0000000, 0x3FFFFFFF
_PAD, _LONG_PAD, _LONG, _ARRAY = 0x8F, 0x8E, 0xA7, 0x8D
_STEP = 4096


@dataclass
class FileReport:
    """What one file holds, and what is wrong with it.

    Attributes:
        name: the file's name.
        entries: data documents.
        size: bytes that documents take.
        ended: whether there is an end mark.
        faults: one line each.
    """

    name: str
    entries: int = 0
    size: int = 0
    ended: bool = False
    faults: list[str] = field(default_factory=list)


def check_file(path: Path, newest: bool, progress: Callable[[int, int], None]) -> FileReport:
    """Walk one cycle file and compare it with its header and index.

    Args:
        path: the file.
        newest: whether it is the queue's last one, which needs no end mark.
        progress: called with bytes done and all bytes, now and then.

    Raises:
        OSError: it cannot be read.
    """
    report = FileReport(path.name)
    if path.stat().st_size < 8:
        report.faults.append("shorter than a header")
        return report
    with path.open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            _check(data, report, newest, progress)
        except (struct.error, IndexError, ValueError) as error:
            report.faults.append(f"malformed: {error}")
        finally:
            data.close()
    return report


def _check(
    data: mmap.mmap, report: FileReport, newest: bool, progress: Callable[[int, int], None]
) -> None:
    head_size = _u32(data, 0) & _LENGTH
    head = data[4 : 4 + head_size]
    if not _u32(data, 0) & _META or b"SCQStore" not in head:
        report.faults.append("the first document is no !SCQStore")
        return
    positions = _walk(data, _following(0, head_size), report, progress)
    if not newest and not report.ended:
        report.faults.append("no end mark, and it is not the newest file")
    write_position = _word(data, head, b"writePosition")
    last = positions[-1] if positions else 0
    if write_position != last:
        report.faults.append(f"writePosition is {write_position}, the last entry at {last}")
    _check_index(data, head, positions, report)


def _walk(
    data: mmap.mmap, at: int, report: FileReport, progress: Callable[[int, int], None]
) -> list[int]:
    """Return the offset of every data document; what ends the walk is judged here."""
    positions: list[int] = []
    documents = 0
    while at + 4 <= len(data):
        header = _u32(data, at)
        if header in (0, _END):
            report.ended = header == _END
            break
        if header & _NOT_READY:
            report.faults.append(f"a document at {at} is not ready")
            break
        end = at + 4 + (header & _LENGTH)
        if end > len(data):
            report.faults.append(f"a document at {at} goes beyond the file's end")
            break
        if any(data[end : _following(at, header & _LENGTH)]):
            report.faults.append(f"the pad after the document at {at} is not zero")
        if not header & _META:
            positions.append(at)
        documents += 1
        if documents % _STEP == 0:
            progress(at, len(data))
        at = _following(at, header & _LENGTH)
    report.entries, report.size = len(positions), at
    return positions


def _check_index(data: mmap.mmap, head: bytes, positions: list[int], report: FileReport) -> None:
    """Compare every slot of every index page with the walk (A.4)."""
    count, spacing = _number(head, b"indexCount"), _number(head, b"indexSpacing")
    index2index = _word(data, head, b"index2Index")
    if index2index == 0:
        return
    for k, page in enumerate(_slots(data, index2index)):
        if page == 0:
            continue
        for j, slot in enumerate(_slots(data, page)):
            sequence = (k * count + j) * spacing
            expected = positions[sequence] if sequence < len(positions) else 0
            if slot not in (0, expected):
                report.faults.append(f"index of entry {sequence}: {slot}, and not {expected}")


def _slots(data: mmap.mmap, at: int) -> tuple[int, ...]:
    """Return the slots of the index document at ``at``."""
    content = data[at + 4 : at + 4 + (_u32(data, at) & _LENGTH)]
    place = _skip_pad(content, 2 + content[1])
    if content[place] != _ARRAY:
        raise ValueError(f"no index at {at}")
    (capacity,) = struct.unpack_from("<q", content, place + 1)
    return struct.unpack_from(f"<{capacity}q", content, place + 17)


def _word(data: mmap.mmap, head: bytes, name: bytes) -> int:
    """Return a word of the header that is updated in place; of an array, its first."""
    place = _skip_pad(head, head.index(name) + len(name))
    if head[place] == _ARRAY:
        place += 16
    elif head[place] != _LONG:
        raise ValueError(f"{name.decode()} is no long")
    return int(struct.unpack_from("<q", data, 4 + place + 1)[0])


def _number(head: bytes, name: bytes) -> int:
    """Return an integer of the header (A.3)."""
    at = head.index(name) + len(name)
    formats = {0xA1: "<B", 0xA5: "<h", 0xA2: "<H", 0xA6: "<i"}
    return int(struct.unpack_from(formats[head[at]], head, at + 1)[0])


def _skip_pad(content: bytes, at: int) -> int:
    while content[at] in (_PAD, _LONG_PAD):
        at += 1 if content[at] == _PAD else 5 + int.from_bytes(content[at + 1 : at + 5], "little")
    return at


def _u32(data: mmap.mmap, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _following(at: int, length: int) -> int:
    return (at + 4 + length + 3) & ~3
