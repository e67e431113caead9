"""Give disk space back: delete files whose entries are all removed, and end large files early.

An entry that nobody removed keeps its file, whoever wrote it; so does meta-data of such an
entry. A removal comes after its entry, perhaps in a later file, and must exist as long as the
entry's file. So before a file is deleted, its removals for older files that stay are written
again in the newest file.

The newest file is never deleted (A.12). When it is large and mostly removed, it is ended before
its cycle is over, so that it does not grow for ever. The next file has the next cycle number, as
after a full one (A.5).
"""

from libc.stdint cimport INT64_MAX, int64_t, uint64_t

from cpython cimport array

import array
import os

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.live cimport write_removals
from quiver_fast.queuefile.reserve import Reserve
from quiver_fast.queuefile.table import cycles_in
from quiver_fast.queuefile.tailer import Tailer

# A larger file without a live entry is replaced at a start.
cdef size_t SPENT = 1048576


cdef class FileNotes:
    """Notes about one cycle's file. Made by a Retention."""

    def __cinit__(self) -> None:
        self.bits = bytearray()
        self.entries = -1
        self.oldest = INT64_MAX

    cdef bint remove(self, int64_t sequence) except -1:
        """Mark an entry as removed; say whether it was not marked yet."""
        cdef size_t at = sequence >> 3
        cdef unsigned char bit = 1 << (sequence & 7)
        if at >= <size_t>len(self.bits):
            self.bits.extend(bytes(max(at + 1 - len(self.bits), <size_t>len(self.bits))))
        if <unsigned char>self.bits[at] & bit:
            return False
        self.bits[at] = <unsigned char>self.bits[at] | bit
        self.removed += 1
        return True


cdef class Retention:
    """The deletion of one queue's files.

    Args:
        appender: the queue's writer.
        removed: bit maps of the removed sequences, by cycle.
        oldest: the oldest cycle that each cycle's file has removals for, by cycle.
        roll_size: bytes of entries from which on a mostly removed file is ended.
    """

    def __init__(self, appender: Appender, removed: dict[int, bytearray],
                 oldest: dict[int, int], roll_size: int) -> None:
        cdef FileNotes notes
        self.appender = appender
        # A new file has its index before any entry (A.4).
        self.roll_size = roll_size + 16 * appender.file.count
        self.roll_at = self.roll_size
        self.files = {}
        for cycle in cycles_in(appender.directory, appender.roll):
            notes = self.notes_of(cycle)
            notes.bits = removed.get(cycle, notes.bits)
            notes.removed = count_bits(notes.bits)
            notes.oldest = oldest.get(cycle, INT64_MAX)

    cdef FileNotes notes_of(self, int64_t cycle):
        notes = self.files.get(cycle)
        if notes is None:
            notes = self.files[cycle] = FileNotes()
        return notes

    cdef int note(self, const uint64_t *indexes, size_t count, int64_t writer) except -1:
        """Mark entries as removed; the removal was written from the file of ``writer`` on."""
        cdef int shift = self.appender.shift
        cdef int64_t mask = (<int64_t>1 << shift) - 1
        cdef int64_t oldest = INT64_MAX
        cdef int64_t cycle = -1
        cdef FileNotes notes = None
        cdef size_t i
        for i in range(count):
            if <int64_t>indexes[i] >> shift != cycle:
                cycle = <int64_t>indexes[i] >> shift
                oldest = min(oldest, cycle)
                notes = self.notes_of(cycle)
            notes.remove(<int64_t>indexes[i] & mask)
        # The cycle may have ended meanwhile.
        for cycle in (writer, self.appender.cycle):
            notes = self.notes_of(cycle)
            notes.oldest = min(notes.oldest, oldest)
        return 0

    def note_all(self, indexes: Sequence[int]) -> None:
        """Mark entries as removed; the removal was written in the newest file."""
        cdef array.array packed = array.array("Q", indexes)
        self.note(<const uint64_t *>packed.data.as_ulonglongs, len(packed), self.appender.cycle)

    cdef int hold(self, int64_t cycle, size_t size) except -1:
        """Keep a cycle's file for so many bytes of meta-data in it."""
        cdef FileNotes notes = self.notes_of(cycle)
        notes.held += size
        return 0

    cdef int let_go(self, int64_t cycle, size_t size) except -1:
        """Undo `hold`."""
        cdef FileNotes notes = self.notes_of(cycle)
        notes.held -= size
        return self.note_dead(cycle, size)

    cdef int note_dead(self, int64_t cycle, size_t size) except -1:
        """Count meta-data that nothing refers to."""
        cdef FileNotes notes = self.notes_of(cycle)
        notes.dead += size
        return 0

    cdef bint large(self) noexcept nogil:
        """Say whether the newest file is so large that `due_to_roll` is worth a call."""
        return self.appender.tail >= self.roll_at

    def due_to_roll(self) -> bool:
        """Say whether the newest file is large and mostly removed."""
        cdef FileNotes notes = self.notes_of(self.appender.cycle)
        return self.large() and (2 * notes.dead >= self.appender.tail or (
            2 * notes.removed >= self.appender.sequence
            and 2 * notes.held <= self.appender.tail))

    def is_spent(self) -> bool:
        """Say whether the newest file has no live entry and takes much space."""
        cdef FileNotes notes = self.notes_of(self.appender.cycle)
        return self.appender.tail >= SPENT and notes.held == 0 and (
            notes.removed >= self.appender.sequence)

    def roll(self) -> bool:
        """End the newest file and begin the next; False if that is impossible now.

        After a failure it is due again when the file has grown.
        """
        cdef int64_t ended = self.appender.cycle
        if not self.has_next() or not self.appender.rolled():
            self.roll_at = self.appender.tail + self.roll_size
            return False
        self.roll_at = self.roll_size
        self.notes_of(self.appender.cycle)
        return self.appender.cycle != ended

    def has_next(self) -> bool:
        """Say whether there is a date for one more cycle: years have four digits."""
        try:
            self.appender.path_of(self.appender.cycle + 1)
        except OverflowError:
            return False
        return True

    def entries_of(self, cycle: int) -> int:
        """Return the number of entries of a file that is not the newest."""
        cdef FileNotes notes = self.notes_of(cycle)
        if notes.entries < 0:
            first = cycle << self.appender.shift
            with Reserve():
                tailer = Tailer(self.appender.directory)
                tailer.move_to(first + self.appender.roll.capacity)
            # In another file: this one is gone.
            same = tailer.index >> self.appender.shift == cycle
            notes.entries = tailer.index - first if same else INT64_MAX
        return notes.entries

    def holds(self, cycle: int) -> bool:
        """Say whether a cycle's file is still there."""
        return cycle in self.files

    def sweep(self, held: list[int] | None = None) -> list[Path]:
        """Delete the files without live entries, but not the newest.

        Args:
            held: gets a descriptor of each: closing it frees the disk space, which takes a
                while for a large file.

        Returns:
            The files deleted.

        Raises:
            OSError, OutputError: one cannot be deleted, or its removals cannot be kept.
        """
        cdef FileNotes notes
        gone = []
        for cycle in sorted(self.files):
            notes = self.files[cycle]
            if cycle >= self.appender.cycle or notes.held or (
                    notes.removed < self.entries_of(cycle)):
                continue
            self.keep_removals(cycle, notes.oldest)
            try:
                with Reserve():
                    if held is not None:
                        held.append(
                            os.open(self.appender.path_of(cycle), os.O_RDONLY | os.O_CLOEXEC))
                    gone += self.appender.delete([cycle])
            except (OSError, OutputError):
                # Once is enough: the file stays until the next start.
                notes.entries = INT64_MAX
                raise
            del self.files[cycle]
        return gone

    def keep_removals(self, cycle: int, oldest: int) -> None:
        """Write a file's removals for older files that stay, from ``oldest`` on, again."""
        cdef FileNotes notes
        cdef array.array indexes
        kept = False
        for older in sorted(self.files):
            notes = self.files[older]
            if not oldest <= older < cycle or notes.removed == 0:
                continue
            indexes = set_indexes(notes.bits, older << self.appender.shift)
            writer = self.appender.cycle
            self.appender.checked(write_removals(
                self.appender, <const uint64_t *>indexes.data.as_ulonglongs, len(indexes)))
            self.note(<const uint64_t *>indexes.data.as_ulonglongs, len(indexes), writer)
            kept = True
        if kept:
            self.appender.checked(self.appender.sync())


cdef int64_t count_bits(bytearray bits):
    cdef const unsigned char *at = <const unsigned char *><char *>bits
    cdef int64_t count = 0
    cdef unsigned char byte
    cdef Py_ssize_t i
    for i in range(len(bits)):
        byte = at[i]
        while byte:
            byte &= byte - 1
            count += 1
    return count


cdef array.array set_indexes(bytearray bits, int64_t base):
    """Return the indexes of the bits that are set, the first bit's being ``base``."""
    cdef array.array indexes = array.array("Q", bytes(8 * count_bits(bits)))
    cdef uint64_t *out = <uint64_t *>indexes.data.as_ulonglongs
    cdef const unsigned char *at = <const unsigned char *><char *>bits
    cdef Py_ssize_t i
    cdef Py_ssize_t used = 0
    for i in range(8 * len(bits)):
        if at[i >> 3] >> (i & 7) & 1:
            out[used] = base + i
            used += 1
    return indexes
