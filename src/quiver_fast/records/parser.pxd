# LineBuffer: bytes on their way from a file to a LineParser.

from quiver_fast.records.lines cimport LineParser


cdef class LineBuffer:
    cdef unsigned char *_memory     # margin, text, margin
    cdef size_t _capacity
    cdef size_t _used
    cdef bint _overlong             # the text is the excerpt of a line too long for a record

    cdef bint cut(self, LineParser parser)
    cdef void clear(self) noexcept
    cdef Py_ssize_t feed(self, source, LineParser parser) except -1
    cdef Py_ssize_t feed_file(
        self, int descriptor, size_t most, LineParser parser) except -1

    cdef int _grow(self, size_t capacity) except -1
    cdef int _make_room(self) except -1
    cdef void _skip(self, unsigned char *text, LineParser parser) noexcept
    cdef void _drop(self, size_t size) noexcept nogil
