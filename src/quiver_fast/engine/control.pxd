from libc.stdint cimport int64_t

# A line that is longer is none that we know.
cdef enum:
    LONGEST_LINE = 64

cdef class Control:
    # One end of the socket pair; -1 without a wrapper, or when it is gone.
    cdef readonly int fd
    cdef bint was_given
    # What has come of a line; `overlong` lets go of the rest of one that is too long.
    cdef char[LONGEST_LINE] line
    cdef size_t size
    cdef bint overlong
    # The wrapper said `stop`.
    cdef readonly bint stopped
    # N of `sent N`: how many messages the run has; INT64_MAX before.
    cdef readonly int64_t total

    cdef int say_ready(self) noexcept nogil
    cdef int look(self) noexcept nogil
    cdef int take(self, const char *bytes, size_t size) noexcept nogil
    cdef int obey(self) noexcept nogil
    cdef int lose(self) noexcept nogil
