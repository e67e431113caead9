"""The open files that all tailers of a queue share: descriptors do not grow with tailers.

A tailer is a position: a cycle and an offset. Each read moves a reader of that cycle to the
position. Tailers that follow a queue are in one file and share one reader. If tailers are in
more files than there may be readers, they take turns, and each turn opens a file.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.string cimport memcpy, strerror, strlen

from quiver_fast.errors import QuiverError
from quiver_fast.queuefile.tailer cimport TAILER_AT_END, TAILER_FAILED, TAILER_FOUND, Step, Tailer


cdef class Readers:
    """The readers of one queue.

    Args:
        directory: the folder of its files.
        shift: number of bits of the sequence in an index.
    """

    def __init__(self, directory: object, shift: int) -> None:
        self.directory = directory
        self.shift = shift

    def __dealloc__(self) -> None:
        self.keep(0)

    cdef Step read(self, Cursor *cursor, int64_t index, const char **start, size_t *size,
                   int64_t *found) noexcept nogil:
        """Read the first entry with an index of ``index`` or more, which must exist.

        The cursor is then after it.
        """
        cdef bint goes_on = cursor.at != 0 and cursor.index == index
        cdef void *reader = self.reader_in(cursor.cycle if goes_on else index >> self.shift)
        cdef Step step = TAILER_FOUND
        if reader == NULL:
            return TAILER_FAILED
        if not cursor.counted:
            cursor.counted = True
            self.cursors += 1
        if goes_on and (<Tailer>reader).cycle == cursor.cycle:
            (<Tailer>reader).at = cursor.at
            (<Tailer>reader).sequence = index & ((<int64_t>1 << self.shift) - 1)
        else:
            step = (<Tailer>reader).seek(index)
        if step != TAILER_FAILED:
            step = (<Tailer>reader).next(start, size, found)
        if step == TAILER_AT_END:
            # It is in a later file, which the reader has not opened yet.
            (<Tailer>reader).seek(index)
            step = (<Tailer>reader).next(start, size, found)
        if step == TAILER_FAILED:
            self.fail(strerror((<Tailer>reader).error))
        cursor.cycle = (<Tailer>reader).cycle
        cursor.index = (<Tailer>reader).position()
        cursor.at = (<Tailer>reader).at
        return step

    cdef void release(self, Cursor *cursor) noexcept nogil:
        """Forget a cursor. There are never more readers than cursors, so old files are closed."""
        if not cursor.counted:
            return
        cursor.counted = False
        self.cursors -= 1
        self.keep(self.cursors)

    cdef void *reader_in(self, int64_t cycle) noexcept nogil:
        """Return the reader in a cycle's file, else one to move there; NULL without one."""
        cdef void *reader
        cdef int i = 0
        while i < self.count and (<Tailer>self.readers[i]).cycle != cycle:
            i += 1
        if i == self.count:
            if self.count < MAX_READERS and not self.add_reader():
                return NULL
            # The new one, or the least recently used one.
            i = self.count - 1
        reader = self.readers[i]
        while i > 0:
            self.readers[i] = self.readers[i - 1]
            i -= 1
        self.readers[0] = reader
        return reader

    cdef bint add_reader(self) noexcept nogil:
        """Open one more reader; False with `failure` set."""
        with gil:
            try:
                reader = Tailer(self.directory)
            except (OSError, QuiverError, MemoryError) as error:
                reason = (getattr(error, "strerror", None) or str(error)).encode()
                self.fail(reason)
                return False
            Py_INCREF(reader)
            self.readers[self.count] = <void *>reader
            self.count += 1
            return True

    cdef void fail(self, const char *reason) noexcept nogil:
        cdef size_t size = min(strlen(reason), <size_t>(FAILURE_SIZE - 1))
        memcpy(self.failure, reason, size)
        self.failure[size] = 0

    cdef void keep(self, int most) noexcept nogil:
        """Close all but the ``most`` readers that were used last."""
        if self.count <= most:
            return
        with gil:
            while self.count > most:
                self.count -= 1
                Py_DECREF(<object>self.readers[self.count])
