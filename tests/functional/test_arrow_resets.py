"""Connections that are reset: earlier messages are kept, and the end of a timed run is an end.

Upstream's C arrow closes with outcomes unread and exits. Then the system resets the connection,
and the reset may overtake its close.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.arrows import run_at
from support.frame_peer import FramePeer
from support.judgement import assert_clean, assert_error
from support.network import reset
from support.processes import Finished
from support.scripted_peer import plain_message

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, encode_frame

SENT = 200
TARGET = composite("target", address="queue0")
CLOSE = encode_frame("close")
WARNING = "the connection was lost at the end of the run"


def transfers() -> bytes:
    return b"".join(
        encode_frame(
            "transfer", handle=0, delivery_id=number, delivery_tag=b"%d" % number,
            message_format=0, payload=plain_message(number),
        )
        for number in range(SENT)
    )  # fmt: skip


def fin(talk: Talk) -> None:
    talk.socket.close()


Leave = Callable[[Talk], None]


def rst(talk: Talk) -> None:
    reset(talk.socket)


def receive(leave: Leave, *, at_end: bool, last: bytes = b"", **keys: object) -> Finished:
    """Run a receiver whose peer sends, and then leaves with these last frames."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET)
        talk.wait_for_credit()
        talk.send_bytes(transfers())
        while at_end:
            frame = talk.read()
            if frame.name == "flow" and frame.fields.get("drain"):
                break
        talk.send_bytes(last)
        leave(talk)

    return run_at(FramePeer(script), "receive", **keys)


both_ways = pytest.mark.parametrize("leave", [fin, rst])


@both_ways
def test_a_receiver_at_the_end_of_its_time(leave: Leave) -> None:
    end = receive(leave, at_end=True, count=0, duration=1)
    assert end.code == 0
    assert len(end.lines) == SENT
    assert WARNING in end.stderr
    assert end.stderr.count("\n") == 1


@both_ways
def test_a_receiver_before_the_end_of_its_time(leave: Leave) -> None:
    end = receive(leave, at_end=False, count=0, duration=30)
    assert_error(end, "connection")
    assert "lost" in end.stderr or "cut" in end.stderr
    assert len(end.lines) == SENT


@both_ways
@pytest.mark.parametrize("keys", [{"duration": 1}, {"duration": 0}], ids=["timed", "endless"])
def test_a_close_that_a_reset_follows_is_a_close(leave: Leave, keys: dict[str, int]) -> None:
    timed = keys["duration"] > 0
    end = receive(leave, at_end=timed, last=CLOSE, count=0, **keys)
    assert_clean(end)
    assert len(end.lines) == SENT


@both_ways
def test_a_sender_at_the_end_of_its_time(leave: Leave) -> None:
    """The peer reads all and settles nothing."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET)
        talk.send(
            "flow", next_incoming_id=0, incoming_window=1000, next_outgoing_id=0,
            outgoing_window=0, handle=0, delivery_count=0, link_credit=10,
        )  # fmt: skip
        talk.expect("transfer")
        time.sleep(1.1)
        leave(talk)

    end = run_at(FramePeer(script), "send", count=0, duration=1)
    assert end.code == 0
    assert WARNING in end.stderr


@pytest.mark.parametrize("name", ["close", "end", "detach"])
def test_the_facts_of_an_error_are_shown(name: str) -> None:
    """A redirect says where to, in the condition's info (parts 2.8.16 and 2.8.18)."""
    facts = {"network-host": Value("string", "other.example"), "port": Value("uint", 5673)}
    info = Value("map", tuple((Value("symbol", key), each) for key, each in facts.items()))
    error = composite("error", condition="amqp:test:redirect", description="go on", info=info)
    fields = {"handle": 0, "closed": True} if name == "detach" else {}

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET)
        talk.send(name, error=error, **fields)
        talk.read_until("close")

    end = run_at(FramePeer(script), "receive")
    assert_error(end, 'redirect: go on (network-host "other.example", port 5673)')
