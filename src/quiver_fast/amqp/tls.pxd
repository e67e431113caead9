# TLS at a socket; tls_socket.h says what each call does and returns.

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "tls_socket.h" nogil:
    ctypedef struct tls_context_t
    ctypedef struct tls_t
    const int TLS_END
    const int TLS_AGAIN
    const int TLS_FAILED

cdef class TlsContext:
    cdef tls_context_t *context

    cdef tls_t *open(self, int fd, bytes host) except NULL

cdef void tls_free(tls_t *tls) noexcept nogil
cdef ssize_t tls_read(tls_t *tls, void *buffer, size_t size) noexcept nogil
cdef ssize_t tls_write(tls_t *tls, const iovec *parts, int count) noexcept nogil
cdef int tls_flush(tls_t *tls) noexcept nogil
cdef int tls_close(tls_t *tls) noexcept nogil
cdef bint tls_has_input(const tls_t *tls) noexcept nogil
cdef short tls_events(const tls_t *tls) noexcept nogil
cdef bint tls_established(const tls_t *tls) noexcept nogil
cdef bint tls_truncated(const tls_t *tls) noexcept nogil
cdef int tls_socket_error(const tls_t *tls) noexcept nogil
cdef const char *tls_failure(const tls_t *tls) noexcept nogil
cdef const char *tls_peer_subject(tls_t *tls) noexcept nogil
