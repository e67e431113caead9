"""A peer that ends link, session and connection: its first error is printed."""

from __future__ import annotations

import fcntl
import socket
import termios
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from support.arrows import run_at
from support.frame_peer import FramePeer, ended, failure
from support.judgement import assert_clean, assert_error
from support.network import TcpServer
from support.scripted_peer import plain_message

from quiver_fast.cli.arrow.command import main as arrow
from quiver_fast.cli.pair.command import main as quiver
from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.frames import composite, encode_frame
from quiver_fast.errors import PeerError
from quiver_fast.management.queues import QueueManager
from quiver_fast.security.security import Security

BOTH = pytest.mark.parametrize("operation", ["send", "receive"])
# A race has more than one way to end.
TURNS = pytest.mark.parametrize(
    "turn", [0, 1, *(pytest.param(turn, marks=pytest.mark.slow) for turn in range(2, 5))]
)
TARGET = composite("target", address="queue0")
DATA = plain_message(1)


def begin_run(talk: Talk, **termini: object) -> None:
    """Answer up to the attach, and let the arrow begin to transfer."""
    talk.answer_session()
    attach = talk.answer_attach(**{"target": TARGET, **termini})  # type: ignore[arg-type]
    if attach.fields.get("role"):
        talk.wait_for_credit()
        for number in range(5):
            talk.transfer(number, DATA, settled=True)
    else:
        talk.give_credit(100)
        talk.expect("transfer")


@BOTH
@pytest.mark.parametrize(
    "frames",
    [
        ("detach", "end", "close"),
        ("detach", "close"),
        ("detach", "end"),
        ("end", "close"),
        ("close",),
    ],
)
def test_all_in_one_read(operation: str, frames: tuple[str, ...]) -> None:
    def script(talk: Talk) -> None:
        begin_run(talk)
        talk.send_bytes(ended(*frames))
        talk.read_until("close")

    end = run_at(FramePeer(script), operation, count=1_000_000)
    assert_error(end, f"test:{frames[0]}", f"by {frames[0]}")
    assert not any(f"test:{name}" in end.stderr for name in frames[1:])


@BOTH
def test_messages_and_the_end_in_one_read(operation: str) -> None:
    """Messages before the detach count: five are recorded, five are accepted."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET)
        if operation == "receive":
            talk.wait_for_credit()
            transfers = b"".join(
                encode_frame(
                    "transfer", handle=0, delivery_id=number, delivery_tag=b"%d" % number,
                    message_format=0, settled=True, payload=DATA,
                )
                for number in range(5)
            )  # fmt: skip
            talk.send_bytes(transfers + ended("detach", "end", "close"))
        else:
            talk.give_credit(5)
            for _ in range(5):
                talk.expect("transfer")
            accepted = encode_frame(
                "disposition", role=True, first=0, last=4, settled=True,
                state=composite("accepted"),
            )  # fmt: skip
            talk.send_bytes(accepted + ended("detach", "end", "close"))
        talk.read_until("close")

    end = run_at(FramePeer(script), operation, count=1_000_000)
    assert_error(end, "test:detach")
    assert len(end.lines) == 5


@BOTH
def test_the_detach_first_and_the_rest_later(operation: str) -> None:
    def script(talk: Talk) -> None:
        begin_run(talk)
        talk.send_bytes(ended("detach"))
        talk.read_until("close")
        talk.send_bytes(ended("end", "close"))

    end = run_at(FramePeer(script), operation, count=1_000_000)
    assert_error(end, "test:detach")
    assert "test:end" not in end.stderr


@BOTH
@pytest.mark.parametrize("frames", [("detach", "end", "close"), ("end", "close"), ("close",)])
def test_while_attaching(operation: str, frames: tuple[str, ...]) -> None:
    """The peer answers the attach with nothing, or refuses it and then all the rest."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        if frames[0] == "detach":
            talk.answer_attach(source=composite("source"))
        else:
            talk.expect("attach")
        talk.send_bytes(ended(*frames))
        talk.read_until("close")

    end = run_at(FramePeer(script), operation)
    assert_error(end, f"test:{frames[0]}", f"by {frames[0]}")


@BOTH
def test_a_refusal_without_a_reason(operation: str) -> None:
    """AMQP 1.0 part 2.6.3: a null terminus and a detach, here in two writes and no error."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        attach = talk.expect("attach")
        termini = {"source": None, "target": None}
        talk.send(
            "attach", name=attach.fields["name"], handle=0, initial_delivery_count=0,
            role=not attach.fields.get("role"), **termini,
        )  # fmt: skip
        talk.send("detach", handle=0, closed=True)
        talk.read_until("close")

    end = run_at(FramePeer(script), operation, count=0, duration=60)
    assert_error(end, "refused the link", "queue0")


# -- transactions


@BOTH
@pytest.mark.parametrize("how", ["detach", "end", "close"])
def test_a_coordinator_that_is_refused(operation: str, how: str) -> None:
    """By a detach; or as brokers without transactions do it, by the session or connection."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET)
        if how == "detach":
            talk.answer_attach(handle=1, target=composite("target"))
            talk.send("detach", handle=1, closed=True, error=failure("detach"))
        else:
            talk.expect("attach")
            talk.send_bytes(ended(*(("end", "close") if how == "end" else ("close",))))
        talk.read_until("close")

    end = run_at(FramePeer(script), operation, transaction_size=10)
    assert_error(end, "the peer has no transaction coordinator", f"test:{how}", f"by {how}")
    assert end.seconds < 8


# -- a source or target without an address


@pytest.mark.parametrize(
    "fields", [{}, {"durable": 0, "expiry_policy": "session-end", "timeout": 0}]
)
def test_a_receiver_takes_a_source_without_an_address(fields: dict[str, object]) -> None:
    def script(talk: Talk) -> None:
        begin_run(talk, source=composite("source", **fields))
        talk.read_until("close")

    end = run_at(FramePeer(script), "receive", count=5)
    assert_clean(end)
    assert len(end.lines) == 5


@pytest.mark.parametrize(
    "fields", [{}, {"durable": 0, "expiry_policy": "session-end", "timeout": 0}]
)
def test_a_sender_takes_a_target_without_an_address(fields: dict[str, object]) -> None:
    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=composite("target", **fields))
        talk.give_credit(5)
        for _ in range(5):
            talk.expect("transfer")
        talk.send(
            "disposition", role=True, first=0, last=4, settled=True, state=composite("accepted")
        )
        talk.read_until("close")

    end = run_at(FramePeer(script), "send", count=5)
    assert_clean(end)
    assert len(end.lines) == 5


def wait_until_delivered(connection: socket.socket) -> None:
    """Wait until the other side's system has all that was sent: a reset drops the rest."""
    queued = array("i", [1])
    while queued[0]:
        fcntl.ioctl(connection, termios.TIOCOUTQ, queued)
        time.sleep(0.001)


@TURNS
def test_a_close_and_a_reset_in_the_midst_of_receiving(turn: int) -> None:
    """Accepting the messages fails; all are recorded, and the peer's reason to close is printed."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET)
        talk.wait_for_credit()
        for number in range(40):
            talk.transfer(number, DATA, settled=False)
        talk.send_bytes(ended("close"))
        wait_until_delivered(talk.socket)
        # What it has not read makes a reset of this.
        talk.socket.close()

    end = run_at(FramePeer(script), "receive", count=1_000_000)
    assert_error(end, "test:close", "by close")
    assert len(end.lines) == 40


@TURNS
def test_a_close_and_a_reset_in_the_midst_of_sending(turn: int) -> None:
    """Writing fails first; why the peer closed is there to be read all the same."""

    def script(talk: Talk) -> None:
        begin_run(talk)
        talk.give_credit(1_000_000)
        talk.send_bytes(ended("close"))
        # What it has not read makes a reset of this.
        talk.socket.close()

    end = run_at(FramePeer(script), "send", count=1_000_000)
    assert_error(end, "test:close", "by close")


# -- A refusal that begins with an open (Broker-J: max-frame-size 0)


def refuse_by_open(size: int, *, apart: bool) -> Callable[[Talk], None]:
    """Return the script of a peer that refuses a connection by an open and a close."""

    def script(talk: Talk) -> None:
        talk.answer_header()
        talk.expect("open")
        frames = (encode_frame("open", container_id="", max_frame_size=size), ended("close"))
        if not apart:
            talk.send_bytes(b"".join(frames))
        else:
            talk.send_bytes(frames[0])
            # The client reads the open before the close comes: it has no answer to it.
            wait_until_read(talk.socket)
            talk.send_bytes(frames[1])
        talk.read_to_end()

    return script


def wait_until_read(sock: socket.socket) -> None:
    """Return when the peer's system has all bytes."""
    left = array("i", [1])
    while left[0]:
        fcntl.ioctl(sock, termios.TIOCOUTQ, left)


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("size", [0, 511])
@BOTH
def test_the_close_after_an_unfit_open_is_told(operation: str, size: int, apart: bool) -> None:
    end = run_at(FramePeer(refuse_by_open(size, apart=apart)), operation)
    assert_error(end, "the peer closed the connection: test:close: by close")


@BOTH
def test_another_frame_after_an_unfit_open_is_refused(operation: str) -> None:
    def script(talk: Talk) -> None:
        talk.answer_header()
        talk.expect("open")
        begin = encode_frame("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9)
        talk.send_bytes(encode_frame("open", container_id="", max_frame_size=0) + begin)
        talk.read_until("close")

    end = run_at(FramePeer(script), operation)
    assert_error(end, "amqp:invalid-field")


def test_an_unfit_open_without_a_close_is_told() -> None:
    def script(talk: Talk) -> None:
        talk.answer_header()
        talk.expect("open")
        talk.send_bytes(encode_frame("open", container_id="", max_frame_size=0))
        talk.read_until("close")

    refused = pytest.raises(PeerError, match="the max-frame-size in the peer's open is below 512")
    with FramePeer(script) as peer, refused:
        QueueManager("127.0.0.1", peer.port, Security(), 0.5)


@pytest.mark.parametrize(
    "words",
    [
        ("-c", "5"),
        ("-c", "5", "--senders", "2"),
        ("--hold", "1", "-d", "1"),
        ("--churn", "1", "-d", "1"),
        ("--churn", "1", "--churn-of", "link", "-d", "1"),
    ],
    ids=["pair", "senders", "hold", "churn", "links"],
)
def test_a_time_out_after_an_unfit_open_tells_it(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(connection: socket.socket) -> None:
        talk = Talk(connection)
        talk.answer_header()
        talk.expect("open")
        talk.send_bytes(encode_frame("open", container_id="", max_frame_size=100))
        talk.read_to_end()

    with TcpServer(serve) as server:
        url = f"amqp://127.0.0.1:{server.port}/q0"
        assert quiver([url, *words, "--timeout", "1", "--output", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "the max-frame-size in the peer's open is below 512" in said
    assert "open the connection" not in said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (quiver, ("--hold", "1", "-d", "1")),
        (quiver, ("--churn", "1", "-d", "1")),
        (quiver, ("--churn", "1", "--churn-of", "link", "-d", "1")),
        (arrow, ("send", "--declare", "-c", "1")),
    ],
    ids=["hold", "churn", "links", "declare"],
)
def test_other_commands_tell_the_close_after_an_unfit_open(
    command: Callable[[list[str]], int], words: tuple[str, ...], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def serve(connection: socket.socket) -> None:
        refuse_by_open(0, apart=False)(Talk(connection))

    with TcpServer(serve) as server:
        url = f"amqp://127.0.0.1:{server.port}/q0"
        operation, options = words[: words[0] == "send"], words[words[0] == "send" :]
        assert command([*operation, url, *options, "--output", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "closed the connection: test:close: by close" in said.splitlines()[-1]
    assert "were lost" not in said
