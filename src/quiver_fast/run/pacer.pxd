from libc.stdint cimport int64_t

cdef class Pacer:
    cdef readonly int64_t rate

    cdef int64_t due(self, int64_t elapsed) noexcept nogil
    cdef int64_t intended(self, int64_t index) noexcept nogil


cdef class DelayHistogram:
    cdef int64_t[2048] counts
    cdef readonly int64_t total
    cdef readonly int64_t largest

    cdef void add(self, int64_t delay) noexcept nogil


cdef class Schedule:
    cdef Pacer pacer
    cdef readonly DelayHistogram delays
    # When it began: monotonic, and the same moment since the epoch; 0 before.
    cdef int64_t start
    cdef int64_t epoch

    cdef int64_t due(self, int64_t now) noexcept nogil
    cdef int64_t send_time(self, int64_t index) noexcept nogil
    cdef int64_t wake(self, int64_t index) noexcept nogil
