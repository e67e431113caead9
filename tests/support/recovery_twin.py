"""The repair of a damaged cycle file (A.10): slow and obvious, from the specification.

It shares nothing with the recovery but CRC-32C and the bytes of a new file. Files are
small, so everything is searched again whenever it is needed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quiver_fast.queuefile.layout import RollCycle, cycle_file_head, index_document
from quiver_fast.queuefile.verify import crc32c

META, NOT_READY, END, LENGTH = 0x40000000, 0x80000000, 0xC0000000, 0x3FFFFFFF
CHECKPOINT = re.compile(
    rb"checkpoint: \{ seq: (?:0|[1-9]\d*), pos: (0|[1-9]\d*), crc32c: ([0-9a-f]{8}) \}"
)
PAGE_EVENT, TOP_EVENT = b"\xb9\x05index", b"\xb9\x0bindex2index"
TextCheck = Callable[[bytes], bool]


class UnsupportedError(Exception):
    """A file of Chronicle Queue before 5.19.11: refused and not changed."""


@dataclass(frozen=True)
class Head:
    """Document 1: the places of its words, and its numbers (A.4)."""

    end: int
    write_position: int
    index2index: int
    last_index: int
    count: int
    spacing: int

    @property
    def shift(self) -> int:
        return max(32, (self.count * self.count * self.spacing - 1).bit_length())


@dataclass(frozen=True)
class Document:
    at: int
    header: int
    # The sequence of the next data document.
    sequence: int

    @property
    def is_data(self) -> bool:
        return 0 < self.header < META


@dataclass
class Recovered:
    """A repaired file: everything up to the tail, then perhaps an end mark, then zeros."""

    content: bytes
    tail: int
    ended: bool
    entries: int


def long_at(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<q", data, at)[0])


def header_at(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def following(at: int, header: int) -> int:
    return (at + 4 + (header & LENGTH) + 3) & ~3


# Document 1, rule 1


def after_pad(data: bytes, at: int) -> int:
    while at < len(data):
        if data[at] == 0x8F:
            at += 1
        elif data[at] == 0x8E and at + 5 <= len(data):
            at += 5 + header_at(data, at + 1)
        else:
            break
    return at


def aligned_words(head: bytes, name: bytes, code: int, skipped: int, words: int) -> int | None:
    found = head.find(bytes([0xC0 + len(name)]) + name, 4)
    if found < 0:
        return None
    at = after_pad(head, found + 1 + len(name))
    if at >= len(head) or head[at] != code:
        return None
    at += 1 + skipped
    return at if at % 8 == 0 and at + 8 * words <= len(head) else None


def number_of(head: bytes, name: bytes) -> int:
    found = head.find(bytes([0xC0 + len(name)]) + name, 4)
    at = found + 1 + len(name)
    forms = {0xA1: "<B", 0xA5: "<h", 0xA2: "<H", 0xA6: "<i"}
    if found < 0 or at + 2 > len(head) or head[at] not in forms:
        return -1
    if head[at] != 0xA1 and at + 5 > len(head):
        return -1
    return int(struct.unpack_from(forms[head[at]], head, at + 1)[0])


def apart(head: bytes, words: dict[bytes, range]) -> bool:
    """Say whether no word lies over another field, from its name to the end of its value."""
    for name in (*words, b"indexing", b"indexCount", b"indexSpacing", b"dataFormat"):
        begin = head.find(bytes([0xC0 + len(name)]) + name, 4)
        if begin < 0:
            continue
        end = words[name].stop if name in words else begin + 1 + len(name) + 5
        field = set(range(begin, end))
        if any(field & set(words[other]) for other in words if other != name):
            return False
    return True


def head_of(data: bytes) -> Head | None:
    """Read document 1; None if it is damaged."""
    header = header_at(data, 0) if len(data) >= 8 else 0
    end = 4 + (header & LENGTH)
    if header & (META | NOT_READY) != META or not 40 <= end <= len(data):
        return None
    head = data[:end]
    if not head[4:].startswith(b"\xb9\x06header\xb6\x08SCQStore"):
        return None
    write_position = aligned_words(head, b"writePosition", 0x8D, 16, 2)
    index2index = aligned_words(head, b"index2Index", 0xA7, 0, 1)
    last_index = aligned_words(head, b"lastIndex", 0xA7, 0, 1)
    if write_position is None or index2index is None or last_index is None:
        return None
    words = {
        b"writePosition": range(write_position, write_position + 16),
        b"index2Index": range(index2index, index2index + 8),
        b"lastIndex": range(last_index, last_index + 8),
    }
    if not apart(head, words):
        return None
    count, spacing = number_of(head, b"indexCount"), number_of(head, b"indexSpacing")
    if any(value <= 0 or value & (value - 1) for value in (count, spacing)):
        return None
    version = number_of(head, b"dataFormat")
    if version == 0 or (version < 0 and end < last_index + 16):
        raise UnsupportedError
    if version != 1:
        return None
    return Head(end, write_position, index2index, last_index, count, spacing)


# Heads made anew from the entries, rule 1


@dataclass(frozen=True)
class Pages:
    """The constant bytes of documents 2 and 3 of a file with so many slots to a page."""

    top: bytes
    first_at: int
    first: bytes
    entries_at: int


def pages_of(count: int) -> Pages:
    top = index_document(200, "index2index", count)
    first = index_document(200 + len(top), "index", count)
    end, words = 200 + len(top) + len(first), 8 * (count + 1)
    return Pages(top[:-words], 200 + len(top), first[:-words], end)


def rebuilt(data: bytes, roll: RollCycle) -> bytes | None:
    """Return a file with a new document 1 for an unreadable one; None if no entries tell it."""
    pages = pages_of(roll.count)
    if not plausible(data, pages.entries_at):
        return None
    return with_pages(cycle_file_head(roll, 200) + data[200:], pages)


def with_pages(data: bytes, pages: Pages) -> bytes:
    top_end, first_end = 200 + len(pages.top), pages.first_at + len(pages.first)
    between = data[top_end : pages.first_at]
    return data[:200] + pages.top + between + pages.first + data[first_end:]


def has_usual_words(head: Head) -> bool:
    return (head.write_position, head.index2index, head.last_index) == (0x40, 0x98, 0xB0)


def are_known(data: bytes, head: Head, pages: Pages) -> bool:
    """Say whether documents 2 and 3 are at their places, by their header, name or form."""
    for at, fixed, event in places_of(pages):
        if at + len(fixed) > len(data):
            return False
        known = header_at(data, at) & ~NOT_READY == header_at(fixed, 0)
        known = known or data[at + 4 :].startswith(event)
        if not known and slots_of(data, head, at) is None:
            return False
    return True


def places_of(pages: Pages) -> list[tuple[int, bytes, bytes]]:
    return [(200, pages.top, TOP_EVENT), (pages.first_at, pages.first, PAGE_EVENT)]


def with_mended_length(data: bytes, head: Head) -> bytes:
    """Return the file with the length of document 1 that all files have, if only that is wrong."""
    if following(0, head.end - 4) == 200 or not has_usual_words(head):
        return data
    if not are_known(data, head, pages_of(head.count)):
        return data
    return struct.pack("<I", META | 196) + data[4:]


def with_mended_pages(data: bytes, head: Head) -> bytes:
    """Return the file with heads of documents 2 and 3 that a walk can step over."""
    if not has_usual_words(head) or following(0, head.end - 4) != 200:
        return data
    pages = pages_of(head.count)
    if all(is_index(data, head, at, event) for at, _, event in places_of(pages)):
        return data
    return with_pages(data, pages) if are_known(data, head, pages) else data


# Index documents, A.4


def slots_of(data: bytes, head: Head, at: int) -> int | None:
    """Return the offset of the slots of the index document at ``at``; None if there is none."""
    if at % 4 or not following(0, head.end - 4) <= at <= len(data) - 8:
        return None
    header = header_at(data, at)
    end = at + 4 + (header & LENGTH)
    if header & (META | NOT_READY) != META or end > len(data) or data[at + 4] != 0xB9:
        return None
    array = after_pad(data[:end], at + 6 + data[at + 5])
    if array >= end or data[array] != 0x8D or array % 8 != 7 or array + 17 > end:
        return None
    if long_at(data, array + 1) != head.count or array + 17 + 8 * head.count != end:
        return None
    return array + 17


def is_index(data: bytes, head: Head, at: int, event: bytes) -> bool:
    return slots_of(data, head, at) is not None and data[at + 4 :].startswith(event)


# Rule 2: the beginning of the walk


def walk(data: bytes, at: int, sequence: int) -> Iterator[Document]:
    """Yield ready documents up to the first that is none."""
    while at + 4 <= len(data):
        header = header_at(data, at)
        if header == 0 or header & NOT_READY or at + 4 + (header & LENGTH) > len(data):
            return
        document = Document(at, header, sequence)
        yield document
        sequence += document.is_data
        at = following(at, header)


def surviving_slots(data: bytes, head: Head) -> list[tuple[int, int]]:
    """Return sequence and offset of every slot that points to a possible entry (A.8).

    None for an index with a document that has lost its name.
    """
    first = following(0, head.end - 4)
    top = slots_of(data, head, long_at(data, head.index2index))
    if top is None or not is_index(data, head, long_at(data, head.index2index), TOP_EVENT):
        return []
    links = [long_at(data, top + 8 * number) for number in range(head.count)]
    pages = [at for at in links if slots_of(data, head, at) is not None]
    if not all(is_index(data, head, at, PAGE_EVENT) for at in pages):
        return []
    found = []
    for number in range(head.count):
        slots = slots_of(data, head, long_at(data, top + 8 * number))
        for slot in range(head.count if slots is not None else 0):
            at = long_at(data, slots + 8 * slot)
            if at % 4 or not first <= at <= len(data) - 8:
                continue
            header = header_at(data, at)
            if 0 < header < META and at + 4 + header <= len(data):
                found.append(((number * head.count + slot) * head.spacing, at))
    return found


def start_of(data: bytes, head: Head) -> tuple[int, int]:
    """Return sequence and offset of the last entry that the index tells, and the slot before it."""
    first = (0, following(0, head.end - 4))
    slots = [first, *surviving_slots(data, head)]
    while len(slots) > 1:
        sequence, at = slots.pop()
        before = slots[-1]
        if sequence > 0 and any(
            (document.sequence, document.at) == (sequence, at)
            for document in walk(data, before[1], before[0])
        ):
            return sequence, at
    return first


# Rules 2 to 4, 8: the kept documents


def plausible(data: bytes, at: int) -> bool:
    """Three documents, or one or two and then free space or an end mark (rule 4)."""
    documents = list(walk(data, at, 0))[:3]
    if not documents or len(documents) == 3:
        return bool(documents)
    tail = following(documents[-1].at, documents[-1].header)
    return tail + 4 > len(data) or header_at(data, tail) in (0, END)


def plain_text(content: bytes) -> bool:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return not any((c < " " and c not in "\t\r\n") or c == "\x7f" for c in text)


def is_covered(data: bytes, head: Head, at: int) -> bool:
    """Say whether the next checkpoint from ``at`` on covers the document there (A.11)."""
    for document in walk(data, at, 0):
        content = data[document.at + 4 : document.at + 4 + (document.header & LENGTH)]
        if not document.header & META or not content.startswith(b"checkpoint: { "):
            continue
        said = CHECKPOINT.fullmatch(content)
        if said is None or not following(0, head.end - 4) <= int(said[1]) <= at:
            return False
        return sum_from(data, int(said[1]), document.at) == int(said[2], 16)
    return False


def sum_from(data: bytes, at: int, end: int) -> int | None:
    value = 0
    while at < end:
        header = header_at(data, at)
        content = data[at : at + 4 + (header & LENGTH)]
        if at % 4 or at + len(content) > end:
            return None
        if not (header & META and content[4:].startswith(PAGE_EVENT)):
            value = crc32c(bytes(content), value)
        at = following(at, header)
    return value if at == end else None


def is_whole(data: bytes, head: Head, document: Document, text_check: TextCheck) -> bool:
    """Judge a document that is not known to be on disk (rule 8)."""
    content = data[document.at + 4 : document.at + 4 + (document.header & LENGTH)]
    if not content or is_covered(data, head, document.at):
        return True
    if content[0] < 0x80:
        return (text_check if document.is_data else plain_text)(bytes(content))
    filler = not content.strip(b"\x8f")
    return not document.is_data and (slots_of(data, head, document.at) is not None or filler)


def recovered(
    damaged: bytes,
    *,
    newest: bool,
    whole: bool,
    trusted: int | None = None,
    text_check: TextCheck = plain_text,
    roll: RollCycle | None = None,
) -> Recovered | None:
    """Return a file after its recovery; None if it is put aside (rule 1).

    Args:
        damaged: the file.
        newest: whether it is the queue's last one.
        whole: whether the walk begins at document 1.
        trusted: the last sequence known to be on disk; None for all.
        text_check: the check of other texts.
        roll: the queue's roll cycle, which gives the head of a file; None if unknown.

    Raises:
        UnsupportedError: its version must not be changed.
    """
    head = head_of(damaged)
    if head is None and roll is not None and (anew := rebuilt(damaged, roll)) is not None:
        damaged, head, whole = anew, head_of(anew), True
    if head is None:
        return None
    damaged = with_mended_length(damaged, head)
    head = head_of(damaged)
    assert head is not None
    damaged = with_mended_pages(damaged, head)
    data = bytearray(damaged)
    first = following(0, head.end - 4)
    begin, tail = (0, first) if whole else start_of(damaged, head)
    start, sequence, documents = tail, begin, []
    while tail + 4 <= len(data):
        header = header_at(data, tail)
        end = tail + 4 + (header & LENGTH)
        if header in (0, END, NOT_READY) or end > len(data):
            break
        if header & NOT_READY:
            if not plausible(data, following(tail, header)):
                break
            header = META | (header & LENGTH)
            data[tail:end] = struct.pack("<I", header) + b"\x8f" * (end - tail - 4)
        document = Document(tail, header, sequence)
        judged = trusted is not None and sequence > trusted
        if judged and not is_whole(data, head, document, text_check):
            break
        documents.append(document)
        sequence += document.is_data
        tail = following(tail, header)
        data[end:tail] = bytes(min(tail, len(data)) - end)
    size = len(data)
    ended = tail + 4 <= size and header_at(data, tail) == END
    kept = (8 if data[tail + 4 : tail + 8] == b"\xc3EOF" else 4) if ended else 0
    rest = max(size - tail - kept, 0)
    data[tail + kept :] = bytes(rest)
    if not newest and not ended:
        data = data.ljust(tail + 4, b"\0")
        data[tail : tail + 4] = struct.pack("<I", END)
    mend_head(data, head)
    set_words(data, head, documents, sequence)
    set_index(data, head, documents, start, begin, sequence)
    return Recovered(bytes(data), tail, ended or not newest, sequence)


# Rule 7


def mend_head(data: bytearray, head: Head) -> None:
    """Set the constant bytes of document 1, if the words are at their places."""
    expected = cycle_file_head(RollCycle("", 0, "", head.count, head.spacing))
    words = (head.write_position, head.index2index, head.last_index)
    if words == (0x40, 0x98, 0xB0) and header_at(data, 0) == header_at(expected, 0):
        mended = (
            expected[:0x40] + data[0x40:0x50] + expected[0x50:0x98] + data[0x98:0xA0]
            + expected[0xA0:0xB0] + data[0xB0:0xB8] + expected[0xB8:]
        )  # fmt: skip
        # The file may end before the next document would begin.
        data[:200] = mended[: len(data)]


def put(data: bytearray, at: int, value: int) -> None:
    struct.pack_into("<q", data, at, value)


def set_words(data: bytearray, head: Head, documents: list[Document], entries: int) -> None:
    last = max((document.at for document in documents if document.is_data), default=0)
    word = ((last << head.shift) | (entries - 1)) % (1 << 64) if entries else 0
    put(data, head.write_position, last)
    struct.pack_into("<Q", data, head.write_position + 8, word)
    put(data, head.last_index, -(-entries // head.spacing) * head.spacing)


def set_index(
    data: bytearray, head: Head, documents: list[Document], start: int, begin: int, entries: int
) -> None:
    """Set the page of pages, and the slots of the pages, of the walked part."""
    tops = [d.at for d in documents if not d.is_data and is_index(data, head, d.at, TOP_EVENT)]
    if start == following(0, head.end - 4) and long_at(data, head.index2index) not in tops:
        put(data, head.index2index, tops[0] if tops else 0)
    top = slots_of(data, head, long_at(data, head.index2index))
    if top is None:
        return
    links = links_of(data, head, documents, start, top)
    put_slots(data, top, links)
    offsets = {d.sequence: d.at for d in documents if d.is_data}
    for number, page in enumerate(links):
        slots = slots_of(data, head, page) if page else None
        if slots is None or (number + 1) * head.count * head.spacing <= begin:
            continue
        values = [long_at(data, slots + 8 * slot) for slot in range(head.count)]
        for slot in range(head.count):
            sequence = (number * head.count + slot) * head.spacing
            if sequence >= begin:
                values[slot] = offsets.get(sequence, 0)
        put_slots(data, slots, values)


def links_of(
    data: bytearray, head: Head, documents: list[Document], start: int, top: int
) -> list[int]:
    """Return the page of each number: by its link if plausible, else by its place."""
    linked = [long_at(data, top + 8 * number) for number in range(head.count)]
    pages = [d for d in documents if not d.is_data and is_index(data, head, d.at, PAGE_EVENT)]
    links = [0] * head.count
    for number, at in enumerate(linked):
        # Links to pages before the walk's start are believed.
        if 0 < at < start and is_index(data, head, at, PAGE_EVENT) and at not in links:
            links[number] = at
    by_place: dict[int, list[int]] = {}
    for page in pages:
        by_place.setdefault(page.sequence // (head.count * head.spacing), []).append(page.at)
    for number, places in by_place.items():
        if number < head.count and linked[number] in places:
            links[number] = linked[number]
        elif number < head.count and not links[number]:
            links[number] = places[0]
    for number, at in enumerate(linked):
        if not links[number] and at in {page.at for page in pages} and at not in links:
            links[number] = at
    return links


def put_slots(data: bytearray, slots: int, values: list[int]) -> None:
    for slot, value in enumerate(values):
        put(data, slots + 8 * slot, value)
    put(data, slots - 8, max((slot + 1 for slot, value in enumerate(values) if value), default=0))
