"""One SASL authentication as a client, as a plain state machine."""

from __future__ import annotations

from quiver_fast.errors import SecurityError

__all__ = ["ClientMechanism"]


class ClientMechanism:
    """One authentication as a client: the first response, then one per challenge.

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
            SecurityError: the challenge is not what the mechanism allows.
        """
        raise SecurityError(f"SASL {self.name}: unexpected challenge from the peer")

    def finish(self, additional: bytes) -> None:
        """Take the data that came with a successful outcome.

        Raises:
            SecurityError: the peer did not prove that it knows the password.
        """
