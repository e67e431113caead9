"""The open files of a queue's writer: lock, table, and the file at whose end it writes (part A).

A writer whose files are closed knows all that it needs to go on at the same place.
"""

from libc.errno cimport EINVAL, EIO, errno
from libc.stdint cimport INT64_MAX, int64_t

import logging
import os
from contextlib import ExitStack
from pathlib import Path

from quiver_fast.proton.libsys cimport CLOCK_REALTIME_COARSE, clock_ns
from quiver_fast.queuefile.create import create_cycle_file
from quiver_fast.queuefile.cyclefile cimport (
    CycleFile, cycle_close, cycle_open, cycle_remap, cycle_understand, load, round_up, store,
)
from quiver_fast.queuefile.recovery cimport Extent, cycle_repair
from quiver_fast.queuefile.space cimport FILE_UNIT, space_begin, space_reserve
from quiver_fast.queuefile.table import cycles_in

cdef int64_t MILLISECOND = 1000000

LOG = logging.getLogger(__name__)

# How often closed files were opened again. A writer whose `used` differs may be closed, or is not
# the one that was used last: one comparison for each document.
openings = 0


cdef class QueueFiles:
    """The files of an Appender."""

    def __dealloc__(self) -> None:
        cycle_close(&self.file)

    def close_files(self) -> None:
        """Close the files until the next use. The table's word keeps other writers out."""
        self.table.close()
        self.lock.pause()
        self.leave_file()
        self.shut = True
        self.used = -1

    def reopen_files(self) -> None:
        """Open the files again.

        Raises:
            OSError, OutputError: that is impossible, and they stay closed.
        """
        global openings
        with ExitStack() as undo:
            self.lock.resume()
            undo.callback(self.lock.pause)
            self.table.resume()
            undo.callback(self.table.close)
            self.lock.mark(self.table)
            self.open_again()
            undo.pop_all()
        self.shut = False
        openings += 1

    cdef int open_again(self) except -1:
        """Map the file at whose end the next document comes."""
        cdef CycleFile file
        cdef bytes name = os.fsencode(self.path_of(self.cycle))
        if cycle_open(&file, name, True) != 0:
            raise OSError(errno, os.strerror(errno))
        if file.size < min(self.file.size, self.tail):
            # Another process has cut it (A.12).
            cycle_close(&file)
            self.fail(EIO)
            raise OSError(EIO, os.strerror(EIO))
        if not self.ended and self.tail + 4 <= file.size and load(file.base + self.tail) != 0:
            # A writer that cannot see this process has appended.
            cycle_close(&file)
            self.open_cycle(self.cycle)
            self.last = max(self.last, (self.cycle << self.shift) + self.sequence - 1)
            return 0
        self.file.fd, self.file.base = file.fd, file.base
        self.file.size, self.file.guard = file.size, file.guard
        self.space.reserved = min(self.space.reserved, file.size)
        self.space.populated = 0
        return 0

    def path_of(self, cycle: int) -> Path:
        """Return the file of a cycle."""
        return self.directory / self.roll.file_name(cycle)

    def create_cycle(self, least: int) -> int:
        """Make the file of the current cycle, or of ``least`` if that is later (A.5)."""
        now = self.roll.cycle_at(clock_ns(CLOCK_REALTIME_COARSE) // MILLISECOND)
        cycle = max(now, least)
        while self.path_of(cycle).is_dir():
            # Another writer made this file: take the next number (A.5).
            cycle += 1
        # An earlier attempt may have made it, but could not open it.
        if not self.path_of(cycle).exists():
            create_cycle_file(self.path_of(cycle), self.roll)
        self.table.list_cycles(cycles_in(self.directory, self.roll))
        return cycle

    def cycle_after(self, cycle: int) -> int | None:
        """Make the file after one that ended; None if there is no room for it now.

        Readers are not affected, and the next append tries again.
        """
        try:
            return self.create_cycle(cycle + 1)
        except OSError as error:
            LOG.warning("%s: no file for new entries: %s", self.directory, error.strerror)
            return None

    cdef int open_cycle(self, int64_t cycle) except -1:
        """Write to the file of ``cycle`` from now on; if it has ended, to the next one."""
        cdef CycleFile file
        cdef Extent extent
        cdef bytes name = os.fsencode(self.path_of(cycle))
        cdef int code
        if cycle_open(&file, name, True) != 0:
            raise OSError(errno, os.strerror(errno))
        if not cycle_understand(&file):
            cycle_close(&file)
            raise OSError(EINVAL, os.strerror(EINVAL))
        if cycle_repair(&file, &extent, INT64_MAX, True, NULL) != 0:
            code = errno
            cycle_close(&file)
            raise OSError(code, os.strerror(code))
        following = self.cycle_after(cycle) if extent.ended else None
        if following is not None:
            cycle_close(&file)
            return self.open_cycle(following)
        self.ended = extent.ended
        self.leave_file()
        self.file = file
        self.cycle = cycle
        self.cycle_end = self.roll.ends_at(cycle)
        # This is read from the file, because Java may use another spacing.
        self.capacity = min(
            (<int64_t>1 << self.shift) - 1, file.count * file.count * file.spacing)
        self.tail = extent.tail
        self.sequence = extent.sequence
        self.summed_from = self.tail
        self.sum = 0
        self.checkpoint_due = False
        space_begin(&self.space, &file, self.tail)
        return 0

    cdef void leave_file(self) noexcept nogil:
        """Close the file, except for a descriptor that is lent to the syncer."""
        if self.lent:
            self.file.fd = -1
            self.lent = False
        cycle_close(&self.file)

    def begin_next(self) -> None:
        """Cut the file to its end, and write to the next one from now on.

        Raises:
            OSError: the next file cannot be made, and this one goes on. Or it cannot be opened:
                then nothing is written until a later attempt opens it.
        """
        cdef size_t reserved = self.space.reserved
        self.shrink()
        try:
            following = self.create_cycle(self.cycle + 1)
        except OSError:
            # On a full disk its room is for removals.
            space_reserve(&self.space, &self.file, reserved)
            raise
        # Readers go on to the file that is there now.
        self.ended = True
        self.open_cycle(following)

    def shrink(self) -> None:
        """Free the disk space after the tail's header, which readers read (A.12)."""
        os.ftruncate(self.file.fd, round_up(self.tail + 4, FILE_UNIT))
        # A roll that fails later goes on in this file.
        if cycle_remap(&self.file) != 0:
            raise OSError(errno, os.strerror(errno))
        space_begin(&self.space, &self.file, self.tail)

    cdef void fail(self, int error) noexcept nogil:
        """End all writing, in any thread. A thread that sees `broken` sees `error` too."""
        store(&self.error, error)
        store(&self.broken, True)
