"""SASL as a client, of the arrow and of a server that connects to another: a peer that breaks it.

A client takes no frame of AMQP before an outcome that it has judged (AMQP 1.0 part 5.3.2).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast
from support.frame_peer import SECONDS, FramePeer
from support.judgement import assert_error
from support.processes import Running
from support.server import running_server

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.client import FrameClient, read_exactly
from quiver_fast.conform.wire.codec import symbols
from quiver_fast.conform.wire.frames import AMQP_HEADER, SASL_HEADER, composite, encode_frame, frame
from quiver_fast.security.scram import ScramServer

USER, PASSWORD = "alice", "correct horse"
Script = Callable[[Talk], None]

OPENED = [
    encode_frame("open", container_id="x", offered_capabilities=symbols("quiver.trunk")),
    encode_frame("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9),
    encode_frame("attach", name="x", handle=0, role=False, initial_delivery_count=0),
]
MECHANISMS = encode_frame("sasl_mechanisms", sasl_server_mechanisms=["SCRAM-SHA-256"])
PLAIN = encode_frame("sasl_mechanisms", sasl_server_mechanisms=["PLAIN"])
# The descriptor of a begin.
BEGIN = b"\x00\x53\x11"
OUTCOME = encode_frame("sasl_outcome", code=0)


def header(talk: Talk) -> None:
    assert read_exactly(talk.socket, 8) == SASL_HEADER
    talk.send_bytes(SASL_HEADER)


def init(talk: Talk) -> bytes:
    """Offer SCRAM, and return the client's first message."""
    header(talk)
    talk.send_bytes(MECHANISMS)
    first: bytes = talk.expect("sasl_init").fields["initial_response"]
    return first


def challenged(talk: Talk, iterations: object = 4096) -> None:
    """Challenge the client as a server does that does not know the password."""
    nonce = init(talk).partition(b"r=")[2]
    salt = base64.b64encode(b"salt")
    first = b"r=%sx,s=%s,i=%s" % (nonce, salt, str(iterations).encode())
    talk.send("sasl_challenge", challenge=first)


def impostor(talk: Talk) -> None:
    challenged(talk)
    talk.expect("sasl_response")


def passed(talk: Talk) -> None:
    """Authenticate the client as it asks for, up to the open frame."""
    header(talk)
    talk.send_bytes(PLAIN)
    talk.expect("sasl_init")
    talk.send_bytes(OUTCOME)
    assert read_exactly(talk.socket, 8) == AMQP_HEADER
    talk.send_bytes(AMQP_HEADER)
    talk.expect("open")
    talk.send("open", container_id="x")


def frames_within_sasl(talk: Talk) -> None:
    header(talk)
    talk.send_bytes(b"".join(OPENED))


def frames_after_init(talk: Talk) -> None:
    init(talk)
    talk.send_bytes(b"".join(OPENED))


def frames_before_any_header(talk: Talk) -> None:
    talk.send_bytes(b"".join(OPENED))


def no_sasl(talk: Talk) -> None:
    talk.send_bytes(AMQP_HEADER + b"".join(OPENED))


def no_outcome(talk: Talk) -> None:
    init(talk)
    talk.send_bytes(AMQP_HEADER + b"".join(OPENED))


def no_mechanisms(talk: Talk) -> None:
    header(talk)
    talk.send_bytes(OUTCOME + AMQP_HEADER + b"".join(OPENED))


def no_proof(talk: Talk) -> None:
    init(talk)
    talk.send_bytes(OUTCOME + AMQP_HEADER + b"".join(OPENED))


def no_proof_after_the_challenge(talk: Talk) -> None:
    impostor(talk)
    talk.send_bytes(OUTCOME + AMQP_HEADER + b"".join(OPENED))


def a_false_proof(talk: Talk) -> None:
    impostor(talk)
    proof = b"v=" + base64.b64encode(b"x" * 32)
    talk.send("sasl_outcome", code=0, additional_data=proof)
    talk.send_bytes(AMQP_HEADER + b"".join(OPENED))


def an_empty_proof(talk: Talk) -> None:
    impostor(talk)
    talk.send("sasl_challenge", challenge=b"v=")
    talk.send_bytes(OUTCOME + AMQP_HEADER + b"".join(OPENED))


def mechanisms_twice(talk: Talk) -> None:
    init(talk)
    talk.send_bytes(PLAIN + OUTCOME + AMQP_HEADER + b"".join(OPENED))


def an_outcome_twice(talk: Talk) -> None:
    header(talk)
    talk.send_bytes(PLAIN)
    talk.expect("sasl_init")
    talk.send_bytes(OUTCOME + OUTCOME + AMQP_HEADER + b"".join(OPENED))


def a_challenge_after_the_outcome(talk: Talk) -> None:
    header(talk)
    talk.send_bytes(PLAIN)
    talk.expect("sasl_init")
    late = encode_frame("sasl_challenge", challenge=b"x")
    talk.send_bytes(OUTCOME + late + AMQP_HEADER + b"".join(OPENED))


def a_challenge_before_the_mechanisms(talk: Talk) -> None:
    header(talk)
    talk.send("sasl_challenge", challenge=b"x")


def a_header_twice(talk: Talk) -> None:
    header(talk)
    talk.send_bytes(SASL_HEADER + MECHANISMS)


def an_empty_frame(talk: Talk) -> None:
    header(talk)
    talk.send_bytes(frame(b"", kind=1))


def a_large_frame(talk: Talk) -> None:
    """Part 5.3.1: at most 512 bytes."""
    header(talk)
    names = [f"NONE-{number}" for number in range(100)]
    talk.send("sasl_mechanisms", sasl_server_mechanisms=[*names, "PLAIN"])


def a_frame_of_the_client(talk: Talk) -> None:
    header(talk)
    talk.send("sasl_init", mechanism="PLAIN", initial_response=b"")


def many_iterations(talk: Talk) -> None:
    challenged(talk, 10_000_000)


def iterations_of_many_digits(talk: Talk) -> None:
    challenged(talk, "9" * 300)


def sasl_among_frames(name: str, **fields: object) -> Script:
    def script(talk: Talk) -> None:
        passed(talk)
        talk.send_bytes(encode_frame(name, **fields))

    script.__name__ = f"{name} among frames"
    return script


SCRIPTS: list[Script] = [
    frames_within_sasl,
    frames_after_init,
    frames_before_any_header,
    no_sasl,
    no_outcome,
    no_mechanisms,
    no_proof,
    no_proof_after_the_challenge,
    a_false_proof,
    an_empty_proof,
    mechanisms_twice,
    an_outcome_twice,
    a_challenge_after_the_outcome,
    a_challenge_before_the_mechanisms,
    a_header_twice,
    an_empty_frame,
    a_large_frame,
    a_frame_of_the_client,
    many_iterations,
    iterations_of_many_digits,
    sasl_among_frames("sasl_outcome", code=0),
    sasl_among_frames("sasl_challenge", challenge=b"x"),
    sasl_among_frames("sasl_mechanisms", sasl_server_mechanisms=["PLAIN"]),
]
EACH = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)


def to_the_end(script: Script, said: list[bytes]) -> Script:
    """Let the client end the connection; note what it says."""

    def speak(talk: Talk) -> None:
        script(talk)
        talk.socket.settimeout(SECONDS)
        try:
            while data := talk.socket.recv(65536):
                said.append(data)
        except ConnectionError:
            pass

    return speak


@EACH
def test_a_server_gives_such_a_peer_up(script: Script, tmp_path: Path) -> None:
    said: list[bytes] = []
    with FramePeer(to_the_end(script, said)) as peer:
        keys = {"connect": f"127.0.0.1:{peer.port}", "connect_user": USER, "handshake_timeout": 60}
        with running_server(tmp_path, says=None, connect_password=PASSWORD, **keys) as server:
            peer.join()
            with FrameClient(server.port) as client:
                client.open()
    assert_no_session(said)


@EACH
def test_an_arrow_gives_such_a_peer_up(script: Script) -> None:
    said: list[bytes] = []
    with FramePeer(to_the_end(script, said)) as peer:
        words = arguments("send", peer.port, username=USER, password=PASSWORD, count=1)
        with Running(pyfast(*words)) as running:
            finished = running.wait()
            peer.join()
    assert_error(finished, f"127.0.0.1:{peer.port}")
    if "among" not in script.__name__:
        assert_no_session(said)


def assert_no_session(said: list[bytes]) -> None:
    """Assert that no begin was sent: nothing was taken as the peer's open."""
    assert BEGIN not in b"".join(said)


def test_the_same_dialogue_in_order_is_taken() -> None:
    """The outcome carries the proof (RFC 4422, 3.6)."""
    from quiver_fast.security.scram import Credentials

    opened: list[bool] = []

    def script(talk: Talk) -> None:
        scram = ScramServer(Credentials(USER, PASSWORD))
        talk.send("sasl_challenge", challenge=scram.respond(init(talk)))
        assert scram.respond(talk.expect("sasl_response").fields["response"]) is None
        talk.send("sasl_outcome", code=0, additional_data=scram.additional)
        assert read_exactly(talk.socket, 8) == AMQP_HEADER
        talk.send_bytes(AMQP_HEADER)
        talk.expect("open")
        opened.append(True)

    with FramePeer(script) as peer:
        words = arguments("send", peer.port, username=USER, password=PASSWORD, count=1)
        with Running(pyfast(*words)) as running:
            running.wait()
    assert opened


def test_a_peers_words_reach_no_terminal() -> None:
    """Its error is printed with control characters escaped."""

    def script(talk: Talk) -> None:
        passed(talk)
        error = composite("error", condition="amqp:x", description="\x1b[2J\u009b2J\u202eup")
        talk.send("close", error=error)

    with FramePeer(script) as peer:
        words = arguments("send", peer.port, username=USER, password=PASSWORD, count=1)
        with Running(pyfast(*words)) as running:
            finished = running.wait()
    assert_error(finished, r"\x1b[2J\x9b2J\u202eup")
    assert finished.stderr.rstrip("\n").isprintable()
