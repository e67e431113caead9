"""Say which certificate a TLS client refused, and why.

The engine's error has neither. After a failed verification this asks the same
server again through Python's ssl module; it is used on failure alone.
"""

from __future__ import annotations

import socket
import ssl

__all__ = ["why_verification_failed"]

TIMEOUT = 3.0


def _subject(host: str, port: int) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), TIMEOUT) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        certificate = wrapped.getpeercert(binary_form=True) or b""
    import hashlib

    return hashlib.sha256(certificate).hexdigest()


def why_verification_failed(host: str, port: int, trust_store: str | None) -> str:
    """Return the reason and the certificate's SHA-256; empty if it cannot be told."""
    context = ssl.create_default_context(cafile=trust_store)
    try:
        with (
            socket.create_connection((host, port), TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return f"its certificate does not name '{host}' as a DNS name or common name"
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message
    except OSError:
        return ""
    try:
        return f"{reason} (certificate with SHA-256 {_subject(host, port)})"
    except OSError:
        return reason
