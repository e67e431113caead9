"""Cases of security: SASL and TLS (part 5)."""

from __future__ import annotations

from quiver_fast.conform.case import MUST, SHOULD, Unobservable, check, rows, server
from quiver_fast.conform.cases.messages import next_or_end
from quiver_fast.conform.mutation import added, changed, dropped, header, held
from quiver_fast.conform.server import Server, preparing
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import encode
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    Frame,
    composite,
    encode_frame,
    frame,
)
from quiver_fast.errors import SecurityError
from quiver_fast.security.scram import SCRAM_HASHES, ScramClient

TLS_HEADER = b"AMQP\x02\x01\x00\x00"
WRONG = b"\0quiver-conform\0wrong"
OPEN = encode_frame("open", container_id="quiver-conform")
BEGIN = encode_frame("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9)


def offered(server: Server, name: str = "") -> None:
    names = server.facts.mechanisms
    if not names:
        raise Unobservable("it answers SASL by AMQP")
    if name and name not in names:
        raise Unobservable(f"it does not offer {name}")


def asked(server: Server, name: str = "") -> FrameClient:
    """Connect, up to the mechanisms that it offers."""
    offered(server, name)
    peer = server.connect()
    with preparing("begin SASL"):
        peer.exchange_header(SASL_HEADER)
        peer.expect("sasl_mechanisms")
    return peer


def refused(frames: list[Frame]) -> None:
    """Judge that no outcome among frames lets the client in."""
    codes = [one.fields["code"] for one in frames if one.name == "sasl_outcome"]
    check(0 not in codes, "an outcome with a code other than 0, or none", f"codes {codes}")


# -- headers


@server("5.3/1", MUST, dropped("sasl_mechanisms"))
def sasl_header(server: Server) -> None:
    """The header of SASL is answered by the same header; then the server begins."""
    offered(server)
    peer = server.connect()
    peer.send_bytes(SASL_HEADER)
    peer.header(SASL_HEADER)
    peer.expect("sasl_mechanisms")


@server("5.3/2", SHOULD, held(), "users")
def no_way_around(server: Server) -> None:
    """Where a user is needed, a connection without SASL gets a header and no session, and ends."""
    if "ANONYMOUS" in server.facts.mechanisms or not server.facts.mechanisms:
        raise Unobservable("it takes clients without a user")
    peer = server.connect()
    peer.send_bytes(AMQP_HEADER)
    # A protocol id that it accepts (part 2.2); an open in clear may be refused with a reason.
    peer.header(AMQP_HEADER, SASL_HEADER, TLS_HEADER)
    if server.trace[-1].fields["protocol"] == AMQP_HEADER[4]:
        peer.send_bytes(OPEN + BEGIN)
    found = [one for one in peer.ended() if one.name == "begin"]
    check(found == [], "the end of the connection", "begin")


@server("5.3.3.5/1", MUST, header(SASL_HEADER))
def headers_again(server: Server) -> None:
    """After the outcome ok both sides send a header again, that of AMQP."""
    peer = server.authenticated()
    peer.send_bytes(AMQP_HEADER)
    peer.header(AMQP_HEADER)


@server("5.2/1", MUST, held())
def tls_header(server: Server) -> None:
    """The header of TLS is answered by the same, or by a supported one and the end."""
    if server.target.tls:
        raise Unobservable("TLS began with the connection")
    peer = server.connect()
    peer.send_bytes(TLS_HEADER)
    peer.header(TLS_HEADER, AMQP_HEADER, SASL_HEADER)
    if server.trace[-1].fields["protocol"] != TLS_HEADER[4]:
        peer.ended()


@server("5.2.1/1", SHOULD, held(), "tls")
def nothing_in_clear(server: Server) -> None:
    """A port that begins with TLS ends a connection that does not, and says nothing in clear."""
    target = server.target
    for first in (AMQP_HEADER, SASL_HEADER):
        with FrameClient(target.port, target.host, target.patience) as peer:
            peer.trace = server.trace
            peer.send_bytes(first)
            check(peer.ended() == [], "the end of the connection", "frames")


# -- the dialogue


@server("5.3.3.1/1", MUST, changed("sasl_mechanisms", sasl_server_mechanisms=None))
def mechanisms(server: Server) -> None:
    """The server's first frame has its mechanisms, at least one."""
    offered(server)
    peer = server.connect()
    with preparing("begin SASL"):
        peer.exchange_header(SASL_HEADER)
    peer.expect("sasl_mechanisms", sasl_server_mechanisms=bool)


@server("5.3.1/6", SHOULD, changed("sasl_mechanisms", channel=1))
def zero_bytes(server: Server) -> None:
    """The bytes 6 and 7 of its SASL frames are 0."""
    asked(server)
    channels = [one.channel for one in server.trace if not one.sent]
    check(set(channels) == {0}, "bytes of 0", channels)


@server("5.3.1/1", MUST, changed("sasl_outcome", code=1))
def ignored_bytes(server: Server) -> None:
    """Bytes 6 and 7 and the extended header of a SASL frame are ignored."""
    peer = asked(server, "ANONYMOUS")
    init = encode(composite("sasl_init", mechanism="ANONYMOUS", initial_response=b"x"))
    size = (16 + len(init)).to_bytes(4, "big")
    peer.send_bytes(size + bytes((4, 1, 0, 77)) + b"extended" + init)
    peer.expect("sasl_outcome", code=0)


@server("5.3.1/2", SHOULD, held(), "users",
        doubt="tokens are longer than that, so that many servers take such frames")  # fmt: skip
def large_frame(server: Server) -> None:
    """A SASL frame of more than 512 bytes is refused."""
    peer = asked(server, "PLAIN")
    secret = f"\0{server.target.user}\0{server.target.password}".encode()
    peer.send("sasl_init", mechanism="PLAIN", initial_response=secret, hostname="h" * 600)
    refused(peer.ended())


@server("5.3.1/3", SHOULD, held())
def empty_frame(server: Server) -> None:
    """An empty SASL frame ends the connection."""
    peer = asked(server)
    peer.send_bytes(frame(b"", kind=1))
    refused(peer.ended())


@server("5.3.1/5", SHOULD, dropped("close"))
def not_due_any_more(server: Server) -> None:
    """Frames of SASL behind the open end the connection by a close with an error."""
    offered(server)
    first, last = {"mechanism": "PLAIN"}, {"code": 0}
    for name, fields in (("init", first), ("response", {}), ("outcome", last)):
        peer = server.opened()
        peer.send(f"sasl_{name}", **fields)
        peer.refused("close")


@server("5.3.3.2/1", MUST, changed("sasl_outcome", code=0))
def not_offered(server: Server) -> None:
    """A mechanism that is not offered is refused."""
    offered(server)
    for name in {"X-QUIVER-NONE", "ANONYMOUS", "EXTERNAL"} - {*server.facts.mechanisms}:
        peer = asked(server)
        peer.send("sasl_init", mechanism=name, initial_response=b"x")
        found = next_or_end(peer, "sasl_outcome")
        check(found is None or found.fields["code"] != 0, "a code other than 0", found)


@rows(server, MUST, held(), "users", table={
    "5.3.3.6/1": ("Wrong credentials get an outcome that is not ok.", False,
                  changed("sasl_outcome", code=0)),
    "5.1/1": ("After an outcome that is not ok the connection ends.", True),
})  # fmt: skip
def wrong_credentials(server: Server, to_the_end: bool) -> None:
    for secret in (f"\0{server.target.user}\0wrong".encode(), WRONG):
        peer = asked(server, "PLAIN")
        peer.send("sasl_init", mechanism="PLAIN", initial_response=secret)
        found = peer.expect("sasl_outcome").fields["code"]
        check(found != 0, "a code other than 0", found)
        if to_the_end:
            peer.ended()


@rows(server, MUST, dropped("sasl_challenge"), "users", "scram", table={
    "5.3.2/1": ("A dialogue of SCRAM has a challenge, a response and an outcome.", False),
    "5.3.3.6/2": ("The server proves by SCRAM that it knows the password.", True,
                  changed("sasl_outcome", additional_data=b"v=AAAA")),
})  # fmt: skip
def scram(server: Server, proved: bool) -> None:
    name = next(one for one in SCRAM_HASHES if one in server.facts.mechanisms)
    own = ScramClient(name, server.target.user or "", server.target.password or "")
    peer, outcome = asked(server), None
    peer.send("sasl_init", mechanism=name, initial_response=own.initial)
    challenge = peer.expect("sasl_challenge").fields["challenge"]
    peer.send("sasl_response", response=own.respond(challenge))
    outcome = peer.expect("sasl_outcome", code=0)
    if proved:
        try:
            own.finish(outcome.fields.get("additional_data", b""))
        except SecurityError as error:
            check(False, "a proof", str(error))


# The last one: a server may lose a thread to it, with all connections of that thread.
@server("5.3.1/4", MUST, added("sasl_mechanisms", "open", container_id="early"))
def not_due(server: Server) -> None:
    """Frames of AMQP before the outcome are not answered."""
    peer = asked(server)
    peer.send_bytes(OPEN + BEGIN)
    peer.nothing("open", "begin")
