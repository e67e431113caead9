"""What of a queue is still to be delivered: removals as meta-data documents, and their reading.

A queue file is only appended to, so what a consumer accepted is written down as
removed. Three documents, all binary wire, which every other reader skips:

    quiver.removed   !!binary: pairs of u64, first and last index of a range
    quiver.begin     a transaction's entries and removals follow
    quiver.commit    they are all here; without it none of them counts
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy

from cpython cimport array

import array

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.cyclefile cimport put32
from quiver_fast.queuefile.tailer cimport TAILER_FAILED, TAILER_FOUND, Step, Tailer

cdef const char *REMOVED = b"\xb9\x0equiver.removed\x82"
cdef const char *BEGIN = b"\xb9\x0cquiver.begin"
cdef const char *COMMIT = b"\xb9\x0dquiver.commit"
cdef size_t REMOVED_SIZE = 17
cdef size_t BEGIN_SIZE = 14
cdef size_t COMMIT_SIZE = 15
# Event and block code, length, array code.
cdef size_t HEAD = 22
# Ranges of one document: its head and they stay far below the entry limit.
cdef size_t RANGES = 4096


cdef int write_removals(
        Appender appender, const uint64_t *indexes, size_t count) noexcept nogil:
    """Write down that entries are removed; return 0, or -1: see the appender's error."""
    cdef char[65558] document
    cdef uint64_t[2] bounds
    cdef size_t at = 0
    cdef size_t used
    while at < count:
        used = 0
        while at < count and used < RANGES:
            bounds[0] = indexes[at]
            while at + 1 < count and indexes[at + 1] == indexes[at] + 1:
                at += 1
            bounds[1] = indexes[at]
            memcpy(document + HEAD + 16 * used, bounds, 16)
            used += 1
            at += 1
        memcpy(document, REMOVED, REMOVED_SIZE)
        put32(document + REMOVED_SIZE, 16 * used + 1)
        document[HEAD - 1] = <char>0x8A
        if appender.append_meta(document, HEAD + 16 * used) != 0:
            return -1
    return 0


cdef int write_mark(Appender appender, bint begin) noexcept nogil:
    """Write that a transaction begins, or is all here; return 0, or -1."""
    if begin:
        return appender.append_meta(BEGIN, BEGIN_SIZE)
    return appender.append_meta(COMMIT, COMMIT_SIZE)


cdef class LiveEntries:
    """The entries of a queue that were not removed, in order.

    The files are read twice: what is removed is written after what it removes.

    Args:
        directory: the queue's; nobody may write to it meanwhile.

    Attributes:
        torn_from: the first index of a transaction that a crash cut short, -1 for
            none; its entries are not live.
        torn_to: the last index of it.

    Raises:
        OutputError: the files cannot be read.
    """

    def __init__(self, directory: object) -> None:
        self.directory = directory
        self.removed = {}
        self.torn_from = -1
        self.torn_to = -1
        self.tailer = Tailer(directory)
        self.read_notes()

    def read_notes(self) -> None:
        """Find what is removed."""
        cdef const char *start
        cdef size_t size
        cdef int64_t index
        cdef int64_t last = -1
        cdef bint meta
        cdef Tailer tailer = Tailer(self.directory)
        cdef Step step = tailer.next_meta(&start, &size, &index, &meta)
        while step == TAILER_FOUND:
            if meta:
                self.take_note(start, size, index)
            else:
                last = index
            step = tailer.next_meta(&start, &size, &index, &meta)
        if step == TAILER_FAILED:
            tailer.read()
        if self.torn_from >= 0:
            self.torn_to = last
            if last >= self.torn_from:
                self.mark(self.torn_from, last)

    cdef int take_note(self, const char *start, size_t size, int64_t index) except -1:
        cdef uint64_t[2] bounds
        cdef size_t i
        if size == BEGIN_SIZE and memcmp(start, BEGIN, size) == 0:
            self.torn_from = index
        elif size == COMMIT_SIZE and memcmp(start, COMMIT, size) == 0:
            self.torn_from = -1
        elif size > HEAD and memcmp(start, REMOVED, REMOVED_SIZE) == 0:
            for i in range((size - HEAD) // 16):
                memcpy(bounds, start + HEAD + 16 * i, 16)
                self.mark(bounds[0], bounds[1])
        return 0

    def mark(self, first: int, last: int) -> None:
        """Take a range of indexes as removed."""
        shift = self.tailer.shift
        mask = (1 << shift) - 1
        for cycle in range(first >> shift, (last >> shift) + 1):
            begin = first & mask if cycle == first >> shift else 0
            bits = self.removed.setdefault(cycle, bytearray())
            end = last & mask if cycle == last >> shift else 8 * len(bits) - 1
            if len(bits) <= end >> 3:
                bits.extend(bytes(max((end >> 3) + 1 - len(bits), len(bits))))
            set_bits(bits, begin, end)

    cdef bint next(self, const char **start, size_t *size, int64_t *index) except -1:
        """Read the next live entry's bytes, as they are in the file; False at the end."""
        cdef bytearray bits
        cdef int64_t sequence
        while self.tailer.next(start, size, index) == TAILER_FOUND:
            sequence = index[0] & ((<int64_t>1 << self.tailer.shift) - 1)
            bits = self.removed.get(index[0] >> self.tailer.shift)
            if bits is None or sequence >> 3 >= len(bits):
                return True
            if not bits[sequence >> 3] >> (sequence & 7) & 1:
                return True
        return False

    def __iter__(self) -> object:
        """Yield (index, bytes as they are in the file)."""
        cdef const char *start
        cdef size_t size
        cdef int64_t index
        while self.next(&start, &size, &index):
            yield index, start[:size]


cdef int set_bits(bytearray bits, int64_t first, int64_t last) except -1:
    cdef char *bytes_ = bits
    cdef int64_t i = first
    while i <= last:
        if i & 7 == 0 and i + 7 <= last:
            bytes_[i >> 3] = <char>0xFF
            i += 8
        else:
            bytes_[i >> 3] |= <char>(1 << (i & 7))
            i += 1
    return 0


def remove_entries(appender: Appender, indexes: object) -> None:
    """Write down that the entries with these indexes are removed.

    Raises:
        OutputError: it could not be written.
    """
    cdef array.array packed = array.array("Q", indexes)
    appender.checked(write_removals(
        appender, <const uint64_t *>packed.data.as_ulonglongs, len(packed)))


def mark_transaction(appender: Appender, begin: bool) -> None:
    """Write that a transaction begins, or that it is all here.

    Raises:
        OutputError: it could not be written.
    """
    appender.checked(write_mark(appender, begin))
