# Counts of latencies in cells that are wider for larger latencies: percentiles of a period.

from libc.stdint cimport int64_t

from quiver_fast.records.columns cimport Column


cdef class LogHistogram:
    cdef int64_t *_cells
    cdef readonly int64_t count

    cdef void add_latencies(self, Column sent, Column received) noexcept nogil
    cdef void add_one(self, int64_t latency) noexcept nogil
