from libc.stdint cimport uint64_t

from quiver_fast.proton.libproton cimport pn_terminus_t
from quiver_fast.server.model.structures cimport Queue
from quiver_fast.server.selectors.filter cimport Selector

# The filters of a source, each with the key that the peer gave it.
cdef class Asked:
    cdef Selector selector
    cdef str text
    cdef bytes selector_key
    cdef bytes local_key

cdef Asked read_filters(pn_terminus_t *theirs)
cdef int write_filters(Asked asked, bint topic, pn_terminus_t *ours) except -1
cdef int choose(Queue *subscription, Asked asked, bytes container) except -1
cdef int choose_encoded(Queue *subscription, bytes encoded, bytes container) except -1
cdef uint64_t origin_of(bytes container) except? 0
