from libc.stdint cimport int64_t, uint64_t

from quiver_fast.arrow.run.sizes cimport Sizes

cdef enum:
    # See `quiver_fast.property_mix`: each mixed property has two values or more.
    MOST_CLASSES = 64
    MOST_MIXED = 6
    MOST_COPIES = 16

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
    # The largest head of all messages so far.
    cdef size_t largest_head
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
    cdef void next_size(self) noexcept nogil


cdef class MixedTemplate(MessageTemplate):
    pass


# The head of one class of messages, whose memory is a bytes object of the template.
cdef struct ClassHead:
    const char *start
    size_t size
    size_t time_at
    size_t digits_at


# See `property_mix.Steps`.
cdef struct ClassStep:
    uint64_t factor
    uint64_t[MOST_CLASSES] bounds
    int bound_count


cdef class ClassTemplate(MessageTemplate):
    cdef object mix
    cdef list classes
    cdef list stream_values
    # The heads for the present number of digits, and the place of the one that is in front of
    # the body.
    cdef list encoded
    cdef ClassHead[MOST_CLASSES] heads
    cdef int present
    cdef ClassStep[MOST_MIXED] steps
    cdef int step_count
    # How far in front of the body the properties that are the message's number have it, and
    # those that are its id have the digits: they are the last ones.
    cdef size_t[MOST_COPIES] numbers_before
    cdef int number_count
    cdef size_t[MOST_COPIES] digits_before
    cdef int id_count
    # The message's number, from 1.
    cdef int64_t number

    cdef object fields_of(self, int place, str the_id)
    cdef int find_copies(self, size_t behind) except -1
    cdef int class_of(self, int64_t number) noexcept nogil
    cdef void turn_to(self, int place) noexcept nogil
