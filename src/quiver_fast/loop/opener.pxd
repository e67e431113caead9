from quiver_fast.loop.reactor cimport Watch

cdef class Opener:
    # Becomes readable when something was done.
    cdef Watch watch
    cdef int epoll
    cdef object files
    cdef object thread
    cdef bint stopping
    # str (address) -> those who are told that its queue is open.
    cdef dict callers
    # For the thread: (name, work, those who are told). What it has done: (name, they, error).
    cdef object wanted
    cdef object done

    cdef int tell(self) except -1
