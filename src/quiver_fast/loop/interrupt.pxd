# The number of the signal that asks this process to end, or 0; and a descriptor
# that it makes readable, so that a wait ends at once.
cdef int pending_signal() noexcept nogil
cdef int pending_count() noexcept nogil
cdef int wake_descriptor() noexcept nogil
