from quiver_fast.proton.libproton cimport pn_connection_t, pn_data_t

cdef bint has_capability(pn_data_t *data, const char *wanted) noexcept nogil
cdef void introduce(pn_connection_t *connection, bytes version) noexcept
cdef bint is_trunk(pn_connection_t *connection) noexcept nogil
cdef bint is_router(pn_connection_t *connection) noexcept nogil
cdef bint takes_streaming_links(pn_connection_t *connection) noexcept nogil
cdef void offer_capabilities(pn_connection_t *connection, bint streaming_links) noexcept nogil
cdef void say_transactions(pn_data_t *data) noexcept nogil
cdef bint may_reject(pn_data_t *outcomes) noexcept nogil
