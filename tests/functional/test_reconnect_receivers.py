"""Receivers that go on after a lost connection: what comes again, what is counted, the drain."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.control import controlled
from support.frame_peer import SECONDS
from support.lasting import (
    PREFIX,
    finish,
    finished,
    lasting,
    lives,
)
from support.network import reset
from support.processes import Running
from support.scripted_peer import plain_message

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.frames import Frame, composite, encode_frame


def rst(talk: Talk) -> None:
    reset(talk.socket)


def test_a_receiver_takes_what_comes_again(tmp_path: Path) -> None:
    """Its half message is dropped, and all records are before the loss or after the return."""

    def message(number: int) -> bytes:
        return plain_message(number, f"{PREFIX}{number}")

    def served(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=composite("target"))
        talk.wait_for_credit()

    def first(talk: Talk) -> None:
        served(talk)
        for number in range(3):
            talk.transfer(number, message(number + 1))
        talk.transfer(3, message(4)[:20], more=True)
        talk.expect("disposition")
        rst(talk)

    def second(talk: Talk) -> None:
        served(talk)
        for number in range(6):
            talk.transfer(number, message(number + 2))
        finish(talk)

    report = tmp_path / "report"
    with (
        lives(first, second) as peer,
        Running(lasting("receive", peer.port, report, count=9)) as running,
    ):
        found = finished(running, report, sends=False)
    assert found.ledger.received == {"1": 1, "2": 2, "3": 2, "4": 1, "5": 1, "6": 1, "7": 1}
    (failure,) = found.failures
    assert failure["in_doubt"] == []
    stamps = [int(line.split(",")[2]) * 10**6 for line in found.end.stdout.splitlines()]
    assert all(stamp <= failure["lost_at"] for stamp in stamps[:3])
    assert all(stamp >= failure["back_at"] for stamp in stamps[3:])


def received(talk: Talk) -> None:
    """Answer a receiver as far as its credit."""
    talk.answer_session()
    talk.answer_attach(target=composite("target"))
    talk.wait_for_credit()


@pytest.mark.parametrize("streaming", [0, 1])
def test_a_receiver_goes_on_after_an_aborted_delivery_and_a_close(
    streaming: int, tmp_path: Path
) -> None:
    def message(number: int) -> bytes:
        return plain_message(number, f"{PREFIX}{number}")

    def first(talk: Talk) -> None:
        received(talk)
        talk.transfer(0, message(1))
        talk.transfer(1, message(2)[:20], more=True)
        talk.transfer(1, b"", aborted=True)
        talk.expect("disposition")
        talk.send_bytes(encode_frame("close"))
        talk.read_until("close")

    def second(talk: Talk) -> None:
        received(talk)
        talk.transfer(0, message(2))
        finish(talk)

    report = tmp_path / "report"
    with (
        lives(first, second) as peer,
        Running(lasting("receive", peer.port, report, count=2, streaming=streaming)) as running,
    ):
        found = finished(running, report, sends=False)
    assert found.ledger.received == {"1": 1, "2": 1}
    assert (found.report["aborted"], len(found.failures)) == (1, 1)


@pytest.mark.parametrize(("kind", "told"), [("reject", "rejected"), ("release", "released")])
def test_an_outcome_that_was_not_sent_is_not_counted(kind: str, told: str, tmp_path: Path) -> None:
    """The connection is lost while the receiver works on a message that it was to refuse."""
    answers: list[object] = []

    def message(number: int) -> bytes:
        return plain_message(number, f"{PREFIX}{number}")

    def first(talk: Talk) -> None:
        received(talk)
        for number in range(2):
            talk.transfer(number, message(number + 1))
        talk.expect("disposition")
        rst(talk)

    def second(talk: Talk) -> None:
        received(talk)
        for number in range(2):
            talk.transfer(number, message(number + 2))
            answers.append(talk.expect("disposition").fields["state"].name)
        finish(talk)

    report = tmp_path / "report"
    keys = {"count": 3 if kind == "reject" else 2, "receive_delay": 300_000, kind: "50%"}
    with (
        lives(first, second) as peer,
        Running(lasting("receive", peer.port, report, **keys)) as running,
    ):
        found = finished(running, report, sends=False)
    assert found.ledger.received == {"1": 1, "3": 1}
    assert (found.report["received"], found.report[told]) == (2, 1)
    assert answers == [told, "accepted"]


def test_a_receiver_that_is_told_to_stop_connects_again_to_drain(tmp_path: Path) -> None:
    lost, stopped = threading.Event(), threading.Event()

    def first(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=composite("target"))
        talk.wait_for_credit()
        talk.transfer(0, plain_message(1, f"{PREFIX}1"))
        talk.expect("disposition")
        rst(talk)
        lost.set()
        stopped.wait(SECONDS)

    def second(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=composite("target"))
        while not (flow := talk.expect("flow")).fields.get("drain"):
            pass
        talk.transfer(0, plain_message(2, f"{PREFIX}2"))
        drained(talk, flow)
        # Only a drain without a message shows that the queue is empty. A second one is asked for
        # before or behind the outcome.
        answers = {answer.name: answer for answer in (talk.read(), talk.read())}
        assert answers.keys() == {"disposition", "flow"}
        drained(talk, answers["flow"])
        finish(talk)

    def drained(talk: Talk, asked: Frame) -> None:
        count = asked.fields.get("delivery_count", 0) + asked.fields["link_credit"]
        talk.give_credit(0, next_outgoing_id=1, delivery_count=count, drain=True)

    words = lasting("receive", 0, tmp_path, count=0)[3:]
    words = [word for word in words if not word.startswith(("port=", "report-file="))]
    with (
        lives(first, second) as peer,
        controlled(tmp_path, *words, f"port={peer.port}") as arrow,
    ):
        arrow.wait_ready()
        # At once: an attempt that no peer answers would be given up.
        lost.wait(SECONDS)
        arrow.say("stop")
        stopped.set()
        end, report = arrow.end()
    assert end.code == 0, end
    assert (report["received"], report["queue_empty"]) == (2, True)
    assert report["drained_at"]["senders_ended"]
