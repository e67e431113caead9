"""The live entries of a queue: writing and reading removals.

A queue file only grows, so a document records that a consumer accepted an entry.
There are six kinds of such documents, all in binary wire; every other reader skips them:

    quiver.removed    !!binary: pairs of u64, first and last index of a range
    quiver.begin      a transaction's entries and removals follow
    quiver.prepared   the transaction is complete here, and counts if it was committed in
                      another queue. !!binary: its id, u64, and that queue's name
    quiver.commit     the transaction counts. !!binary: the id, which other queues look up
    quiver.rollback   the transaction does not count
    quiver.state      !!binary: three u64, the index of an entry, the end of its time to live
                      (ms since 1970; 0: never), and the number of failed deliveries

A transaction without `commit` or `rollback` does not count either: a crash cut it short.
The next writer ends it first, so that no later document counts as part of it.
"""

from libc.errno cimport EFBIG
from libc.stdint cimport UINT32_MAX, int64_t, uint64_t
from libc.string cimport memcmp, memcpy

from cpython cimport array

import array
import logging
from collections.abc import Callable
from pathlib import Path

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.cyclefile cimport put32
from quiver_fast.queuefile.tailer cimport TAILER_FOUND, Step, Tailer

cdef const char *REMOVED = b"\xb9\x0equiver.removed\x82"
cdef const char *BEGIN = b"\xb9\x0cquiver.begin"
cdef const char *PREPARED = b"\xb9\x0fquiver.prepared\x82"
cdef const char *COMMIT = b"\xb9\x0dquiver.commit"
cdef const char *COMMIT_ID = b"\xb9\x0dquiver.commit\x82"
cdef const char *ROLLBACK = b"\xb9\x0fquiver.rollback"
cdef const char *STATE = b"\xb9\x0cquiver.state\x82"
cdef size_t STATE_SIZE = 15
cdef size_t REMOVED_SIZE = 17
cdef size_t BEGIN_SIZE = 14
cdef size_t PREPARED_SIZE = 18
cdef size_t COMMIT_SIZE = 15
cdef size_t ROLLBACK_SIZE = 17
# After an event's block code: the length of the block, the code of a byte array.
cdef size_t BLOCK_HEAD = 5
# Before a removal's ranges.
cdef size_t HEAD = 22
# The most ranges of a document, far below the limit of an entry.
cdef size_t RANGES = 4096
# The longest name of a queue (B.3).
cdef size_t NAME_MAX = 1024
# No time to live ends later, in ms since 1970: a timer's ns are a signed number of 64 bits.
cdef uint64_t END_MAX = <uint64_t>1 << 43

LOG = logging.getLogger(__name__)


cdef int write_removals(
        Appender appender, const uint64_t *indexes, size_t count) noexcept nogil:
    """Write a removal of entries; return 0, or -1: see the appender's error."""
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


cdef bint hold_file(Appender appender, int64_t entries) noexcept nogil:
    """Keep all documents up to `let_file_go`, with so many entries, in one file.

    False, with the appender's error set, if that is impossible.
    """
    if appender.broken:
        return False
    if entries > appender.capacity:
        appender.error = EFBIG
        return False
    if appender.due_to_roll(entries) and not appender.rolled():
        return False
    appender.held = True
    return True


cdef void let_file_go(Appender appender) noexcept nogil:
    """Let the file end again when its cycle is over."""
    appender.held = False


cdef int write_mark(Appender appender, Mark mark) noexcept nogil:
    """Write the mark of a transaction's beginning or end; return 0, or -1."""
    if mark == MARK_BEGIN:
        return appender.append_meta(BEGIN, BEGIN_SIZE)
    if mark == MARK_COMMIT:
        return appender.append_meta(COMMIT, COMMIT_SIZE)
    return appender.append_meta(ROLLBACK, ROLLBACK_SIZE)


cdef int write_block(
        Appender appender, const char *event, size_t size, uint64_t id, const char *name,
        size_t name_size) noexcept nogil:
    cdef char[1100] document
    memcpy(document, event, size)
    put32(document + size, <unsigned>(1 + sizeof(id) + name_size))
    document[size + BLOCK_HEAD - 1] = <char>0x8A
    size += BLOCK_HEAD
    memcpy(document + size, &id, sizeof(id))
    if name_size:
        memcpy(document + size + sizeof(id), name, name_size)
    return appender.append_meta(document, size + sizeof(id) + name_size)


cdef int write_prepared(
        Appender appender, uint64_t id, const char *home, size_t size) noexcept nogil:
    """Write that a transaction is complete here, and the name of the queue that has its
    commit, at most 1024 bytes; return 0, or -1."""
    return write_block(appender, PREPARED, PREPARED_SIZE, id, home, min(size, NAME_MAX))


cdef int write_decision(Appender appender, uint64_t id) noexcept nogil:
    """Write that a transaction of several queues is committed; return 0, or -1."""
    return write_block(appender, COMMIT_ID, COMMIT_SIZE + 1, id, NULL, 0)


cdef int write_state(
        Appender appender, uint64_t index, uint64_t end, uint64_t failures) noexcept nogil:
    """Write the state of an entry, which its bytes do not have; return 0, or -1."""
    cdef char[64] document
    cdef uint64_t[3] numbers
    numbers[0], numbers[1], numbers[2] = index, end, failures
    memcpy(document, STATE, STATE_SIZE)
    put32(document + STATE_SIZE, <unsigned>(1 + sizeof(numbers)))
    document[STATE_SIZE + BLOCK_HEAD - 1] = <char>0x8A
    memcpy(document + STATE_SIZE + BLOCK_HEAD, numbers, sizeof(numbers))
    return appender.append_meta(document, STATE_SIZE + BLOCK_HEAD + sizeof(numbers))


cdef bint is_decision(const char *start, size_t size, uint64_t *id) noexcept nogil:
    if size != COMMIT_SIZE + 1 + BLOCK_HEAD + sizeof(uint64_t) or (
            memcmp(start, COMMIT_ID, COMMIT_SIZE + 1) != 0):
        return False
    memcpy(id, start + COMMIT_SIZE + 1 + BLOCK_HEAD, sizeof(uint64_t))
    return True


def was_committed(directory: str | Path, transaction: int) -> bool:
    """Say whether a queue's files have the commit of a transaction of several queues.

    Raises:
        OutputError: the files cannot be read.
    """
    cdef const char *start
    cdef size_t size
    cdef int64_t index
    cdef bint meta
    cdef uint64_t found
    cdef uint64_t wanted = transaction
    cdef Tailer tailer = Tailer(directory)
    cdef Step step = tailer.next_meta(&start, &size, &index, &meta)
    while step == TAILER_FOUND:
        if meta and is_decision(start, size, &found) and found == wanted:
            return True
        step = tailer.next_meta(&start, &size, &index, &meta)
    tailer.check(step)
    return False


cdef class LiveEntries:
    """The entries of a queue that were not removed, in order.

    The files are read twice, because a removal is written after its entries. A removal or state
    of an entry that does not come before it is damaged. It is ignored, and a warning counts it.

    Args:
        directory: the queue's; nobody may write to it meanwhile.
        committed: says whether a prepared transaction with an id was committed in the
            queue with a name; without it none was.

    Attributes:
        owed: the mark that must end a transaction that a crash cut short, before anything
            else is written; 0 for none.
        removed: bit maps of the removed sequences, by cycle.
        oldest: the oldest cycle with an entry that a cycle's file removes, by cycle.
        states: the end of an entry's time to live, and its failed deliveries, by index.

    Raises:
        OutputError: the files cannot be read.
    """

    def __init__(
            self, directory: str | Path,
            committed: Callable[[int, str], bool] | None = None) -> None:
        self.directory = directory
        self.removed = {}
        self.oldest = {}
        self.counts = {}
        self.open_from = -1
        self.last = -1
        self.damaged = 0
        self.tentative = []
        self.prepared = None
        self.owed = MARK_NONE
        self.noted = array.array("Q")
        self.tailer = Tailer(directory)
        self.read_notes()
        if self.open_from >= 0:
            is_kept = self.prepared is not None and committed is not None and (
                committed(*self.prepared))
            self.owed = MARK_COMMIT if is_kept else MARK_ROLLBACK
            self.end_transaction(is_kept)
        self.states = {
            index: (end, failures)
            for index, end, failures in zip(*[iter(self.noted)] * 3, strict=True)
            if not self.is_removed(index)
        }
        del self.noted[:]
        if self.damaged:
            LOG.warning("%s: damaged notes of removed or failed messages are ignored: %d",
                        directory, self.damaged)

    def read_notes(self) -> None:
        """Read the removals."""
        cdef const char *start
        cdef size_t size
        cdef int64_t index
        cdef bint meta
        cdef Tailer tailer = Tailer(self.directory)
        cdef Step step = tailer.next_meta(&start, &size, &index, &meta)
        while step == TAILER_FOUND:
            if meta:
                self.take_note(start, size, index)
            else:
                if index >> self.tailer.shift != self.last >> self.tailer.shift:
                    self.note_count()
                self.last = index
            step = tailer.next_meta(&start, &size, &index, &meta)
        tailer.check(step)

    cdef int note_count(self) except -1:
        """Note how many entries of the last entry's file were read."""
        if self.last >= 0:
            self.counts[self.last >> self.tailer.shift] = self.sequence_of(self.last) + 1
        return 0

    cdef int64_t sequence_of(self, uint64_t index) noexcept:
        return index & ((<uint64_t>1 << self.tailer.shift) - 1)

    cdef bint names_entries(self, uint64_t first, uint64_t last, int64_t cycle) except -1:
        """Say whether a note in a cycle's file is about entries before it, and not damaged."""
        cdef int64_t named = first >> self.tailer.shift
        cdef int64_t count
        if self.last >= 0 and named == self.last >> self.tailer.shift:
            count = self.sequence_of(self.last) + 1
        else:
            count = self.counts.get(named, 0)
        if named < cycle and count == 0:
            # Their file was deleted.
            return False
        if first <= last and last >> self.tailer.shift == <uint64_t>named and (
                self.sequence_of(last) < count):
            return True
        self.damaged += 1
        return False

    cdef int take_note(self, const char *start, size_t size, int64_t index) except -1:
        cdef uint64_t id
        if size == BEGIN_SIZE and memcmp(start, BEGIN, size) == 0:
            self.end_transaction(False)
            self.open_from = index
        elif size == COMMIT_SIZE and memcmp(start, COMMIT, size) == 0:
            self.end_transaction(True)
        elif size == ROLLBACK_SIZE and memcmp(start, ROLLBACK, size) == 0:
            self.end_transaction(False)
        elif is_decision(start, size, &id):
            self.end_transaction(True)
        elif size >= PREPARED_SIZE + BLOCK_HEAD + sizeof(id) and memcmp(
                start, PREPARED, PREPARED_SIZE) == 0:
            start += PREPARED_SIZE + BLOCK_HEAD
            size -= PREPARED_SIZE + BLOCK_HEAD + sizeof(id)
            memcpy(&id, start, sizeof(id))
            self.prepared = id, start[sizeof(id):sizeof(id) + size].decode("utf-8", "replace")
        elif size == STATE_SIZE + BLOCK_HEAD + 24 and memcmp(start, STATE, STATE_SIZE) == 0:
            self.take_state(start + STATE_SIZE + BLOCK_HEAD, index >> self.tailer.shift)
        elif size > HEAD and memcmp(start, REMOVED, REMOVED_SIZE) == 0:
            self.take_ranges(start + HEAD, size - HEAD, index >> self.tailer.shift)
        return 0

    cdef int take_state(self, const char *start, int64_t cycle) except -1:
        cdef uint64_t[3] numbers
        memcpy(numbers, start, sizeof(numbers))
        if not self.names_entries(numbers[0], numbers[0], cycle):
            return 0
        if numbers[1] > END_MAX or numbers[2] > UINT32_MAX:
            self.damaged += 1
            return 0
        self.noted.frombytes(start[:sizeof(numbers)])
        return 0

    cdef int take_ranges(self, const char *start, size_t size, int64_t cycle) except -1:
        cdef uint64_t[2] pair
        cdef size_t i
        for i in range(size // sizeof(pair)):
            memcpy(pair, start + i * sizeof(pair), sizeof(pair))
            if not self.names_entries(pair[0], pair[1], cycle):
                continue
            named = <int64_t>pair[0] >> self.tailer.shift
            self.oldest[cycle] = min(self.oldest.get(cycle, named), named)
            if self.open_from >= 0:
                self.tentative.append((pair[0], pair[1]))
            else:
                self.mark(named, self.sequence_of(pair[0]), self.sequence_of(pair[1]))
        return 0

    def end_transaction(self, committed: bool) -> None:
        """After a commit, mark the entries that the transaction removed; else its own entries."""
        if self.open_from >= 0 and committed:
            for first, last in self.tentative:
                self.mark(first >> self.tailer.shift, self.sequence_of(first),
                          self.sequence_of(last))
        elif self.open_from >= 0 and self.last >= self.open_from:
            self.note_count()
            for cycle, count in self.counts.items():
                begin = self.open_from - (cycle << self.tailer.shift)
                if begin < count:
                    self.mark(cycle, max(begin, 0), count - 1)
        self.open_from = -1
        self.tentative = []
        self.prepared = None

    cdef int mark(self, int64_t cycle, int64_t first, int64_t last) except -1:
        """Take a range of sequences of a cycle's file as removed."""
        cdef bytearray bits = self.removed.setdefault(cycle, bytearray())
        if len(bits) <= last >> 3:
            bits.extend(bytes(max((last >> 3) + 1 - len(bits), len(bits))))
        set_bits(bits, first, last)
        return 0

    cdef bint is_removed(self, int64_t index) except -1:
        """Say whether the documents read so far remove an entry."""
        cdef int64_t sequence = index & ((<int64_t>1 << self.tailer.shift) - 1)
        cdef bytearray bits = self.removed.get(index >> self.tailer.shift)
        if bits is None or sequence >> 3 >= len(bits):
            return False
        return bits[sequence >> 3] >> (sequence & 7) & 1

    cdef bint next(self, const char **start, size_t *size, int64_t *index) except -1:
        """Read the next live entry's bytes in the file; False at the end."""
        cdef bint meta = True
        while meta:
            if not self.next_meta(start, size, index, &meta):
                return False
        return True

    cdef bint next_meta(
            self, const char **start, size_t *size, int64_t *index, bint *meta) except -1:
        """Read the next document, a live entry or meta-data; False at the end."""
        cdef Step step = self.tailer.next_meta(start, size, index, meta)
        while step == TAILER_FOUND:
            if meta[0] or not self.is_removed(index[0]):
                return True
            step = self.tailer.next_meta(start, size, index, meta)
        self.tailer.check(step)
        return False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield (index, bytes in the file)."""
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


def remove_entries(appender: Appender, indexes: Sequence[int]) -> None:
    """Write a removal of the entries with these indexes.

    Raises:
        OutputError: it could not be written.
    """
    cdef array.array packed = array.array("Q", indexes)
    appender.checked(write_removals(
        appender, <const uint64_t *>packed.data.as_ulonglongs, len(packed)))


def mark_transaction(appender: Appender, event: str) -> None:
    """Write that a transaction is at its ``begin``, or ended by ``commit`` or ``rollback``.

    Raises:
        OutputError: it could not be written.
    """
    marks = {"begin": MARK_BEGIN, "commit": MARK_COMMIT, "rollback": MARK_ROLLBACK}
    appender.checked(write_mark(appender, <Mark><int>marks[event]))


def mark_prepared(appender: Appender, transaction: int, home: str) -> None:
    """Write that a transaction is complete here; the queue ``home`` has its commit.

    Raises:
        OutputError: it could not be written.
    """
    cdef bytes name = home.encode()
    appender.checked(write_prepared(appender, transaction, name, len(name)))


def mark_decision(appender: Appender, transaction: int) -> None:
    """Write that a transaction of several queues is committed.

    Raises:
        OutputError: it could not be written.
    """
    appender.checked(write_decision(appender, transaction))
