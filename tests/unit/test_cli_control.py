"""The wrapper's end of the stream to an arrow, and how it ends the drain of a pair."""

import math
import os
import socket
from types import SimpleNamespace

import pytest

from quiver_fast.cli.arrow.control import Control, Flushed
from quiver_fast.cli.arrow.run import Ending
from quiver_fast.cli.fleet.remote import RemoteEnd
from quiver_fast.cli.pair import ends_drain


@pytest.fixture(name="ends")
def both_ends():
    """Return a control, and a socket of the arrow's end as the arrow has it."""
    with Control() as control:
        arrow = socket.socket(fileno=os.dup(control.arrow_fd))
        control.started()
        with arrow:
            yield control, arrow


def test_ready_is_a_whole_line(ends):
    control, arrow = ends
    assert not control.is_ready()
    arrow.sendall(b"hello\nrea")
    assert not control.is_ready()
    arrow.sendall(b"dy\n")
    assert control.is_ready()
    assert control.is_ready()


def test_the_last_that_was_told_of_records_counts(ends):
    control, arrow = ends
    assert control.flushed() is None
    arrow.sendall(b"ready\nflushed 1500000000 1900\nflushed 2000000000 24")
    assert control.flushed() == Flushed(1_500_000_000, 1900)
    arrow.sendall(b"00\nwritten 1 1\n")
    assert control.flushed() == Flushed(2_000_000_000, 2400)
    assert control.is_ready()
    arrow.close()
    assert control.flushed() == Flushed(2_000_000_000, 2400)


def test_the_last_count_of_rejected_messages_counts(ends):
    control, arrow = ends
    assert control.rejected() == 0
    arrow.sendall(b"flushed 1 0\nrejected 7\nflushed 2 0\nrejected 12\nrejected ")
    assert control.rejected() == 12
    arrow.sendall(b"13\n")
    control.close()
    assert control.rejected() == 13


def test_an_arrow_that_is_gone_is_not_ready_and_hears_nothing(ends):
    control, arrow = ends
    arrow.close()
    assert not control.is_ready()
    control.sent(7)
    control.stop()


def test_commands_to_an_arrow_are_lines(ends):
    control, arrow = ends
    control.sent(20_000)
    control.stop()
    control.close()
    with arrow.makefile("rb") as lines:
        assert lines.read() == b"sent 20000\nstop\n"


class Receiver:
    """A receiver that hears, and is silent for as long as the test says."""

    def __init__(self, timeout=10, *, reconnect=False, asked=0.0):
        self.said = []
        self.control = SimpleNamespace(
            sent=lambda count: self.said.append(f"sent {count}"),
            stop=lambda: self.said.append("stop"),
        )
        self.plan = SimpleNamespace(
            options=SimpleNamespace(
                is_filtered=False,
                patience=timeout,
                reconnect=reconnect,
                reconnect_seconds=60,
                asked_silence=asked,
            )
        )
        self.running = True
        self.silence = 0.0
        self.tolerant = False
        self.stopped = None

    def tolerate_silence(self):
        self.tolerant = True

    def stop(self, reason, at_fault):
        self.stopped = (reason, at_fault)


def sender(running=False, complete=True, transferred=500):
    ending = Ending(complete, None)
    return SimpleNamespace(running=running, transferred=transferred, ending=lambda: ending)


def pair_drain(sending, receiver, timeout):
    return ends_drain.QueueDrain([sending], [receiver], timeout, only_complete=True)


@pytest.fixture(name="clock")
def settable_clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(ends_drain.time, "monotonic", lambda: clock.now)
    return clock


def test_nothing_is_said_while_the_sender_runs(clock):
    receiver = Receiver()
    pair_drain(sender(running=True), receiver, 30).advance()
    assert (receiver.said, receiver.tolerant) == ([], False)


def test_nothing_is_said_when_the_sender_failed(clock):
    receiver = Receiver()
    pair_drain(sender(complete=False), receiver, 30).advance()
    assert (receiver.said, receiver.tolerant) == ([], False)


def test_the_drain_ends_after_its_time(clock):
    receiver = Receiver()
    course = pair_drain(sender(), receiver, 30)
    course.advance()
    assert (receiver.said, receiver.tolerant) == (["sent 500"], True)
    clock.now += 29.9
    course.advance()
    assert receiver.said == ["sent 500"]
    clock.now += 0.1
    course.advance()
    course.advance()
    assert receiver.said == ["sent 500", "stop"]


def test_zero_leaves_the_rest_at_once(clock):
    receiver = Receiver()
    pair_drain(sender(), receiver, 0).advance()
    assert receiver.said == ["sent 500", "stop"]


@pytest.mark.parametrize(
    ("complete", "transferred", "ends"),
    [(False, 0, True), (False, 1, False), (True, 0, False)],
)
def test_senders_that_failed_without_a_message_leave_no_rest(clock, complete, transferred, ends):
    receivers = [Receiver(), Receiver()]
    failed = sender(complete=complete, transferred=transferred)
    ends_drain.QueueDrain([failed, failed], receivers, 30).advance()
    assert [one.said for one in receivers] == [["stop"] * ends] * 2


@pytest.mark.parametrize(("failed", "kinds"), [("refused", ["drained"]), (None, [])])
def test_ends_on_hosts_are_drained_likewise(clock, failed, kinds):
    told = []
    plan = SimpleNamespace(
        title="",
        controlled=True,
        options=SimpleNamespace(patience=0, reconnect=False, is_filtered=False),
    )
    senders, receivers = (
        [RemoteEnd(plan, 0, lambda **document: told.append(document["kind"])) for _ in range(2)]
        for _ in range(2)
    )
    status = {"running": False, "count": 0, "silence": 0, "rejected": 0, "failed": failed}
    for end in senders:
        end.update(status)
    ends_drain.QueueDrain(senders, receivers, 30).advance()
    assert told == kinds * 2


@pytest.mark.parametrize(("timeout", "said"), [(10, ["sent 500", "stop"]), (0, ["sent 500"])])
def test_the_drain_ends_when_nothing_moves(clock, timeout, said):
    receiver = Receiver(timeout)
    course = pair_drain(sender(), receiver, 30)
    course.advance()
    receiver.silence = 10.1
    course.advance()
    assert receiver.said == said
    assert receiver.stopped is None


@pytest.mark.parametrize("asked", [0, 5])
def test_a_drain_that_is_quiet_ends_after_the_pauses_of_its_receiver(clock, asked):
    """Where connections come back, nobody knows how many messages come."""
    receiver = Receiver(reconnect=True, asked=asked)
    course = pair_drain(sender(), receiver, 30)
    course.advance()
    receiver.silence = asked + 1.9
    course.advance()
    assert receiver.said == []
    receiver.silence = asked + 2.1
    course.advance()
    assert receiver.said == ["stop"]


def test_a_receiver_that_does_not_obey_is_at_fault(clock):
    receiver = Receiver()
    course = pair_drain(sender(), receiver, 0)
    course.advance()
    clock.now += 20
    course.advance()
    assert receiver.stopped is None
    clock.now += 0.1
    course.advance()
    assert receiver.stopped == ("did not end 20 seconds after it was told to", True)


def test_a_receiver_that_may_be_away_for_ever_ends_with_the_time_of_the_drain(clock):
    receiver = Receiver(reconnect=True)
    receiver.plan.options.reconnect_seconds = math.inf
    course = pair_drain(sender(), receiver, 30)
    course.advance()
    clock.now += 30
    course.advance()
    assert receiver.said == ["stop"]
    clock.now += 50
    course.advance()
    assert receiver.stopped is None
    clock.now += 0.1
    course.advance()
    assert receiver.stopped == ("did not end 50 seconds after it was told to", True)


def test_a_foreign_receiver_ends_by_itself(clock):
    receiver = Receiver()
    receiver.control = None
    pair_drain(sender(), receiver, 0).advance()
    assert not receiver.tolerant
