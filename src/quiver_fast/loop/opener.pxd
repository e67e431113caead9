from quiver_fast.loop.reactor cimport Watch

cdef class Opener:
    # Becomes readable when work is done.
    cdef Watch watch
    cdef int epoll
    cdef object files
    cdef object thread
    cdef bint stopping
    # str (address) -> callers that wait for its queue.
    cdef dict callers
    # For the thread: (name, work, callers). Its results: (name, callers, error).
    cdef object wanted
    cdef object done

    cdef int tell(self) except -1
