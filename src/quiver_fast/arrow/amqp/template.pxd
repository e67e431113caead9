from libc.stdint cimport int64_t, uint64_t

from quiver_fast.arrow.run.sizes cimport Sizes

cdef class MessageTemplate:
    # The size of the present body, and of the largest; they differ only with `sizes`.
    cdef readonly uint64_t body_size
    cdef readonly uint64_t largest_size
    # None: all bodies have the same size.
    cdef Sizes sizes
    # None: the body is x bytes.
    cdef bytes content
    cdef char *content_text
    cdef readonly bint with_id
    cdef readonly bint streaming
    cdef bytes prefix
    cdef object fields
    # The user's application properties, encoded.
    cdef bytes entries
    # One allocation: the head, right-aligned against `body`, then the body's first block.
    cdef char *memory
    cdef char *head
    cdef char *body
    cdef size_t head_size
    cdef size_t block_size
    cdef char *time_field
    # The id's decimal digits, inside the head.
    cdef char *digits
    cdef int digit_count
    # The number of the first message, minus one.
    cdef int64_t before
    # The largest of the body's Data sections; the first one is in the head.
    cdef uint64_t section_size
    cdef char[8] section

    cdef int lay_out(self) except -1
    cdef int next_message(self, int64_t send_time) except -1 nogil
    cdef int go_behind(self, int64_t number) except -1
    cdef void next_section(self, uint64_t size) noexcept nogil


cdef class MixedTemplate(MessageTemplate):
    pass
