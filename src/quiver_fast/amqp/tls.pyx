"""TLS at a socket: contexts. The calls for a connection are C; see tls_socket.h."""

import os
import re

from quiver_fast.errors import SecurityError

PEERS = {
    "any": TLS_PEER_ANY, "requested": TLS_PEER_REQUESTED, "required": TLS_PEER_REQUIRED,
}

# The first bytes of files that are not PEM: of Java's key stores, and of DER; and the encoded
# version that PKCS #12 has.
JAVA_STORE = b"\xfe\xed\xfe\xed"
SEQUENCE = b"\x30"
VERSION_3 = b"\x02\x01\x03"

# The parts of PEM files (RFC 7468, and OpenSSL's pem.h).
LABEL = re.compile(rb"^-----BEGIN ([A-Z0-9 #]{1,40})-----", re.MULTILINE)
CERTIFICATE, PRIVATE_KEY = "a certificate", "a private key"
PUBLIC_KEY, REQUEST = "a public key", "a certificate request"
PARTS = {
    "CERTIFICATE": CERTIFICATE, "X509 CERTIFICATE": CERTIFICATE,
    "TRUSTED CERTIFICATE": CERTIFICATE,
    "PRIVATE KEY": PRIVATE_KEY, "ENCRYPTED PRIVATE KEY": PRIVATE_KEY,
    "RSA PRIVATE KEY": PRIVATE_KEY, "EC PRIVATE KEY": PRIVATE_KEY,
    "DSA PRIVATE KEY": PRIVATE_KEY, "OPENSSH PRIVATE KEY": "an OpenSSH key",
    "PUBLIC KEY": PUBLIC_KEY, "RSA PUBLIC KEY": PUBLIC_KEY,
    "CERTIFICATE REQUEST": REQUEST, "NEW CERTIFICATE REQUEST": REQUEST,
    "PKCS7": "PKCS #7", "CMS": "PKCS #7", "X509 CRL": "a revocation list",
}
# A message names so many of them.
MOST_NAMED = 3

# A certificate in a folder of authorities (openssl-rehash(1)).
HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")


def present() -> bool:
    """Say whether this build has OpenSSL."""
    return tls_present()


def beginning(path: str, size: int = -1) -> bytes:
    """Return the first bytes of a file; nothing of a pipe, which was read already."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(size)


def unfit_format(path: str) -> str:
    """Say which other format than PEM a file has; empty if it is not a known one."""
    head = beginning(path, 16)
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


def unfit_content(path: str, wanted: str) -> str:
    """Say what a file has in place of the wanted part; empty if it has it, or is a pipe."""
    if os.path.isdir(path):
        return f"{path} is a folder, not a file"
    if not os.path.isfile(path):
        return ""
    text = beginning(path)
    labels = [label.decode() for label in LABEL.findall(text)]
    held = list(dict.fromkeys(PARTS.get(label, f"'{label}'") for label in labels))
    if wanted in held:
        return ""
    if held:
        return f"{path} has {' and '.join(held[:MOST_NAMED])}, and no {wanted.removeprefix('a ')}"
    return f"{path} has no {wanted.removeprefix('a ')}" if text else f"{path} is empty"


def unfit_certificate(path: str) -> str:
    """Say why the file of a certificate is none for us; empty if that is not known."""
    return unfit_format(path) or unfit_content(path, CERTIFICATE)


def unfit_key(path: str) -> str:
    """Say why the file of a private key is none for us; empty if that is not known."""
    text = beginning(path)
    if b"BEGIN ENCRYPTED PRIVATE KEY" in text or b"Proc-Type: 4,ENCRYPTED" in text:
        return f"the key in {path} is locked by a password: unlock it with openssl pkey"
    return unfit_format(path) or unfit_content(path, PRIVATE_KEY)


def unfit_store(path: str) -> str:
    """Say why a trust store has no authority; empty if that is not known."""
    if not os.path.isdir(path):
        return unfit_certificate(path)
    if any(HASHED.fullmatch(name) for name in os.listdir(path)):
        return ""
    return f"the folder has no certificate under its hash: name them with openssl rehash {path}"


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
            raise SecurityError(f"TLS: cannot use certificate {certificate} with its key: "
                                f"{self.why_unidentified(certificate, key)}")
        store = os.fsencode(trust_store) if trust_store is not None else None
        # OpenSSL takes any folder.
        why = unfit_store(trust_store) if trust_store and os.path.isdir(trust_store) else ""
        if why or not tls_context_trust(
                self.context, <const char *>store if store is not None else NULL, PEERS[peer],
                old):
            why = why or trust_store and unfit_store(trust_store) or self.failure()
            name = trust_store or "of the system"
            raise SecurityError(f"TLS: cannot use trust store {name}: {why}")

    def __dealloc__(self) -> None:
        if self.context != NULL:
            tls_context_free(self.context)

    def failure(self) -> str:
        """Return the reason of the last failure with a file."""
        return tls_context_failure(self.context).decode("utf-8", "replace")

    def why_unidentified(self, certificate: str, key: str | None) -> str:
        """Return why a certificate cannot be used with its key, with the option."""
        if why := unfit_certificate(certificate):
            return f"--cert: {why}"
        if why := unfit_key(key or certificate):
            return f"{'--key' if key else '--cert'}: {why}"
        return self.failure()

    cdef tls_t *open(self, int fd, bytes host) except NULL:
        """Begin TLS on a connected socket; a client names the host that it wants, else None."""
        cdef const char *name = NULL
        if host is not None:
            name = host
        cdef tls_t *tls = tls_new(self.context, fd, name)
        if tls == NULL:
            raise MemoryError("no memory for TLS")
        return tls
