"""When snapshots of arrows are taken, and which of them go together."""

from types import SimpleNamespace

import pytest

from quiver_fast.cli.arrow import supervisor
from quiver_fast.cli.arrow.run import Ending
from quiver_fast.cli.arrow.supervisor import SignalWatch, Supervisor


class Run:
    """An arrow that tells of each half second ``late`` seconds after it, and ends at a time."""

    def __init__(self, clock, role, ends, late=0.001, reading=0.0):
        self._clock, self._ends, self._late, self._reading = clock, ends, late, reading
        operation = {"sender": "send", "receiver": "receive"}[role]
        self.plan = SimpleNamespace(role=role, title=role, operation=operation, server=False)
        self.taken, self.heard = [], 0.0
        self.running = True

    def poll(self):
        return self._clock.now >= self._ends

    def has_flushed(self, moment):
        return self._late is None or self._clock.now >= moment + self._late

    def hear(self):
        self.heard = self._clock.now

    def snapshot(self):
        self.taken.append("end" if self.poll() else round(self.heard, 3))
        self._clock.now += self._reading

    @property
    def last_snapshot(self):
        return self.taken[-1]

    def ending(self):
        return Ending(True, None)


@pytest.fixture(name="clock")
def slept_clock(monkeypatch):
    """Return a clock that only sleeping moves."""
    clock = SimpleNamespace(now=100.3)

    def sleep(seconds):
        assert 0 < seconds < 0.06
        clock.now += seconds

    fake = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr(supervisor, "time", fake)
    monkeypatch.setattr(supervisor, "join", lambda recent, _ended: recent[-1])
    return clock


def watched(*runs):
    """Return the snapshots that are shown of ``runs``."""
    shown = []
    Supervisor(SignalWatch(), shown.append).watch(runs)
    return shown


def test_both_ends_are_taken_when_both_have_told_of_one_moment(clock):
    prompt, late = Run(clock, "sender", 107.2), Run(clock, "receiver", 107.25, late=0.12)
    shown = watched(prompt, late)
    for moment, row in zip((102, 104, 106), shown, strict=False):
        assert row["sender"] == row["receiver"]
        assert moment + 0.12 <= row["receiver"] < moment + 0.2
    assert shown[3:] == [{"sender": "end", "receiver": "end"}]


def test_both_ends_are_of_one_moment_though_one_has_much_to_read(clock):
    runs = [Run(clock, role, 105, reading=0.6) for role in ("sender", "receiver")]
    assert watched(*runs)[0] == {"sender": 102.005, "receiver": 102.005}


def test_prompt_arrows_are_taken_at_once(clock):
    shown = watched(Run(clock, "sender", 105), Run(clock, "receiver", 105, late=None))
    assert [row["sender"] for row in shown] == [102.005, 104.005, "end"]


def test_an_arrow_that_does_not_tell_is_not_waited_for_any_longer(clock):
    (first, *_) = watched(Run(clock, "sender", 105), Run(clock, "receiver", 105, late=0.9))
    assert 102.5 <= first["receiver"] < 102.56


def test_one_that_ends_is_shown_with_the_next_of_the_other(clock):
    sender, receiver = Run(clock, "sender", 102.7), Run(clock, "receiver", 107)
    shown = watched(sender, receiver)
    assert shown[0] == {"sender": 102.005, "receiver": 102.005}
    assert shown[1] == {"sender": "end", "receiver": 104.005}
    assert shown[2:] == [{"receiver": 106.005}, {"receiver": "end"}]
    # Its messages are counted at its end, for the report to the receiver.
    assert sender.taken == [102.005, "end"]


def test_a_short_run_has_one_row(clock):
    shown = watched(Run(clock, "sender", 100.9), Run(clock, "receiver", 101.1))
    assert shown == [{"sender": "end", "receiver": "end"}]


def test_receivers_get_a_signal_when_all_senders_have_ended(clock):
    """Their drains begin after the last commit."""
    log, signals = [], SignalWatch()
    runs = [Run(clock, "sender", 101), Run(clock, "sender", 101.5), Run(clock, "receiver", 103)]
    for number, run in enumerate(runs):
        run.stop = lambda reason, _signum, n=number: log.append((n, reason, clock.now > 101.5))
    signals.signum, signals.count = 2, 1
    Supervisor(signals).watch(runs)
    assert log[:2] == [(0, "interrupted by SIGINT", False), (1, "interrupted by SIGINT", False)]
    assert set(log[2:]) == {(2, "interrupted by SIGINT", True)}


def test_receivers_do_not_wait_long_for_a_sender_whose_server_is_silent(clock):
    """The user waits for both, one after the other."""
    log, signals = [], SignalWatch()
    runs = [Run(clock, "sender", 103.3), Run(clock, "receiver", 105)]
    for run in runs:
        run.stop = lambda _reason, _signum, run=run: log.append((run.plan.role, clock.now))
    signals.signum, signals.count = 2, 1
    Supervisor(signals).watch(runs)
    first = next(moment for role, moment in log if role == "receiver")
    assert 101.8 <= first < 102


def test_peers_get_a_signal_at_once(clock):
    log, signals = [], SignalWatch()
    runs = [Run(clock, "sender", 101), Run(clock, "receiver", 103)]
    for run in runs:
        run.stop = lambda _reason, _signum: log.append(clock.now)
    runs[1].plan.server = True
    signals.signum, signals.count = 2, 1
    Supervisor(signals).watch(runs)
    assert log[:2] == [100.3, 100.3]
