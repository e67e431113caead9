from quiver_fast.loop.reactor cimport Watch

cdef class Opener:
    # Becomes readable when queues were opened.
    cdef Watch watch
    cdef int epoll
    cdef object files
    cdef object thread
    cdef bint stopping
    # str (address) -> those who are told.
    cdef dict callers
    # Addresses for the thread, and what it has done: (address, error).
    cdef object wanted
    cdef object opened

    cdef int tell(self) except -1
