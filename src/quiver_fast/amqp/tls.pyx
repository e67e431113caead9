"""TLS at a socket: contexts. The calls for a connection are C; see tls_socket.h."""

import os

from quiver_fast.errors import SecurityError

PEERS = {
    "any": TLS_PEER_ANY, "requested": TLS_PEER_REQUESTED, "required": TLS_PEER_REQUIRED,
}

# The first bytes of files that are not PEM: of Java's key stores, and of DER; and the encoded
# version that PKCS #12 has.
JAVA_STORE = b"\xfe\xed\xfe\xed"
SEQUENCE = b"\x30"
VERSION_3 = b"\x02\x01\x03"


def present() -> bool:
    """Say whether this build has OpenSSL."""
    return tls_present()


def unfit_format(path: str) -> str:
    """Say which other format than PEM a file has; empty if it is not a known one."""
    with open(path, "rb") as file:
        head = file.read(16)
    if head.startswith(JAVA_STORE):
        return f"{path} is a Java key store, not PEM: convert it with keytool and openssl pkcs12"
    if head[:1] != SEQUENCE:
        return ""
    # The version of PKCS #12 comes first (RFC 7292, section 4); the length before it has a form
    # of one byte or more.
    length = head[1] & 0x7f if head[1] & 0x80 else 0
    if head[2 + length:5 + length] == VERSION_3:
        return f"{path} is a PKCS #12 file, not PEM: convert it with openssl pkcs12 -nodes"
    return f"{path} is DER, not PEM: convert it with openssl"


def unfit_key(path: str) -> str:
    """Say why the file of a private key is none for us; empty if that is not known."""
    with open(path, "rb") as file:
        text = file.read()
    if b"BEGIN ENCRYPTED PRIVATE KEY" in text or b"Proc-Type: 4,ENCRYPTED" in text:
        return f"the key in {path} is locked by a password: unlock it with openssl pkey"
    return unfit_format(path)


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
            why = unfit_format(certificate) or unfit_key(key or certificate) or self.failure()
            raise SecurityError(f"TLS: cannot use certificate {certificate} with its key: {why}")
        store = os.fsencode(trust_store) if trust_store is not None else None
        if not tls_context_trust(
                self.context, <const char *>store if store is not None else NULL, PEERS[peer],
                old):
            why = trust_store and unfit_format(trust_store) or self.failure()
            name = trust_store or "of the system"
            raise SecurityError(f"TLS: cannot use trust store {name}: {why}")

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
