"""SASL as a server: the RFCs' examples, our client and a slow twin as the other end."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.errors import SecurityError
from quiver_fast.security.mechanism import ServerMechanism
from quiver_fast.security.sasl import make_server_mechanism, server_mechanisms
from quiver_fast.security.scram import Credentials, ScramClient, ScramServer

# The exchange printed in RFC 7677, part 3.
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = f"n,,n=user,r={CLIENT_NONCE}"
CHALLENGE = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={PROOF}"
VERDICT = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

PENCIL = Credentials("user", "pencil", salt=SALT)

# Texts that SASLprep does not change; RFC 4013's examples are tested with the client.
texts = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=12)
# Equal names and passwords by chance are what the twin must see too.
few = st.sampled_from(["user", "a=b,c", "=2C", "other"]) | texts


def rfc_server() -> ScramServer:
    return ScramServer(PENCIL, SERVER_NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    server = rfc_server()
    assert server.respond(FIRST.encode()) == CHALLENGE.encode()
    assert server.respond(FINAL.encode()) is None
    assert (server.user, server.additional) == ("user", VERDICT)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,r=nonce,n=user",
        b"n,,n=user,r=",
        b"n,,m=ext,n=user,r=nonce",
        b"p=tls-unique,,n=user,r=nonce",
        b"x,,n=user,r=nonce",
        b"n,a=other,n=user,r=nonce",
        b"n,user,n=user,r=nonce",
        b"n,,n=us=er,r=nonce",
        b"n,,n=\x07,r=nonce",
        b"n,,n=\xff,r=nonce",
    ],
)
def test_a_malformed_first_message_is_refused(first: bytes) -> None:
    server = rfc_server()
    assert server.respond(first) is None
    assert server.user is None


@pytest.mark.parametrize(
    "final",
    [
        "",
        FINAL.replace("biws", "eSws"),  # the header was "n,,", this says "y,,"
        FINAL.replace("biws", "*"),
        FINAL.replace(SERVER_NONCE, ""),
        FINAL.replace(f",p={PROOF}", ""),
        FINAL.replace(PROOF, "AAAA"),
        FINAL.replace(PROOF, ""),
        FINAL.replace(PROOF, "e" + PROOF[1:]),
        FINAL + "x",
        FINAL.replace(",p=", ",x=1,p="),  # an extension is signed too
    ],
)
def test_a_final_message_without_the_proof_is_refused(final: str) -> None:
    server = rfc_server()
    server.respond(FIRST.encode())
    assert server.respond(final.encode()) is None
    assert (server.user, server.additional) == (None, b"")


def test_an_authorization_for_oneself_is_taken() -> None:
    server = ScramServer(PENCIL)
    assert server.respond(b"n,a=user,n=user,r=nonce") is not None


def test_unknown_users_cannot_be_told_apart() -> None:
    """A challenge has the same form for all, and for one name always the same salt."""
    credentials = Credentials("user", "pencil")
    salts = {name: credentials.salt_of(name) for name in ("user", "nobody", "", "root")}
    assert {len(salt) for salt in salts.values()} == {16}
    assert len(set(salts.values())) == 4
    assert salts == {name: credentials.salt_of(name) for name in salts}
    assert Credentials("user", "pencil").salt_of("nobody") != salts["nobody"]


def twin_proof(password: str, salt: bytes, message: bytes) -> bytes:
    """RFC 5802, part 3, with Hi() written out."""

    def mac(key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, hashlib.sha256).digest()

    block = mac(password.encode(), salt + b"\0\0\0\1")
    salted = int.from_bytes(block, "big")
    for _ in range(4095):
        block = mac(password.encode(), block)
        salted ^= int.from_bytes(block, "big")
    client_key = mac(salted.to_bytes(32, "big"), b"Client Key")
    signature = mac(hashlib.sha256(client_key).digest(), message)
    return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))


@given(user=few, password=few, claimed=few, tried=few)
@settings(max_examples=40, deadline=None)
def test_scram_admits_exactly_who_knows_user_and_password(
    user: str, password: str, claimed: str, tried: str
) -> None:
    server = ScramServer(Credentials(user, password))
    name = claimed.replace("=", "=3D").replace(",", "=2C")
    challenge = server.respond(f"n,,n={name},r=nonce".encode())
    assert challenge is not None
    nonce, salt, _ = (part[2:] for part in challenge.decode().split(",", 2))
    without_proof = f"c=biws,r={nonce}"
    message = f"n={name},r=nonce,{challenge.decode()},{without_proof}".encode()
    proof = base64.b64encode(twin_proof(tried, base64.b64decode(salt), message)).decode()
    assert server.respond(f"{without_proof},p={proof}".encode()) is None
    known = (claimed, tried) == (user, password)
    assert server.user == (user if known else None)


@given(user=few, password=few)
@settings(max_examples=20, deadline=None)
def test_our_client_believes_our_server(user: str, password: str) -> None:
    server = ScramServer(Credentials(user, password))
    client = ScramClient("SCRAM-SHA-256", user, password)
    challenge = server.respond(client.initial)
    assert challenge is not None
    assert server.respond(client.respond(challenge)) is None
    client.finish(server.additional)


def plain(response: bytes, user: str = "tim", password: str = "pw") -> str | None:
    mechanism = make_server_mechanism(
        "PLAIN", credentials=Credentials(user, password), external=None
    )
    assert mechanism.respond(response) is None
    return mechanism.user


def test_plain_as_in_rfc_4616() -> None:
    assert plain(b"\0tim\0tanstaaftanstaaf", password="tanstaaftanstaaf") == "tim"
    assert plain(b"tim\0tim\0pw") == "tim"
    assert plain("\0j\u00fcrgen\0pass\u00a0w".encode(), "j\u00fcrgen", "pass w") == "j\u00fcrgen"


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\0tim",
        b"\0tim\0wrong",
        b"\0tam\0pw",
        b"a\0tim\0pw",
        b"a\0tim\0pw\0x",
        b"\0tim\0pw2",
        b"\0tim\0",
        b"\0\0",
        b"\0tim\0\xff",
        b"\0tim\0\x07",
    ],
)
def test_plain_refuses_everything_else(response: bytes) -> None:
    assert plain(response) is None


def offered(
    credentials: bool = True,
    external: bool = False,
    plain: bool = True,
    allowed: str | None = None,
) -> str:
    names = server_mechanisms(
        credentials=credentials,
        external=external,
        plain=plain,
        allowed=allowed.split() if allowed else None,
    )
    return " ".join(names)


def test_what_is_offered() -> None:
    assert offered(credentials=False) == "ANONYMOUS"
    assert offered(credentials=False, external=True) == "EXTERNAL ANONYMOUS"
    assert offered() == "SCRAM-SHA-256 PLAIN"
    assert offered(external=True) == "EXTERNAL SCRAM-SHA-256 PLAIN"
    assert offered(plain=False) == "SCRAM-SHA-256"
    assert offered(allowed="PLAIN") == "PLAIN"
    assert offered(allowed="PLAIN", plain=False) == ""
    assert offered(allowed="ANONYMOUS PLAIN") == "PLAIN"


def test_mechanisms_without_a_dialogue() -> None:
    anonymous = make_server_mechanism("ANONYMOUS", credentials=None, external=None)
    assert (anonymous.respond(b"trace"), anonymous.user) == (None, "anonymous")
    external = make_server_mechanism("EXTERNAL", credentials=None, external="CN=me")
    assert (external.respond(b""), external.user) == (None, "CN=me")
    with pytest.raises(SecurityError, match="no user is known"):
        make_server_mechanism("PLAIN", credentials=None, external=None)
    assert ServerMechanism().user is None


@pytest.mark.parametrize(("user", "password"), [("a\x07", "b"), ("a", "\u0221\x00")])
def test_credentials_that_no_client_could_send(user: str, password: str) -> None:
    with pytest.raises(SecurityError, match="prohibits"):
        Credentials(user, password)


@pytest.mark.parametrize(
    ("response", "user"),
    [(b"", "CN=a"), (b"CN=a", "CN=a"), (b"CN=b", None), (b"a", None), (b"\xff", None)],
)
def test_external_acts_for_nobody_else(response: bytes, user: str | None) -> None:
    """RFC 4422, appendix A: the response is the identity to act as."""
    server = make_server_mechanism("EXTERNAL", credentials=None, external="CN=a")
    assert server.respond(response) is None
    assert server.user == user
