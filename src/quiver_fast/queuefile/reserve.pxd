cdef void reserve_begin() noexcept nogil
cdef void reserve_end() noexcept nogil
cdef int accept_connection(int listener) noexcept nogil

cdef class Reserve:
    pass
