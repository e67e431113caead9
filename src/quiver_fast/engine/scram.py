"""SCRAM-SHA-1 and SCRAM-SHA-256 (RFC 5802, RFC 7677) as a client."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import stringprep
import unicodedata

from quiver_fast.engine.mechanism import ClientMechanism
from quiver_fast.errors import SecurityError

__all__ = ["ScramClient", "sasl_prep"]

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
