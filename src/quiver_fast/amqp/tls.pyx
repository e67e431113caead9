"""TLS at a socket: contexts. The calls for a connection are C; see tls_socket.h."""

import os

from quiver_fast.errors import SecurityError

PEERS = {
    "any": TLS_PEER_ANY, "requested": TLS_PEER_REQUESTED, "required": TLS_PEER_REQUIRED,
}


def present() -> bool:
    """Say whether this build has OpenSSL."""
    return tls_present()


cdef class TlsContext:
    """The shared settings of one side's TLS connections; used by one thread at a time.

    Args:
        server: this side is the server.
        certificate: PEM file that identifies this side, or None.
        key: PEM file with its private key; None when the certificate's file has it.
        trust_store: PEM file or folder of the authorities to trust; None for the system's.
        peer: whether the peer must show a valid certificate: ``required``, ``requested`` (if
            a client has one), or ``any`` (never). Clients with ``required`` also compare
            the certificate with the server's name.
        old: accept TLS before 1.2, and the keys and ciphers of its time. A client with ``any``
            does so in any case: it verifies nothing.

    Raises:
        SecurityError: a file cannot be used; the message has its name and the reason.
    """

    def __cinit__(self) -> None:
        self.context = NULL

    def __init__(self, *, server: bool, certificate: str | None = None, key: str | None = None,
                 trust_store: str | None = None, peer: str = "required",
                 old: bool = False) -> None:
        self.context = tls_context_new(server)
        if self.context == NULL:
            raise SecurityError("TLS: OpenSSL makes no context")
        if certificate is not None and not tls_context_identify(
                self.context, os.fsencode(certificate), os.fsencode(key or certificate)):
            raise SecurityError(
                f"TLS: cannot use certificate {certificate} with its key: {self.failure()}")
        store = os.fsencode(trust_store) if trust_store is not None else None
        if not tls_context_trust(
                self.context, <const char *>store if store is not None else NULL, PEERS[peer],
                old):
            raise SecurityError(
                f"TLS: cannot use trust store {trust_store or 'of the system'}: {self.failure()}")

    def __dealloc__(self) -> None:
        if self.context != NULL:
            tls_context_free(self.context)

    def failure(self) -> str:
        """Return the reason of the last failure with a file."""
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
