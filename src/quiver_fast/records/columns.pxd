# Growing columns of numbers, filled without the GIL, handed to NumPy without a copy.

from libc.stdint cimport int64_t


cdef class Column:
    cdef void *_values
    cdef size_t _item_size
    cdef size_t _capacity           # items that fit
    cdef size_t size                # items that are there; whoever fills the column counts
    cdef bytes _format              # as the struct module names it: b"q" or b"?"
    # What an exported buffer points to; both live as long as this object.
    cdef Py_ssize_t _shape[1]
    cdef Py_ssize_t _strides[1]

    cdef int reserve(self, size_t more) except -1 nogil
    cdef int shrink(self) except -1 nogil
    cdef int _resize(self, size_t capacity) except -1 nogil
    cdef int64_t *numbers(self) noexcept nogil
    cdef unsigned char *flags(self) noexcept nogil


cdef class EndRows:
    cdef Column _rows               # that begin to be of another end
    cdef Column _numbers            # of these ends
    cdef int64_t _before            # the end of the rows before; -1 where none was told
    cdef readonly int64_t lines     # that told an end

    cdef int reserve(self, size_t more) except -1 nogil
    cdef void begin(self, size_t row, int64_t number) noexcept nogil
    cdef bint begins_at(self, size_t row) noexcept nogil
    cdef int64_t following(self) noexcept nogil
    cdef void clear(self) noexcept nogil


cdef class HashedRows:
    cdef Column _rows
    cdef Column _highs
    # The ids themselves, one after the other, and where each ends; nothing unless kept.
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
