"""A reader of a queue: entries in order, from any index, across files, while they are written."""

from libc.errno cimport EINVAL, EIO, ENOENT, errno
from libc.stdint cimport UINT32_MAX, int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset
from posix.unistd cimport close

import os
from collections.abc import Callable
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.queuefile.cyclefile cimport (
    END_OF_FILE, LENGTH_MASK, NOT_READY, CycleFile, cycle_close, cycle_cut, cycle_open,
    cycle_remap, cycle_slot, cycle_understand, is_data, load, next_document, sane_header,
)
from quiver_fast.queuefile.damage cimport Place, find_rest, last_entry
from quiver_fast.queuefile.foreign cimport foreign_form
from quiver_fast.queuefile.foreign import refuse_foreign
from quiver_fast.queuefile.layout import DEFAULT_ROLL, roll_cycle
from quiver_fast.queuefile.table import cycles_in, find_roll, strays_in

cdef extern from * nogil:
    void prefetch "__builtin_prefetch" (const void *at)

# A seek reads headers that are not in the cache: each would wait for the memory.
cdef size_t PREFETCH = 1536
# Seeks mark the places that they pass, finer than the index: 4 bytes for so many
# entries, in at most 4 MiB.
cdef enum:
    MARK_SPACING = 32
    MARKS_MAX = 1 << 20

# How often a tailer at the end looks for a later file; after an end mark there is one soon (A.8).
cdef int64_t LOOK_PERIOD = 100 * 1000000
cdef int64_t LOOK_PERIOD_ENDED = 1000000


cdef class Tailer:
    """A reader of the queue in ``directory``; any number may read while one writes.

    Args:
        directory: the folder of the queue's files.
        tell: called once with a file, an offset and a reason for each damage; entries after
            it are read. Without it a file ends at its damage.

    Raises:
        OutputError: it is no directory that can be read.
    """

    def __cinit__(self) -> None:
        self.file.fd = -1

    def __init__(self, directory: str | Path,
                 tell: Callable[[Path, int, str], object] | None = None) -> None:
        self.directory = Path(directory)
        self.tell = tell
        self.tells = tell is not None
        self.told = set()
        self.find_roll()
        self.cycle = -1
        self.move_to(0)

    def __dealloc__(self) -> None:
        self.forget_marks()
        cycle_close(&self.file)

    def find_roll(self) -> None:
        """Learn the queue's roll cycle; a queue without files may yet get another."""
        try:
            self.roll = find_roll(self.directory, roll_cycle(DEFAULT_ROLL))
        except OSError as error:
            raise OutputError(f"{self.directory}: {error.strerror}") from None
        self.shift = self.roll.shift

    def cycles(self) -> list[int]:
        """Return the cycles that have a file, oldest first."""
        if self.tells:
            for path, kind in strays_in(self.directory, self.roll):
                self.report(path, 0, f"{kind} in place of a file with entries")
        return cycles_in(self.directory, self.roll)

    def check_forms(self) -> None:
        """Check every file now, not only when reading comes to it.

        Raises:
            OutputError: one has another form than ours.
        """
        refuse_foreign(self.directory, self.roll)

    cdef int open_at(self, int64_t cycle) except -1:
        """Go to the beginning of the first file from ``cycle`` on.

        Returns 0, and does not move, if there is none.
        """
        cdef CycleFile file
        for found in self.cycles():
            if found < cycle:
                continue
            path = self.directory / self.roll.file_name(found)
            name = os.fsencode(path)
            if cycle_open(&file, name, False) != 0:
                self.pass_by(path, errno)
                continue
            understood = cycle_understand(&file)
            form = foreign_form(&file)
            if form is not None or not understood:
                cycle_close(&file)
            if form is not None:
                raise OutputError(f"{path}: {form}")
            if not understood:
                self.report(path, 0, "no header of a queue's file")
                continue
            cycle_close(&self.file)
            self.forget_marks()
            self.file = file
            self.cycle = found
            self.at = file.first_document
            self.sequence = 0
            # At the end of a new file, search for the next one at once.
            self.looked_at = 0
            return 1
        return 0

    cdef int pass_by(self, object path, int error) except -1:
        """Skip a file that could not be opened: it is empty, or was just deleted.

        A file that is no queue file is skipped, too (A.10 rule 1).
        """
        if error == ENOENT:
            return 0
        if error != EINVAL and not self.tells:
            raise OSError(error, os.strerror(error))
        self.report(path, 0, "the file is empty" if error == EINVAL else os.strerror(error))
        return 0

    cdef int report(self, object path, size_t at, str reason) except -1:
        """Report damage once."""
        if self.tells and (path, at) not in self.told:
            self.told.add((path, at))
            self.tell(path, at, reason)
        return 0

    cdef bint passed(self) noexcept with gil:
        """Go past damage in the current file; False without damage, or without entries after it."""
        try:
            return self.tells and self.file.base != NULL and self.pass_damage(False)
        except KeyboardInterrupt:
            self.interrupt()
        except Exception as error:
            self.fail(error)
        return False

    cdef bint pass_damage(self, bint ended) except -1:
        """As `passed`; ``ended`` says that a later file exists, so that this one does not grow."""
        cdef uint32_t header = 0
        cdef Place here = Place(self.at, self.sequence)
        cdef Place last
        cdef Place rest
        cdef bint known = last_entry(&self.file, &last)
        cdef bint found
        # Entries may have come before the words were read.
        if self.whole(&header):
            return True
        cut = self.at + 4 + (header & LENGTH_MASK) > self.file.size and not header & NOT_READY
        if not (known and last.sequence >= self.sequence or header and (
                cut or ended and header != END_OF_FILE)):
            return False
        if not known or last.sequence < self.sequence:
            self.report_here("what follows is not shown")
            return False
        with nogil:
            found = last.at > here.at and find_rest(&self.file, here, last, &rest)
        lost = (rest.sequence if found else last.sequence + 1) - self.sequence
        if lost:
            self.report_here(f"{lost} {'entry' if lost == 1 else 'entries'} cannot be read")
        if found:
            self.at = rest.at
            self.sequence = rest.sequence
        elif last.at < self.at:
            # A header with a wrong length has swallowed them.
            self.sequence = last.sequence + 1
        return found

    cdef int report_here(self, str reason) except -1:
        """Report damage at the place of the next document."""
        return self.report(self.directory / self.roll.file_name(self.cycle), self.at, reason)

    cdef Step step_cycle(self, uint32_t header) noexcept nogil:
        """Go to the next file, if there is one; the directory is searched only so often."""
        cdef int64_t now = monotonic_ns()
        cdef int64_t period = LOOK_PERIOD_ENDED if header == END_OF_FILE else LOOK_PERIOD
        if now - self.looked_at < period:
            return TAILER_AT_END
        self.looked_at = now
        return self.look_for_later()

    cdef Step look_for_later(self) noexcept with gil:
        """Open the next file, unless the current one has more (A.8)."""
        try:
            if self.file.base == NULL and self.cycle < 0:
                self.find_roll()
            later = [found for found in self.cycles() if found > self.cycle]
            if self.tells and self.file.base != NULL and self.pass_damage(len(later) > 0):
                self.looked_at = 0
                return TAILER_FOUND
            if not later:
                return TAILER_AT_END
            # First read the entries that were written before the next file came.
            if self.file.base != NULL and self.more_here():
                return TAILER_FOUND
            return TAILER_FOUND if self.open_at(later[0]) else TAILER_AT_END
        except (OSError, OutputError) as error:
            return self.fail(error)
        except KeyboardInterrupt:
            return self.interrupt()

    def more_here(self) -> bool:
        """Say whether the current file has more, now that a later one exists."""
        cdef uint32_t header
        if cycle_remap(&self.file) != 0 or self.at + 4 > self.file.size:
            return False
        header = load(self.file.base + self.at)
        # A document that the end of the file cuts off will not become whole.
        return (header != 0 and not header & NOT_READY
                and self.at + 4 + (header & LENGTH_MASK) <= self.file.size)

    cdef bint whole(self, uint32_t *header) noexcept nogil:
        """Load the header of the next document; False unless it is ready and in the file (A.8)."""
        header[0] = 0
        if self.at + 4 > self.file.size and cycle_remap(&self.file) != 0:
            return False
        if self.at + 4 > self.file.size:
            return False
        header[0] = load(self.file.base + self.at)
        if header[0] == 0 or header[0] & NOT_READY:
            return False
        if self.at + 4 + (header[0] & LENGTH_MASK) <= self.file.size:
            return True
        return (cycle_remap(&self.file) == 0
                and self.at + 4 + (header[0] & LENGTH_MASK) <= self.file.size)

    cdef Step next_meta(
            self, const char **start, size_t *size, int64_t *index, bint *meta) noexcept nogil:
        """Read the next document, data or not; see `next`."""
        cdef uint32_t header = 0
        cdef Step step
        while self.file.base == NULL or not self.whole(&header):
            if cycle_cut(&self.file):
                self.error = EIO
                return TAILER_FAILED
            step = self.step_cycle(header)
            if step != TAILER_FOUND:
                return step
        size[0] = header & LENGTH_MASK
        start[0] = self.file.base + self.at + 4
        index[0] = (self.cycle << self.shift) | self.sequence
        meta[0] = not is_data(header)
        self.at = next_document(self.at, header)
        self.sequence += not meta[0]
        return TAILER_FOUND

    cdef Step next(self, const char **start, size_t *size, int64_t *index) noexcept nogil:
        """Read the next entry: its bytes in the file, and its index."""
        cdef bint meta = True
        cdef Step step = TAILER_FOUND
        while meta and step == TAILER_FOUND:
            step = self.next_meta(start, size, index, &meta)
        return step

    cdef void let_descriptor_go(self) noexcept nogil:
        """Close the file's descriptor; only the mapped part can be read then."""
        if self.file.fd >= 0:
            close(self.file.fd)
            self.file.fd = -1

    cdef int64_t position(self) noexcept nogil:
        """Return the index of the next entry, if it comes in this file."""
        return (self.cycle << self.shift) | self.sequence

    cdef Step seek(self, int64_t index) noexcept nogil:
        """Go before the first entry with an index of ``index`` or more.

        For an index after the last entry, go to the end.
        """
        cdef int64_t cycle = index >> self.shift
        cdef int64_t wanted = index & ((<int64_t>1 << self.shift) - 1)
        cdef uint32_t header
        cdef Step step
        self.looked_at = 0
        if cycle != self.cycle or self.file.base == NULL:
            step = self.open_file(cycle)
            if step != TAILER_FOUND or self.cycle > cycle:
                return step
        if not self.from_mark(wanted):
            self.at = cycle_slot(&self.file, wanted, &self.sequence)
        self.step_to(wanted)
        # Entries may have come since the file was mapped.
        while self.sequence < wanted and (self.whole(&header) or self.passed()):
            if self.whole(&header) and self.sequence < wanted:
                self.sequence += is_data(header)
                self.at = next_document(self.at, header)
        return TAILER_FOUND

    cdef void step_to(self, int64_t wanted) noexcept nogil:
        """Skip the entries before a sequence, as far as the file is mapped."""
        cdef const char *base = self.file.base
        cdef size_t at = self.at
        cdef int64_t sequence = self.sequence
        cdef uint32_t header
        while sequence < wanted and at + 4 <= self.file.size:
            header = load(base + at)
            if (header == 0 or header & NOT_READY
                    or at + 4 + (header & LENGTH_MASK) > self.file.size):
                break
            prefetch(base + at + PREFETCH)
            if is_data(header):
                if sequence % MARK_SPACING == 0:
                    self.set_mark(sequence, at)
                sequence += 1
            at = next_document(at, header)
        self.at = at
        self.sequence = sequence

    cdef bint from_mark(self, int64_t wanted) noexcept nogil:
        """Go to the last mark before a sequence, if there is one after the last slot."""
        cdef int64_t mark = wanted // MARK_SPACING
        cdef int64_t least = wanted // self.file.spacing * self.file.spacing // MARK_SPACING
        cdef size_t at
        mark = min(mark, <int64_t>self.marks_size - 1)
        while mark > least:
            at = 4 * <size_t>self.marks[mark]
            # The slot's own check (A.8): the tail may have been cut since.
            if at and sane_header(&self.file, at):
                self.at = at
                self.sequence = mark * MARK_SPACING
                return True
            mark -= 1
        return False

    cdef void set_mark(self, int64_t sequence, size_t at) noexcept nogil:
        """Mark the place of an entry; without memory it is found all the same."""
        cdef size_t mark = sequence // MARK_SPACING
        cdef size_t size = self.marks_size
        cdef void *marks
        if mark >= <size_t>MARKS_MAX or at // 4 > UINT32_MAX:
            return
        if mark >= size:
            size = min(max(mark + 1, 2 * size), <size_t>MARKS_MAX)
            marks = realloc(self.marks, 4 * size)
            if marks == NULL:
                return
            self.marks = <uint32_t *>marks
            memset(self.marks + self.marks_size, 0, 4 * (size - self.marks_size))
            self.marks_size = size
        self.marks[mark] = <uint32_t>(at // 4)

    cdef void forget_marks(self) noexcept nogil:
        free(self.marks)
        self.marks = NULL
        self.marks_size = 0

    cdef Step open_file(self, int64_t cycle) noexcept with gil:
        try:
            if self.open_at(cycle):
                return TAILER_FOUND
        except (OSError, OutputError) as error:
            return self.fail(error)
        except KeyboardInterrupt:
            return self.interrupt()
        # There is no file yet: the first file from `cycle` on will be the next.
        cycle_close(&self.file)
        self.cycle = cycle - 1
        self.sequence = 0
        return TAILER_AT_END

    cdef Step fail(self, object error) noexcept:
        """Keep an error until `check` raises it: the callers in between are C."""
        self.error = getattr(error, "errno", None) or EIO
        self.refusal = error if isinstance(error, OutputError) else None
        return TAILER_FAILED

    cdef Step interrupt(self) noexcept:
        """Keep an interruption until `check` raises it: the callers in between are C."""
        self.interrupted = True
        return TAILER_FAILED

    # For Python callers

    def read(self) -> tuple[int, bytes] | None:
        """Return the next entry's index and bytes in the file; None at the end.

        Raises:
            OutputError: the files cannot be read.
        """
        cdef const char *start
        cdef size_t size
        cdef int64_t index
        cdef Step step = self.next(&start, &size, &index)
        self.check(step)
        return (index, start[:size]) if step == TAILER_FOUND else None

    def skip(self, int64_t count) -> int:
        """Skip up to ``count`` entries without reading them; return how many.

        Raises:
            OutputError: the files cannot be read.
        """
        cdef const char *start
        cdef size_t size
        cdef int64_t index
        cdef int64_t done = 0
        cdef Step step = TAILER_FOUND
        with nogil:
            while done < count:
                step = self.next(&start, &size, &index)
                if step != TAILER_FOUND:
                    break
                done += 1
        self.check(step)
        return done

    def move_to(self, index: int) -> None:
        """Go before the first entry with an index of ``index`` or more.

        Raises:
            OutputError: the files cannot be read.
        """
        self.check(self.seek(index))

    def check(self, step: int) -> None:
        """Raise the error of the last step, if it failed."""
        if self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt
        refusal, self.refusal = self.refusal, None
        if step == TAILER_FAILED and refusal is not None:
            raise refusal
        if step == TAILER_FAILED:
            raise OutputError(f"{self.directory}: {os.strerror(self.error)}")

    @property
    def index(self) -> int:
        """The index of the next entry, if it comes in the current file."""
        return self.position()
