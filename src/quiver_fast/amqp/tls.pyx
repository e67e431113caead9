"""TLS at a socket: contexts, and the calls that other modules make without the GIL.

The C is in tls_socket.h and the files beside it. It is compiled into this module alone, which
is the only one that needs OpenSSL.
"""

import os

from quiver_fast.errors import SecurityError


cdef extern from "tls_socket.h" nogil:
    enum tls_peer:
        TLS_PEER_ANY
        TLS_PEER_REQUESTED
        TLS_PEER_REQUIRED
    bint c_present "tls_present"()
    tls_context_t *tls_context_new(bint server)
    void tls_context_free(tls_context_t *context)
    bint tls_context_identify(tls_context_t *context, const char *certificate, const char *key)
    bint tls_context_trust(tls_context_t *context, const char *store, tls_peer peer)
    const char *tls_context_failure(const tls_context_t *context)
    tls_t *tls_new(tls_context_t *context, int fd, const char *host)
    void c_free "tls_free"(tls_t *tls)
    ssize_t c_read "tls_read"(tls_t *tls, void *buffer, size_t size)
    ssize_t c_write "tls_write"(tls_t *tls, const iovec *parts, int count)
    int c_flush "tls_flush"(tls_t *tls)
    int c_close "tls_close"(tls_t *tls)
    bint c_has_input "tls_has_input"(const tls_t *tls)
    short c_events "tls_events"(const tls_t *tls)
    bint c_established "tls_established"(const tls_t *tls)
    bint c_truncated "tls_truncated"(const tls_t *tls)
    int c_socket_error "tls_socket_error"(const tls_t *tls)
    const char *c_failure "tls_failure"(const tls_t *tls)
    const char *c_peer_subject "tls_peer_subject"(tls_t *tls)

PEERS = {
    "any": TLS_PEER_ANY, "requested": TLS_PEER_REQUESTED, "required": TLS_PEER_REQUIRED,
}


def present() -> bool:
    """Say whether this build has OpenSSL."""
    return c_present()


cdef class TlsContext:
    """What the TLS connections of one side share; used by one thread at a time.

    Args:
        server: this side is the server.
        certificate: PEM file that identifies this side, or None.
        key: PEM file with its private key; None when the certificate's file has it.
        trust_store: PEM file or folder of the authorities to trust; None for the system's.
        peer: who must show a certificate that verifies: ``required``, ``requested`` (of a
            client that has one), or ``any``, for nobody. Clients with ``required`` compare
            the certificate with the server's name as well.

    Raises:
        SecurityError: a file cannot be used; the message says which, and why.
    """

    def __cinit__(self) -> None:
        self.context = NULL

    def __init__(self, *, server: bool, certificate: str | None = None, key: str | None = None,
                 trust_store: str | None = None, peer: str = "required") -> None:
        self.context = tls_context_new(server)
        if self.context == NULL:
            raise SecurityError("TLS: OpenSSL makes no context")
        if certificate is not None and not tls_context_identify(
                self.context, os.fsencode(certificate), os.fsencode(key or certificate)):
            raise SecurityError(
                f"TLS: cannot use certificate {certificate} with its key: {self.failure()}")
        store = os.fsencode(trust_store) if trust_store is not None else None
        if not tls_context_trust(
                self.context, <const char *>store if store is not None else NULL, PEERS[peer]):
            raise SecurityError(
                f"TLS: cannot use trust store {trust_store or 'of the system'}: {self.failure()}")

    def __dealloc__(self) -> None:
        if self.context != NULL:
            tls_context_free(self.context)

    def failure(self) -> str:
        """Return why the last file could not be used."""
        return tls_context_failure(self.context).decode("utf-8", "replace")

    cdef tls_t *open(self, int fd, bytes host) except NULL:
        """Begin TLS on a connected socket; a client names the host that it wants, else None."""
        cdef const char *name = NULL
        if host is not None:
            name = host
        cdef tls_t *tls = tls_new(self.context, fd, name)
        if tls == NULL:
            raise MemoryError("no memory for TLS")
        return tls


cdef void tls_free(tls_t *tls) noexcept nogil:
    if tls != NULL:
        c_free(tls)


cdef ssize_t tls_read(tls_t *tls, void *buffer, size_t size) noexcept nogil:
    return c_read(tls, buffer, size)


cdef ssize_t tls_write(tls_t *tls, const iovec *parts, int count) noexcept nogil:
    return c_write(tls, parts, count)


cdef int tls_flush(tls_t *tls) noexcept nogil:
    return c_flush(tls)


cdef int tls_close(tls_t *tls) noexcept nogil:
    return c_close(tls)


cdef bint tls_has_input(const tls_t *tls) noexcept nogil:
    return c_has_input(tls)


cdef short tls_events(const tls_t *tls) noexcept nogil:
    return c_events(tls)


cdef bint tls_established(const tls_t *tls) noexcept nogil:
    return c_established(tls)


cdef bint tls_truncated(const tls_t *tls) noexcept nogil:
    return c_truncated(tls)


cdef int tls_socket_error(const tls_t *tls) noexcept nogil:
    return c_socket_error(tls)


cdef const char *tls_failure(const tls_t *tls) noexcept nogil:
    return c_failure(tls)


cdef const char *tls_peer_subject(tls_t *tls) noexcept nogil:
    return c_peer_subject(tls)
