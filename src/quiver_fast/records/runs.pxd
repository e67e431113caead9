# RunParser: whole lines of text -> run-length records, with the grammar of LineParser.

cimport cython
from libc.stdint cimport int64_t

from quiver_fast.records.columns cimport Column
from quiver_fast.records.lines cimport LineParser

cdef extern from "runs.h" nogil:
    ctypedef struct Rows "quiver_rows":
        int64_t *ids
        int64_t *sent
        int64_t *received
        int64_t *counts
        size_t size
        int64_t *settled_ids        # NULL if there are no settlements
        int64_t *settled_times
        int64_t *settled_counts
        unsigned char *settled_sampled
        size_t settled_size
        size_t lines
        size_t (*successors)(
            const unsigned char *line, size_t width, size_t first, size_t last,
            const unsigned char *end) noexcept nogil

    # Appends lines of one layout to rows with room; returns the first other line.
    ctypedef const unsigned char *(*TakeLines "quiver_take_fn")(
        const unsigned char *line, const unsigned char *end, Rows *rows) noexcept nogil

    ctypedef struct Scanner "quiver_scanner":
        const char *name
        # Both count the lines directly after `line`, of `width` bytes with the newline, that
        # equal it, or whose number, from first to last, counts up.
        size_t (*repeats)(
            const unsigned char *line, size_t width, const unsigned char *end) noexcept nogil
        size_t (*successors)(
            const unsigned char *line, size_t width, size_t first, size_t last,
            const unsigned char *end) noexcept nogil
        TakeLines take_ms_received  # NULL if lines are taken one by one
        TakeLines take_ms_sent
        TakeLines take_id_received
        TakeLines take_id_sent

    Scanner scanner_at "quiver_scanner_at"(size_t rank)


@cython.final
cdef class RunParser(LineParser):
    # The inherited columns have one row per run; these have its number of records.
    cdef Column counts
    cdef Column settled_counts
    cdef Scanner _scanner
    cdef list _rooms                # of earlier batches, for the next ones
    cdef int64_t _lines_taken       # lines and malformed ones of earlier batches
    cdef int64_t _malformed_taken

    cdef list _taken_together(self, list columns, bint final)
    cdef object _room(self, size_t size)
    cdef void restart(self, record_format, operation, unit) noexcept
    cdef const unsigned char *_take_lines(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef TakeLines _taker(self) noexcept nogil
    cdef bint _ends_hashed(self) noexcept nogil
    cdef const unsigned char *_take_run(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef const unsigned char *_take_line(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef const unsigned char *_take_ms_line(
        self, const unsigned char *line, const unsigned char *end) noexcept nogil
    cdef size_t _successors(
        self, const unsigned char *line, size_t width,
        const unsigned char *end) noexcept nogil
    cdef void _join_transfer(self, int64_t count) noexcept nogil
    cdef void _join_settlement(self, int64_t count) noexcept nogil
