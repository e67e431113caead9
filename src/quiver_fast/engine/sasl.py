"""Which SASL mechanism to use, and those of one step; engine.security carries the bytes.

PLAIN is RFC 4616, ANONYMOUS RFC 4505, EXTERNAL RFC 4422 appendix A; SCRAM is in
engine.scram. They are our own so that every build has the same ones, with or
without Cyrus SASL and its plugins.
"""

from __future__ import annotations

from quiver_fast.engine.mechanism import ClientMechanism
from quiver_fast.errors import SecurityError

__all__ = ["choose_client_mechanism", "verify_plain"]


def choose_client_mechanism(
    offered: list[str],
    *,
    username: str | None,
    password: str | None,
    certificate: bool,
    allowed: list[str] | None,
) -> ClientMechanism:
    """Choose the strongest mechanism that the peer offers and the credentials serve.

    A password is never given up silently: with one, ANONYMOUS is not taken
    unless ``allowed`` names it.

    Args:
        offered: what the peer offers.
        username: user name, or None.
        password: password, or None.
        certificate: a client certificate was given over TLS.
        allowed: the only mechanisms to use, in order of preference; None for the default.

    Raises:
        SecurityError: no mechanism fits; the message says what was offered.
    """
    credentials = username is not None and password is not None
    usable = ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"] if credentials else []
    if certificate:
        usable.insert(0, "EXTERNAL")
    if allowed is not None:
        usable = [name for name in allowed if name in usable or name == "ANONYMOUS"]
    elif not usable:
        usable = ["ANONYMOUS"]
    name = next((name for name in usable if name in offered), None)
    if name is None:
        raise SecurityError(
            f"SASL: the peer offers {' '.join(offered) or 'nothing'}, "
            f"usable here: {' '.join(usable) or 'nothing'}"
        )
    if name.startswith("SCRAM"):
        # Its hashes and tables are not on the way of an arrow that needs none.
        from quiver_fast.engine.scram import ScramClient

        return ScramClient(name, username or "", password or "")
    if name == "PLAIN":
        return ClientMechanism(name, f"\0{username}\0{password}".encode())
    if name == "ANONYMOUS":
        return ClientMechanism(name, (username or "anonymous").encode())
    return ClientMechanism(name, b"")


def verify_plain(response: bytes, username: str, password: str) -> bool:
    """Say whether a PLAIN response has these credentials, in constant time (RFC 4616)."""
    import hmac

    parts = response.split(b"\0")
    if len(parts) != 3:
        return False
    right_user = hmac.compare_digest(parts[1], username.encode())
    right_password = hmac.compare_digest(parts[2], password.encode())
    return right_user and right_password
