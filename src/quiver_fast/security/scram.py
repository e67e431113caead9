"""SCRAM (RFC 5802, RFC 7677): both hashes as a client, SCRAM-SHA-256 as a server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import stringprep
import unicodedata

from quiver_fast.errors import SecurityError
from quiver_fast.security.mechanism import ClientMechanism, ServerMechanism

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}
# RFC 7677 demands at least 4096. A server that demands more keeps us busy: its peer may be the
# loop of another server.
MAX_ITERATIONS = 100_000

SERVER_HASH = "sha256"
SERVER_ITERATIONS = 4096
SALT_SIZE = 16


def sasl_prep(text: str) -> str:
    """Return ``text`` normalised by SASLprep (RFC 4013), for storing and comparing.

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
        """Answer the server's first message with the proof, or check its final message."""
        if self._verified:
            return super().respond(challenge)
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
        proof = _exclusive_or(client_key, self._hmac(stored_key, message))
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


class Credentials:
    """The one user that a server knows, in the form that SCRAM-SHA-256 stores; derived once.

    The salt is a keyed digest of the user's name. An unknown name always has the same salt too,
    so a client cannot tell it from the known one.

    Args:
        username: the user's name.
        password: the user's password; it is not kept.
        secret: key of all digests; None for a new one.
        salt: the user's salt; None to derive it from ``secret``.

    Raises:
        SecurityError: either has a character that SASLprep prohibits.
    """

    def __init__(
        self,
        username: str,
        password: str,
        *,
        secret: bytes | None = None,
        salt: bytes | None = None,
    ) -> None:
        self.user = sasl_prep(username)
        self._secret = secret or secrets.token_bytes(32)
        self._salt = salt or self._derived_salt(self.user)
        prepared = sasl_prep(password).encode()
        self._password_digest = self._digest(prepared)
        # RFC 5802, part 3.
        salted = hashlib.pbkdf2_hmac(SERVER_HASH, prepared, self._salt, SERVER_ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", SERVER_HASH)
        self.stored_key = hashlib.new(SERVER_HASH, client_key).digest()
        self.server_key = hmac.digest(salted, b"Server Key", SERVER_HASH)

    def salt_of(self, name: str) -> bytes:
        """Return the salt for ``name``, known or not."""
        derived = self._derived_salt(name)
        return self._salt if self.knows(name) else derived

    def knows(self, name: str) -> bool:
        """Say in constant time whether ``name``, normalised by SASLprep, is the user."""
        return hmac.compare_digest(self._digest(name.encode()), self._digest(self.user.encode()))

    def user_of_password(self, name: bytes, password: bytes) -> str | None:
        """Return the user with this name and password, as the client sent them; None if wrong.

        It always compares both, as keyed digests, so the time tells neither a wrong name nor a
        length. SCRAM's iterations would cost the server's only thread many times what a connection
        costs, also for right passwords, which nothing delays.
        """
        try:
            known = self.knows(sasl_prep(name.decode()))
            digest = self._digest(sasl_prep(password.decode()).encode())
        except (UnicodeDecodeError, SecurityError):
            return None
        right = hmac.compare_digest(digest, self._password_digest)
        return self.user if known and right else None

    def _derived_salt(self, name: str) -> bytes:
        return self._digest(b"salt of " + name.encode())[:SALT_SIZE]

    def _digest(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, SERVER_HASH)


class ScramServer(ServerMechanism):
    """SCRAM-SHA-256 as a server, without channel binding.

    Args:
        credentials: the user to authenticate.
        nonce: this side's part of the nonce; None for a new one.
    """

    client_first = True

    def __init__(self, credentials: Credentials, nonce: str | None = None) -> None:
        super().__init__()
        self._credentials = credentials
        self._nonce = nonce or secrets.token_urlsafe(18)
        self._name = ""
        self._header = ""
        # Client-first-bare and server-first, joined: both sides sign this text.
        self._signed = ""

    def respond(self, response: bytes) -> bytes | None:
        """Answer the client's first message with a challenge, or judge its final message."""
        try:
            text = response.decode()
            if not self._signed:
                return self._challenge(text)
            self._judge(text)
        except (SecurityError, KeyError, ValueError):
            pass  # A malformed message is refused like a wrong password.
        return None

    def _challenge(self, text: str) -> bytes | None:
        """Return server-first for client-first: ``gs2-header,n=name,r=nonce`` (RFC 5802, 7)."""
        binding, authorization, bare = text.split(",", 2)
        fields = _scram_fields("SCRAM-SHA-256", bare.encode())
        # "p=" demands channel binding, which is not offered; "m" must be refused (5.1).
        if binding not in ("n", "y") or list(fields)[:2] != ["n", "r"] or not fields["r"]:
            return None
        # A client may not act for another user.
        if authorization not in ("", f"a={fields['n']}"):
            return None
        self._name = sasl_prep(_unescaped(fields["n"]))
        self._header = f"{binding},{authorization},"
        self._nonce = fields["r"] + self._nonce
        salt = base64.b64encode(self._credentials.salt_of(self._name)).decode()
        first = f"r={self._nonce},s={salt},i={SERVER_ITERATIONS}"
        self._signed = f"{bare},{first}"
        return first.encode()

    def _judge(self, text: str) -> None:
        """Judge client-final: ``c=binding,r=nonce,p=proof``."""
        without_proof, _, encoded = text.rpartition(",p=")
        fields = _scram_fields("SCRAM-SHA-256", without_proof.encode())
        binding = base64.b64decode(fields["c"], validate=True).decode()
        if binding != self._header or fields["r"] != self._nonce:
            return
        credentials = self._credentials
        message = f"{self._signed},{without_proof}".encode()
        signature = hmac.digest(credentials.stored_key, message, SERVER_HASH)
        client_key = _exclusive_or(base64.b64decode(encoded, validate=True), signature)
        proven = hashlib.new(SERVER_HASH, client_key).digest()
        right_proof = hmac.compare_digest(proven, credentials.stored_key)
        if not (credentials.knows(self._name) and right_proof):
            return
        self.user = credentials.user
        proof = hmac.digest(credentials.server_key, message, SERVER_HASH)
        self.additional = b"v=" + base64.b64encode(proof)


def _exclusive_or(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _unescaped(name: str) -> str:
    """Return a saslname without its escapes (RFC 5802, 5.1).

    Raises:
        ValueError: it has a ``=`` without a valid escape.
    """
    if "=" in name.replace("=2C", "").replace("=3D", ""):
        raise ValueError(name)
    return name.replace("=2C", ",").replace("=3D", "=")


def _scram_fields(name: str, message: bytes) -> dict[str, str]:
    try:
        items = message.decode().split(",")
        return dict(item.split("=", 1) for item in items)
    except ValueError:
        raise SecurityError(f"SASL {name}: malformed challenge") from None
