from quiver_fast.proton.libproton cimport pn_ssl_domain_t, pn_transport_t

cdef class Security:
    cdef readonly bint tls
    cdef readonly object username
    cdef object password
    cdef readonly object certificate
    cdef readonly object key
    cdef readonly object trust_store
    cdef readonly bint verify
    cdef readonly object mechanisms
    cdef pn_ssl_domain_t *domain

    cdef int apply(self, SaslExchange exchange, pn_transport_t *transport,
                   bytes hostname) except -1
    cdef int open_domain(self, bint server) except -1


cdef class SaslExchange:
    # What the engine points to must outlive its calls, so it is kept here.
    cdef Security security
    cdef bint server
    cdef object mechanism
    cdef bytes offered
    cdef bytes outgoing
    cdef bytes user
    # The exception of a callback; the connection raises it after the engine returns.
    cdef readonly object error


cdef str last_engine_message()
