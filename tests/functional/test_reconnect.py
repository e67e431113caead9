"""Arrows that go on after a lost connection: what is in doubt, what comes again, what is told."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.control import controlled
from support.frame_peer import ended
from support.lasting import (
    accept,
    attached,
    finish,
    finished,
    lasting,
    lives,
    numbers,
    take,
    take_all,
)
from support.network import reset
from support.processes import Running, free_port, run

from quiver_fast.arrow.amqp.returning import ranges_of
from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import composite, encode_frame

Leave = Callable[[Talk], None]


def rst(talk: Talk) -> None:
    reset(talk.socket)


def fin(talk: Talk) -> None:
    talk.socket.close()


def close(talk: Talk) -> None:
    talk.send_bytes(encode_frame("close"))
    talk.read_until("close")


def frames(*names: str) -> Leave:
    """Return how a peer leaves with frames that have errors."""

    def leave(talk: Talk) -> None:
        talk.send_bytes(ended(*names))
        talk.read_until("close")

    return leave


def silence(talk: Talk) -> None:
    talk.read_until("close")


LEAVES = {
    "reset": rst, "fin": fin, "close": close, "close with an error": frames("close"),
    "detach with an error": frames("detach"), "end with an error": frames("end"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*LEAVES, "silence"])
@pytest.mark.parametrize("resend", [0, 1])
def test_what_had_no_outcome_is_in_doubt(name: str, resend: int, tmp_path: Path) -> None:
    """Ten messages came, of which four have outcomes: not the first ones alone."""
    copies: list[bytes] = []
    before: list[bytes] = []

    def first(talk: Talk) -> None:
        attached(talk, credit=10)
        before.extend(payload for _, payload in take(talk, 10))
        accept(talk, 0, 2)
        accept(talk, 7, 7)
        (silence if name == "silence" else LEAVES[name])(talk)

    def second(talk: Talk) -> None:
        attached(talk)
        if resend:
            copies.extend(payload for _, payload in take(talk, 6))
            accept(talk, 0, 5)
        finish(talk)

    report = tmp_path / "report"
    idle = {"idle_timeout": 1} if name == "silence" else {}
    with lives(first, second) as peer:
        words = lasting("send", peer.port, report, count=30, resend=resend, **idle)
        with Running(words) as running:
            found = finished(running, report, sends=True)
    doubt = ["4", "5", "6", "7", "9", "10"]
    (failure,) = found.failures
    assert numbers(failure["in_doubt"]) == doubt
    assert failure["ends"] == [0, 0]
    assert failure["back_at"] >= failure["lost_at"] // 10**6 * 10**6
    assert failure["place"] == f"127.0.0.1:{peer.port}"
    assert failure["attempts"] >= 1
    report_of = found.report
    assert report_of["complete"]
    assert len(found.ledger.sent) == 30
    if resend:
        assert found.told("resent") == doubt
        assert (report_of["accepted"], report_of["unsettled"], report_of["resent"]) == (30, 0, 6)
        assert found.ledger.in_doubt == set()
        # The id and the SendTime of the first time.
        assert copies == [before[int(one) - 1] for one in doubt]
    else:
        assert failure["resent"] == []
        assert (report_of["accepted"], report_of["unsettled"]) == (24, 6)
        assert found.ledger.in_doubt == set(doubt)
    assert max(found.ledger.settled.values()) == 1


def test_two_losses_one_within_the_copies(tmp_path: Path) -> None:
    """A copy that had no outcome is in doubt again; one that had not gone is not."""

    def first(talk: Talk) -> None:
        attached(talk, credit=8)
        take(talk, 8)
        rst(talk)

    def second(talk: Talk) -> None:
        attached(talk, credit=5)
        take(talk, 5)
        accept(talk, 1, 2)
        rst(talk)

    report = tmp_path / "report"
    with (
        lives(first, second, take_all) as peer,
        Running(lasting("send", peer.port, report, count=20, resend=1)) as running,
    ):
        found = finished(running, report, sends=True)
    one, two = found.failures
    assert [numbers(one[key]) for key in ("in_doubt", "resent")] == [
        [str(number) for number in range(1, 9)], ["1", "2", "3", "4", "5"],
    ]  # fmt: skip
    assert numbers(two["in_doubt"]) == ["1", "4", "5"]
    assert numbers(two["resent"]) == ["1", "4", "5", "6", "7", "8"]
    assert (found.report["accepted"], found.report["resent"]) == (20, 11)
    assert found.ledger.in_doubt == set()
    assert set(found.ledger.settled.values()) == {1}


@pytest.mark.parametrize("properties", ["", "color=red:20%,green:80%,n=%n,key=%id"])
def test_many_copies_are_what_they_were(tmp_path: Path, properties: str) -> None:
    """More than the times that are kept at first, with ids of more and more digits."""
    before: list[bytes] = []
    copies: list[bytes] = []

    def first(talk: Talk) -> None:
        attached(talk, credit=9000)
        before.extend(payload for _, payload in take(talk, 9000))
        accept(talk, 0, 2999)
        accept(talk, 5000, 5000)
        rst(talk)

    def second(talk: Talk) -> None:
        attached(talk, credit=9000)
        copies.extend(payload for _, payload in take(talk, 5999))
        accept(talk, 0, 5998)
        finish(talk)

    report = tmp_path / "report"
    given = {"resend": 1, "time_unit": "us", "properties": properties}
    words = lasting("send", 0, report, count=9100, **given)
    with lives(first, second) as peer:
        words = [f"port={peer.port}" if word == "port=0" else word for word in words]
        with Running(words) as running:
            found = finished(running, report, sends=True)
    assert copies == before[3000:5000] + before[5001:]
    assert found.failures[0]["in_doubt"] == [[3001, 5000], [5002, 9000]]
    assert found.ledger.in_doubt == set()
    assert found.report["accepted"] == len(found.ledger.sent) == 9100


def outcome(number: int, state: Value) -> bytes:
    return encode_frame("disposition", role=True, first=number, settled=True, state=state)


def coordinate(talk: Talk, requests: int, *, refused: int = 0) -> int:
    """Serve transactions up to the last one of the requests, whose delivery-id is returned.

    Args:
        talk: with a sender.
        requests: declare, discharge, declare, …
        refused: the message to reject, the others are accepted.
    """
    attached(talk)
    talk.answer_attach(handle=1, target=composite("coordinator"))
    talk.give_credit(100, handle=1)
    asked = message = 0
    while True:
        frame = talk.expect("transfer")
        number: int = frame.fields["delivery_id"]
        if frame.fields["handle"] == 0:
            message += 1
            state = composite("rejected" if message == refused else "accepted")
            state = composite("transactional_state", txn_id=b"t", outcome=state)
        else:
            asked += 1
            declared = composite("declared", txn_id=b"t")
            state = declared if asked % 2 else composite("accepted")
        if asked == requests:
            return number
        talk.send_bytes(outcome(number, state))


def test_a_commit_whose_answer_is_lost(tmp_path: Path) -> None:
    """The first batch is committed; the outcomes of the second one are worth nothing without."""

    def only(talk: Talk) -> None:
        coordinate(talk, 4)
        rst(talk)

    report = tmp_path / "report"
    with (
        lives(only) as peer,
        Running(lasting("send", peer.port, report, count=6, transaction_size=3)) as running,
    ):
        found = finished(running, report, sends=True)
    assert found.failures[0]["in_doubt"] == [[4, 6]]
    assert found.ledger.in_doubt == {"4", "5", "6"}
    assert (found.report["accepted"], found.report["unsettled"]) == (3, 3)
    assert found.report["transactions"] == 1


def test_a_commit_that_is_answered_late(tmp_path: Path) -> None:
    """The next transaction has its messages by then: they are not committed with the first one."""

    def only(talk: Talk) -> None:
        attached(talk)
        talk.answer_attach(handle=1, target=composite("coordinator"))
        talk.give_credit(100, handle=1)
        declared = composite("declared", txn_id=b"t")
        state = composite("transactional_state", txn_id=b"t", outcome=composite("accepted"))
        # Declare, three messages, discharge and declare, three messages, discharge.
        ids = [talk.expect("transfer").fields["delivery_id"]]
        for count, answer in ((3, declared), (2, state), (3, declared)):
            talk.send_bytes(b"".join(outcome(number, answer) for number in ids))
            ids = [talk.expect("transfer").fields["delivery_id"] for _ in range(count)]
            if count == 2:
                discharge, *ids = ids
        talk.send_bytes(b"".join(outcome(number, state) for number in ids))
        talk.send_bytes(outcome(discharge, composite("accepted")))
        talk.expect("transfer")
        rst(talk)

    report = tmp_path / "report"
    with (
        lives(only) as peer,
        Running(lasting("send", peer.port, report, count=6, transaction_size=3)) as running,
    ):
        found = finished(running, report, sends=True)
    assert found.failures[0]["in_doubt"] == [[4, 6]]
    assert found.ledger.settled == dict.fromkeys("123", 1)
    assert (found.report["accepted"], found.report["unsettled"]) == (3, 3)


@pytest.mark.parametrize(
    "name", ["at once", pytest.param("no declare", marks=pytest.mark.slow)]
)  # fmt: skip
def test_a_commit_that_was_answered_before_the_loss(name: str, tmp_path: Path) -> None:
    """Its messages are not in doubt: they would come twice."""
    second_batch: list[int] = []

    def first(talk: Talk) -> None:
        answer = outcome(coordinate(talk, 2), composite("accepted"))
        if name == "at once":
            talk.send_bytes(answer + ended("close"))
        else:
            # The coordinator is silent for longer than it may be.
            talk.send_bytes(answer)
        talk.read_until("close")

    def second(talk: Talk) -> None:
        number = coordinate(talk, 2)
        second_batch.append(number)
        talk.send_bytes(outcome(number, composite("accepted")))
        finish(talk)

    report = tmp_path / "report"
    keys = {"count": 6, "transaction_size": 3, "resend": 1}
    with (
        lives(first, second) as peer,
        Running(lasting("send", peer.port, report, **keys)) as running,
    ):
        found = finished(running, report, sends=True)
    assert found.failures[0]["in_doubt"] == []
    assert (found.report["accepted"], found.report["resent"]) == (6, 0)
    assert set(found.ledger.settled.values()) == {1}
    assert found.report["transactions"] == 2
    # A declare and three messages came before it.
    assert second_batch == [4]


def test_what_was_refused_in_a_lost_transaction_is_refused(tmp_path: Path) -> None:
    """And the run, which ends without a connection, says so."""

    def only(talk: Talk) -> None:
        coordinate(talk, 4, refused=5)
        rst(talk)

    report = tmp_path / "report"
    with (
        lives(only) as peer,
        Running(lasting("send", peer.port, report, count=6, transaction_size=3)) as running,
    ):
        found = finished(running, report, sends=True, code=1)
    assert "1 rejected" in found.end.stderr
    assert found.failures[0]["in_doubt"] == [[4, 4], [6, 6]]
    assert found.ledger.in_doubt == {"4", "6"}
    counts = [found.report[key] for key in ("accepted", "rejected", "unsettled")]
    assert counts == [3, 1, 2]


def test_attempts_that_fail_at_each_step(tmp_path: Path) -> None:
    """In the handshake, in open, in attach: the run goes on over the connection after these."""

    def first(talk: Talk) -> None:
        attached(talk)
        take(talk, 5)
        rst(talk)

    def cut_in_open(talk: Talk) -> None:
        talk.answer_header()
        talk.expect("open")
        rst(talk)

    def closed_in_open(talk: Talk) -> None:
        talk.answer_header()
        talk.expect("open")
        talk.send("open", container_id="frames")
        talk.send_bytes(ended("close"))
        talk.read_until("close")

    def refused_link(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach()
        talk.send_bytes(ended("detach"))
        talk.read_until("close")

    report = tmp_path / "report"
    with (
        lives(first, fin, cut_in_open, closed_in_open, refused_link, take_all) as peer,
        Running(lasting("send", peer.port, report, count=20, resend=1)) as running,
    ):
        found = finished(running, report, sends=True)
    (failure,) = found.failures
    assert failure["attempts"] == 5
    # The first attempt comes at once.
    assert 0 < failure["pause"] <= 0.08
    assert found.report["accepted"] == 20


@pytest.mark.parametrize("resend", [0, 1])
def test_a_loss_when_all_was_sent(resend: int, tmp_path: Path) -> None:
    """Nothing is left to send, except copies."""

    def first(talk: Talk) -> None:
        attached(talk)
        take(talk, 10)
        accept(talk, 0, 5)
        rst(talk)

    report = tmp_path / "report"
    with (
        lives(first, *[take_all] * resend) as peer,
        Running(lasting("send", peer.port, report, count=10, resend=resend)) as running,
    ):
        found = finished(running, report, sends=True)
    assert found.report["unsettled"] == len(found.ledger.in_doubt) == (0 if resend else 4)
    assert numbers(found.failures[0]["in_doubt"]) == ["7", "8", "9", "10"]
    assert (found.failures[0]["back_at"] is None) == (not resend)


@pytest.mark.parametrize("resend", [0, 1])
def test_a_loss_within_a_message_of_several_frames(resend: int, tmp_path: Path) -> None:
    def first(talk: Talk) -> None:
        attached(talk)
        take(talk, 2)
        accept(talk, 0, 1)
        talk.expect("transfer")
        rst(talk)

    report = tmp_path / "report"
    with (
        lives(first, take_all) as peer,
        Running(
            lasting("send", peer.port, report, count=4, body_size=20_000_000, resend=resend)
        ) as running,
    ):
        found = finished(running, report, sends=True)
    assert "3" in numbers(found.failures[0]["in_doubt"])
    assert found.report["accepted"] + found.report["unsettled"] == 4
    assert (found.report["unsettled"] == 0) == bool(resend)


def test_a_stream_that_broke_is_aborted_and_said(tmp_path: Path) -> None:
    def first(talk: Talk) -> None:
        attached(talk)
        talk.expect("transfer")
        rst(talk)

    report = tmp_path / "report"
    with (
        lives(first, take_all) as peer,
        Running(
            lasting("send", peer.port, report, count=2, body_size=20_000_000, streaming=1)
        ) as running,
    ):
        found = finished(running, report, sends=True)
    assert "the connection was lost within message 1, which is aborted" in found.end.stderr
    assert (found.report["aborted"], found.report["unsettled"]) == (1, 0)
    assert found.failures[0]["in_doubt"] == [[1, 1]]


def test_a_schedule_goes_on_and_times_are_those_at_which_messages_were_due(tmp_path: Path) -> None:
    def first(talk: Talk) -> None:
        attached(talk)
        take(talk, 5)
        rst(talk)

    def refusing(talk: Talk) -> None:
        talk.socket.close()

    report = tmp_path / "report"
    with (
        lives(first, *[refusing] * 3, take_all) as peer,
        Running(lasting("send", peer.port, report, rate=100, count=60, time_unit="us")) as running,
    ):
        found = finished(running, report, sends=True)
    times = list(found.ledger.sent.values())
    assert [later - time for time, later in pairwise(times)] == [10_000] * 59
    (failure,) = found.failures
    assert failure["attempts"] >= 4


@pytest.mark.parametrize("operation", ["send", "receive"])
def test_no_connection_for_too_long_ends_the_run(operation: str, tmp_path: Path) -> None:
    def only(talk: Talk) -> None:
        if operation == "send":
            attached(talk)
            take(talk, 5)
        else:
            talk.answer_session()
            talk.answer_attach(target=composite("target"))
        rst(talk)

    report = tmp_path / "report"
    with lives(only) as peer, Running(
        lasting(operation, peer.port, report, rate=100, reconnect_for=1)
    ) as running:  # fmt: skip
        peer.end()
        found = finished(running, report, sends=operation == "send", code=1)
    assert "no connection for 1 s, after" in found.end.stderr
    assert "refused" in found.end.stderr
    assert not found.report["complete"]
    assert found.failures[0]["back_at"] is None
    if operation == "send":
        assert set(found.told("in_doubt")) == found.ledger.in_doubt
        # Messages were due for as long as it had no connection.
        assert found.report["schedule"]["sending_ns"] > 10**9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_there_is_no_connection(number: signal.Signals, tmp_path: Path) -> None:
    def only(talk: Talk) -> None:
        attached(talk)
        take(talk, 5)
        rst(talk)

    report = tmp_path / "report"
    with lives(only) as peer, Running(lasting("send", peer.port, report, rate=100)) as running:
        peer.end()
        running.send_signal(number)
        found = finished(running, report, sends=True, code=128 + number)
    assert found.ledger.in_doubt >= {"1", "2", "3", "4", "5"}


def test_the_end_of_the_duration_ends_a_sender(tmp_path: Path) -> None:
    """Also with copies that wait: they stay in doubt."""

    def only(talk: Talk) -> None:
        attached(talk)
        take(talk, 5)
        rst(talk)

    report = tmp_path / "report"
    words = {"rate": 100, "count": 0, "duration": 1, "resend": 1}
    with lives(only) as peer, Running(lasting("send", peer.port, report, **words)) as running:
        peer.end()
        found = finished(running, report, sends=True)
    assert found.report["unsettled"] == len(found.ledger.in_doubt) >= 5


def test_a_wrapper_is_heard_while_there_is_no_connection(tmp_path: Path) -> None:
    """Records come on time, and `stop` ends a sender; a receiver connects again to drain."""

    def only(talk: Talk) -> None:
        attached(talk)
        take(talk, 5)
        rst(talk)

    words = lasting("send", 0, tmp_path, rate=100)[3:]
    with lives(only) as peer:
        words = [word for word in words if not word.startswith(("port=", "report-file="))]
        with controlled(tmp_path, *words, f"port={peer.port}") as arrow:
            arrow.wait_ready()
            peer.end()
            # The flush that has the record of the fifth message may have come already.
            while arrow.records() < 5:
                assert arrow.hear().startswith("flushed")
            arrow.say("stop")
            end, report = arrow.end()
    assert end.code == 0, end
    assert report["complete"]
    assert report["unsettled"] == 5


def test_the_first_connection_is_not_opened_again(tmp_path: Path) -> None:
    end = run(lasting("send", free_port(), tmp_path / "report"))
    assert end.code == 1
    assert "cannot connect" in end.stderr


@given(st.sets(st.integers(0, 60)))
def test_ranges_have_the_numbers(chosen: set[int]) -> None:
    """The slow twin: each number once, and no two ranges that touch."""
    ranges = ranges_of(sorted(chosen))
    assert [one for first, last in ranges for one in range(first, last + 1)] == sorted(chosen)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))
