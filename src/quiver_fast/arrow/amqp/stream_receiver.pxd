from libc.stdint cimport int64_t

from quiver_fast.arrow.amqp.inflow cimport Inflow
from quiver_fast.arrow.amqp.receiver cimport Receiver
from quiver_fast.proton.libproton cimport pn_link_t

cdef class StreamReceiver(Receiver):
    # The links that the peer attached for streams, besides the base link.
    cdef Inflow *streams
    # Bytes of bodies.
    cdef readonly int64_t bytes

    cdef int begin_sessions(self) noexcept nogil
    cdef int end_sessions(self) noexcept nogil
    cdef int answer_links(self) except -1 nogil
    cdef int accept_link(self, pn_link_t *link) except -1
    cdef int drop_closed_links(self) noexcept nogil
    cdef int tell(self, Inflow *flow, char kind) except -1 nogil
    cdef bint shows_progress(self, Inflow *flow) noexcept nogil
    cdef int refuse_body(self, Inflow *flow) except -1
