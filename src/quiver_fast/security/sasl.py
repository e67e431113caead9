"""The choice of a SASL mechanism, and the mechanisms that have one step.

PLAIN is RFC 4616, ANONYMOUS RFC 4505, EXTERNAL RFC 4422 appendix A. SCRAM is in `scram.py`, and
`security.pyx` carries the bytes. The mechanisms are our own, so that every build has the same
ones, with or without Cyrus SASL and its plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quiver_fast.errors import SecurityError
from quiver_fast.security.mechanism import ClientMechanism, ServerMechanism

if TYPE_CHECKING:
    from quiver_fast.security.scram import Credentials


def choose_client_mechanism(
    offered: list[str],
    *,
    username: str | None,
    password: str | None,
    certificate: bool,
    allowed: list[str] | None,
    readable: bool = False,
) -> ClientMechanism:
    """Choose the strongest mechanism that the peer offers and that suits the credentials.

    With a user, ANONYMOUS is not chosen, because the peer would not learn the user. PLAIN is not
    chosen if others could read the password. ``allowed`` permits both.

    Args:
        offered: the mechanisms that the peer offers.
        username: user name, or None.
        password: password, or None.
        certificate: a client certificate was given over TLS.
        allowed: the only mechanisms to use, in order of preference; None for the default.
        readable: others could read the connection: it crosses a network without TLS.

    Raises:
        SecurityError: no mechanism fits; the message has the offered ones.
    """
    credentials = username is not None and password is not None
    usable = ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"] if credentials else []
    if certificate:
        usable.insert(0, "EXTERNAL")
    if allowed is not None:
        usable = [name for name in allowed if name in usable or name == "ANONYMOUS"]
    elif not usable and username is None:
        usable = ["ANONYMOUS"]
    name = next((name for name in usable if name in offered), None)
    if name is None:
        hint = "" if username is None or password is not None else _without_password(username)
        raise SecurityError(
            f"SASL: the peer offers {' '.join(offered) or 'nothing'}, "
            f"usable here: {' '.join(usable) or 'nothing'}{hint}"
        )
    if name == "PLAIN" and readable and allowed is None:
        raise SecurityError(
            "SASL: the peer offers no mechanism that keeps the password from the network: "
            "use TLS, or allow that with sasl-mechanisms=PLAIN"
        )
    if name.startswith("SCRAM"):
        # Imported late: an arrow without SCRAM does not need its hashes and tables.
        from quiver_fast.security.scram import ScramClient

        return ScramClient(name, username or "", password or "")
    if name == "PLAIN":
        return ClientMechanism(name, f"\0{username}\0{password}".encode())
    if name == "ANONYMOUS":
        return ClientMechanism(name, (username or "anonymous").encode())
    return ClientMechanism(name, b"")


def _without_password(username: str) -> str:
    return (
        f"; user '{username}' has no password: give --password-file (password-fd), or allow "
        "--sasl-mechanisms ANONYMOUS"
    )


def server_mechanisms(
    *, credentials: bool, external: bool, plain: bool, allowed: list[str] | None
) -> list[str]:
    """Return the mechanisms that a server offers, the strongest first.

    Args:
        credentials: the server knows a user, so ANONYMOUS is refused.
        external: TLS has verified the client's certificate.
        plain: a password may cross this connection in clear text.
        allowed: the only mechanisms to offer, or None.
    """
    names = ["EXTERNAL"] if external else []
    names += ["SCRAM-SHA-256", *(["PLAIN"] if plain else [])] if credentials else ["ANONYMOUS"]
    return [name for name in names if allowed is None or name in allowed]


def make_server_mechanism(
    name: str, *, credentials: Credentials | None, external: str | None
) -> ServerMechanism:
    """Return the state machine of a mechanism that :func:`server_mechanisms` returned.

    Args:
        name: the mechanism's IANA name.
        credentials: the server's user, for SCRAM and PLAIN.
        external: the subject of the client's certificate, for EXTERNAL.

    Raises:
        SecurityError: the mechanism needs credentials and there are none.
    """
    if name == "ANONYMOUS":
        return ServerMechanism("anonymous")
    if name == "EXTERNAL":
        return ExternalServer(external)
    if credentials is None:
        raise SecurityError(f"SASL {name}: no user is known here")
    if name == "PLAIN":
        return PlainServer(credentials)
    from quiver_fast.security.scram import ScramServer

    return ScramServer(credentials)


class ExternalServer(ServerMechanism):
    """EXTERNAL (RFC 4422, appendix A) as a server.

    Args:
        subject: the subject of the client's certificate; None without one.
    """

    def __init__(self, subject: str | None) -> None:
        super().__init__()
        self._subject = subject

    def respond(self, response: bytes) -> None:
        """Decide on the client's only message, the identity that it asks for."""
        # A client may not act for another user.
        if self._subject is not None and response in (b"", self._subject.encode()):
            self.user = self._subject


class PlainServer(ServerMechanism):
    """PLAIN (RFC 4616) as a server."""

    client_first = True

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self._credentials = credentials

    def respond(self, response: bytes) -> None:
        """Decide on the client's only message: authorization identity, user, password."""
        parts = response.split(b"\0")
        # A client may not act for another user.
        if len(parts) == 3 and parts[0] in (b"", parts[1]):
            self.user = self._credentials.user_of_password(parts[1], parts[2])
