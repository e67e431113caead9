"""Which SASL mechanism to use, and those of one step; engine.security.security carries the bytes.

PLAIN is RFC 4616, ANONYMOUS RFC 4505, EXTERNAL RFC 4422 appendix A; SCRAM is in
engine.security.scram. They are our own so that every build has the same ones, with or
without Cyrus SASL and its plugins.
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
    """Choose the strongest mechanism that the peer offers and the credentials serve.

    A user is never ignored, nor a password exposed, silently. With a user, ANONYMOUS is not
    chosen; PLAIN is not chosen where others could read it. ``allowed`` permits both.

    Args:
        offered: what the peer offers.
        username: user name, or None.
        password: password, or None.
        certificate: a client certificate was given over TLS.
        allowed: the only mechanisms to use, in order of preference; None for the default.
        readable: what is sent crosses a network without TLS.

    Raises:
        SecurityError: no mechanism fits; the message says what was offered.
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
        # Imported late, so that an arrow without SCRAM does not load its hashes and tables.
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
    """Return what a server offers, the strongest first.

    Args:
        credentials: the server knows a user, so ANONYMOUS is refused.
        external: TLS has verified the client's certificate.
        plain: a password may cross this connection as it is.
        allowed: the only mechanisms to offer, or None.
    """
    names = ["EXTERNAL"] if external else []
    names += ["SCRAM-SHA-256", *(["PLAIN"] if plain else [])] if credentials else ["ANONYMOUS"]
    return [name for name in names if allowed is None or name in allowed]


def make_server_mechanism(
    name: str, *, credentials: Credentials | None, external: str | None
) -> ServerMechanism:
    """Return the state machine of one that :func:`server_mechanisms` offered.

    Args:
        name: the mechanism's IANA name.
        credentials: the server's user, for SCRAM and PLAIN.
        external: who the client's certificate says it is, for EXTERNAL.

    Raises:
        SecurityError: it needs credentials and there are none.
    """
    if name == "ANONYMOUS":
        return ServerMechanism("anonymous")
    if name == "EXTERNAL":
        return ServerMechanism(external)
    if credentials is None:
        raise SecurityError(f"SASL {name}: no user is known here")
    if name == "PLAIN":
        return PlainServer(credentials)
    from quiver_fast.security.scram import ScramServer

    return ScramServer(credentials)


class PlainServer(ServerMechanism):
    """PLAIN (RFC 4616) as a server."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self._credentials = credentials

    def respond(self, response: bytes) -> None:
        """Decide by the client's one message: authorization, user, password."""
        parts = response.split(b"\0")
        # Nobody may act for another user here.
        if len(parts) == 3 and parts[0] in (b"", parts[1]):
            self.user = self._credentials.user_of_password(parts[1], parts[2])
