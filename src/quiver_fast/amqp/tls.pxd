# TLS at a socket; tls_socket.h describes each call.

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        pass

cdef extern from "tls_socket.h" nogil:
    ctypedef struct tls_context_t
    ctypedef struct tls_t
    const int TLS_AGAIN
    const int TLS_FAILED
    enum tls_peer:
        TLS_PEER_ANY
        TLS_PEER_REQUESTED
        TLS_PEER_REQUIRED

    bint tls_present()
    tls_context_t *tls_context_new(bint server)
    void tls_context_free(tls_context_t *context)
    bint tls_context_identify(tls_context_t *context, const char *certificate, const char *key)
    bint tls_context_trust(tls_context_t *context, const char *store, tls_peer peer, bint old)
    const char *tls_context_failure(const tls_context_t *context)
    tls_t *tls_new(tls_context_t *context, int fd, const char *host)
    void tls_free(tls_t *tls)
    ssize_t tls_read(tls_t *tls, void *buffer, size_t size)
    ssize_t tls_write(tls_t *tls, const iovec *parts, int count)
    int tls_flush(tls_t *tls)
    int tls_close(tls_t *tls)
    bint tls_has_input(const tls_t *tls)
    short tls_events(const tls_t *tls)
    size_t tls_waiting(const tls_t *tls)
    bint tls_established(const tls_t *tls)
    int tls_socket_error(const tls_t *tls)
    bint tls_refused(const tls_t *tls)
    int tls_alert(const tls_t *tls)
    bint tls_lacks_certificate(const tls_t *tls)
    const char *tls_failure(const tls_t *tls)
    const char *tls_peer_subject(tls_t *tls)

cdef class TlsContext:
    cdef tls_context_t *context

    cdef tls_t *open(self, int fd, bytes host) except NULL
