# Growing columns of numbers, filled without the GIL, handed to NumPy without a copy.

from libc.stdint cimport int64_t


cdef class Column:
    cdef void *_values
    cdef size_t _item_size
    cdef size_t _capacity           # in items
    cdef size_t size                # items so far; the code that fills the column counts
    cdef bytes _format              # of the struct module: b"q" or b"?"
    # An exported buffer points to these; both live as long as this object.
    cdef Py_ssize_t _shape[1]
    cdef Py_ssize_t _strides[1]

    cdef int reserve(self, size_t more) except -1 nogil
    cdef int shrink(self) except -1 nogil
    cdef int _resize(self, size_t capacity) except -1 nogil
    cdef int64_t *numbers(self) noexcept nogil
    cdef unsigned char *flags(self) noexcept nogil


cdef class EndRows:
    cdef Column _rows               # the first rows of another end
    cdef Column _numbers            # the numbers of these ends
    cdef int64_t _before            # the end of the earlier rows; -1 if unknown
    cdef readonly int64_t lines     # lines that named an end

    cdef int reserve(self, size_t more) except -1 nogil
    cdef void begin(self, size_t row, int64_t number) noexcept nogil
    cdef bint begins_at(self, size_t row) noexcept nogil
    cdef int64_t following(self) noexcept nogil
    cdef void clear(self) noexcept nogil


cdef class HashedRows:
    cdef Column _rows
    cdef Column _highs
    # The ids themselves, one after the other, and the end of each; empty unless kept.
    cdef Column _texts
    cdef Column _ends

    cdef int add_text(
        self, const unsigned char *text, const unsigned char *end) except -1 nogil
    cdef int reserve(self, size_t more) except -1 nogil
    cdef void add(self, size_t row, int64_t high) noexcept nogil
    cdef size_t text_size(self) noexcept nogil
    cdef bint at(self, size_t place, size_t row) noexcept nogil
    cdef bint ends_with(self, size_t row) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef list _kept(self)
    cdef int _keep(self, bytes text) except -1
