"""SASL mechanisms as plain state machines; engine.security carries their bytes.

PLAIN is RFC 4616, ANONYMOUS RFC 4505, EXTERNAL RFC 4422 appendix A, SCRAM RFC
5802 and RFC 7677. They are our own so that every build has the same ones, with
or without Cyrus SASL and its plugins.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import stringprep
import unicodedata

from quiver_fast.errors import SecurityError

__all__ = ["ClientMechanism", "choose_client_mechanism", "sasl_prep", "verify_plain"]

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}
# RFC 7677 asks for 4096 at least; a server that asks for millions ties us up.
MAX_ITERATIONS = 10_000_000


def sasl_prep(text: str) -> str:
    """Return ``text`` normalised by SASLprep (RFC 4013), as stored and compared.

    Raises:
        SecurityError: it has a character that SASLprep prohibits.
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in text if not stringprep.in_table_b1(c)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    prohibited = (
        stringprep.in_table_c12,
        stringprep.in_table_c21_c22,
        stringprep.in_table_c3,
        stringprep.in_table_c4,
        stringprep.in_table_c5,
        stringprep.in_table_c6,
        stringprep.in_table_c7,
        stringprep.in_table_c8,
        stringprep.in_table_c9,
    )
    if any(test(c) for c in normal for test in prohibited):
        raise SecurityError("the user name or password has a character that SASL prohibits")
    return normal


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


class ScramClient(ClientMechanism):
    """SCRAM as a client, without channel binding."""

    def __init__(self, name: str, username: str, password: str, nonce: str | None = None) -> None:
        self._hash = SCRAM_HASHES[name]
        self._password = sasl_prep(password).encode()
        self._nonce = nonce or secrets.token_urlsafe(18)
        user = sasl_prep(username).replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={user},r={self._nonce}"
        self._server_signature: bytes | None = None
        self._verified = False
        super().__init__(name, f"n,,{self._bare}".encode())

    def respond(self, challenge: bytes) -> bytes:
        """Answer the server's first message with the proof; check its final message."""
        fields = _scram_fields(self.name, challenge)
        if self._server_signature is None:
            return self._prove(challenge.decode(), fields)
        self._verify(fields)
        return b""

    def finish(self, additional: bytes) -> None:
        """Check the server's signature, which may come with the outcome (RFC 4422, 3.6)."""
        if additional and not self._verified and self._server_signature is not None:
            self._verify(_scram_fields(self.name, additional))
        if not self._verified:
            raise SecurityError(f"SASL {self.name}: the peer sent no proof of its identity")

    def _prove(self, first: str, fields: dict[str, str]) -> bytes:
        try:
            nonce, salt, count = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (KeyError, ValueError):
            raise SecurityError(f"SASL {self.name}: malformed challenge") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SecurityError(f"SASL {self.name}: the peer's nonce does not extend ours")
        if not 1 <= count <= MAX_ITERATIONS:
            raise SecurityError(f"SASL {self.name}: the peer asks for {count} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, count)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._bare},{first},{without_proof}".encode()
        signature = self._hmac(stored_key, message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, fields: dict[str, str]) -> None:
        if "e" in fields:
            raise SecurityError(f"SASL {self.name}: {fields['e']}")
        try:
            given = base64.b64decode(fields["v"])
        except (KeyError, ValueError):
            raise SecurityError(f"SASL {self.name}: malformed final message") from None
        if not hmac.compare_digest(given, self._server_signature or b""):
            raise SecurityError(f"SASL {self.name}: the peer does not know the password")
        self._verified = True

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _scram_fields(name: str, message: bytes) -> dict[str, str]:
    try:
        items = message.decode().split(",")
        return dict(item.split("=", 1) for item in items)
    except ValueError:
        raise SecurityError(f"SASL {name}: malformed challenge") from None


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
    if name in SCRAM_HASHES:
        return ScramClient(name, username or "", password or "")
    if name == "PLAIN":
        return ClientMechanism(name, f"\0{username}\0{password}".encode())
    if name == "ANONYMOUS":
        return ClientMechanism(name, (username or "anonymous").encode())
    return ClientMechanism(name, b"")


def verify_plain(response: bytes, username: str, password: str) -> bool:
    """Say whether a PLAIN response has these credentials, in constant time (RFC 4616)."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        return False
    right_user = hmac.compare_digest(parts[1], username.encode())
    right_password = hmac.compare_digest(parts[2], password.encode())
    return right_user and right_password
