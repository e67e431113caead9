from libc.stdint cimport int64_t

# All known lines are shorter.
cdef enum:
    LONGEST_LINE = 64

cdef class Control:
    # One end of the socket pair; -1 without a wrapper, or when it is gone.
    cdef readonly int fd
    cdef bint was_given
    # The part of a line that has come; with `overlong` the rest of the line is discarded.
    cdef char[LONGEST_LINE] line
    cdef size_t size
    cdef bint overlong
    # The wrapper said `stop`.
    cdef readonly bint stopped
    # It said `hold`, and not yet `start`.
    cdef readonly bint held
    # N of `sent N`, the number of messages of the run; INT64_MAX before.
    cdef readonly int64_t total
    # It said either: no sender of the run sends any more.
    cdef bint senders_ended

    # Messages that this arrow rejected: they have no records.
    cdef int64_t rejected

    cdef int say_ready(self) noexcept nogil
    cdef int say_flushed(self, int64_t time, int64_t size) noexcept nogil
    cdef int read_lines(self) noexcept nogil
    cdef int wait(self, int fd, bint writing, int64_t until) noexcept nogil
    cdef int take(self, const char *bytes, size_t size) noexcept nogil
    cdef int obey(self) noexcept nogil
    cdef bint is_line(self, const char *word, size_t size) noexcept nogil
    cdef int mark_lost(self) noexcept nogil
