"""One SASL authentication, as client or as server, as a plain state machine."""

from __future__ import annotations

from quiver_fast.errors import SecurityError


class ClientMechanism:
    """One authentication as a client: the initial response, then one response per challenge.

    Attributes:
        name: the mechanism's IANA name.
        initial: the initial response.
    """

    def __init__(self, name: str, initial: bytes) -> None:
        self.name = name
        self.initial = initial

    def respond(self, challenge: bytes) -> bytes:
        """Answer a challenge; mechanisms of one step are never asked.

        Raises:
            SecurityError: the mechanism does not allow the challenge.
        """
        raise SecurityError(f"SASL {self.name}: unexpected challenge from the peer")

    def finish(self, additional: bytes) -> None:
        """Take the data that came with a successful outcome.

        Raises:
            SecurityError: the peer did not prove that it knows the password.
        """


class ServerMechanism:
    """One authentication as a server: responses in, challenges out, until it is decided.

    Attributes:
        user: name of the authenticated user; None before the decision, and if it is a refusal.
        additional: data for a successful outcome (RFC 4422, 3.6).
        client_first: it asks for the client's first message by an empty challenge, if the client
            sent no initial response (RFC 4422, part 5).
    """

    client_first = False

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        self.additional = b""

    def respond(self, response: bytes) -> bytes | None:
        """Take the client's response; return the next challenge, or None once decided."""
