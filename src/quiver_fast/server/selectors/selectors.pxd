from quiver_fast.server.messages.messages cimport Message
from quiver_fast.server.selectors.steps cimport Filter, Pattern, Value

cdef class Selector:
    cdef Filter filter
    cdef list kept
    cdef int build(self, list steps) except -1
    cdef int keep(self, object made) except -1
    cdef void *table(self, size_t size) except NULL
    cdef int set_text(self, Value *value, bytes text) except -1
    cdef int set_literal(self, Value *value, object literal) except -1
    cdef int set_pattern(self, Pattern *pattern, list accepted, list gaps) except -1
    cdef int set_index(self, dict slots) except -1

cdef Filter *filter_take(Selector selector) noexcept
cdef void filter_release(Filter *filter) noexcept nogil
cdef bint filter_matches(Filter *filter, const Message *message) noexcept nogil
