from libc.stdint cimport int64_t, uint64_t

from quiver_fast.proton.libproton cimport pn_delivery_t
from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.server.message cimport Message
from quiver_fast.server.structures cimport Container, Link, Queue

cdef class Store:
    cdef Appender appender
    # Entries that are done with, not written down yet.
    cdef uint64_t *removed
    cdef size_t removed_count
    # Has something to write down or to sync; in the container's list.
    cdef bint dirty
    cdef void *next_dirty
    # A transaction's entries are being written.
    cdef bint in_transaction
    # The last append failed, which was said.
    cdef bint failing

    cdef int fill(self, Queue *queue) except -1

cdef bint is_stored(const Queue *queue, const Message *message) noexcept nogil
cdef bint store_append(Queue *queue, Message *message) noexcept nogil
cdef void store_remove(Queue *queue, int64_t index) noexcept nogil
cdef void store_end(Queue *queue) noexcept nogil
cdef bint store_begin(Queue *queue) noexcept nogil
cdef bint must_wait(const Queue *queue, const Message *message) noexcept nogil
cdef bint accept_later(Link *link, pn_delivery_t *delivery) noexcept nogil
cdef void stores_flush(Container *container) noexcept nogil
cdef void forget_pending(Link *link) noexcept nogil
