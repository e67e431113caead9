"""How one arrow's silence ends its run, by a clock that the tests turn."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from test_cli_plan import plan_of

from quiver_fast.cli.arrow import run as run_module
from quiver_fast.cli.arrow.run import ArrowRun, Ending

TIMEOUT = 3
TIMED_OUT = Ending(False, f"timed out: no transfers for {TIMEOUT} seconds", at_fault=True)


class Process:
    """A process that runs until it is stopped."""

    def __init__(self):
        self.returncode = None
        self.usage = SimpleNamespace(sample_rss=lambda: None, pid=0)

    def poll(self):
        return self.returncode is not None

    def stop(self, _signum):
        self.returncode = 0

    kill_and_wait = stop


@dataclass
class Other:
    """Another end of the queue."""

    silence: float
    running: bool = True


@pytest.fixture(name="clock")
def turned_clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture(name="sender")
def started_sender(tmp_path, monkeypatch, clock):
    def start(*_args, output, **_options):
        output.touch()
        return Process()

    monkeypatch.setattr(run_module, "start_implementation", start)
    sender = ArrowRun(plan_of("--timeout", str(TIMEOUT)), tmp_path)
    sender.start()
    yield sender
    if sender.running:
        sender.child.stop(0)
    sender.close()


def test_silence_longer_than_the_timeout_ends_an_arrow(sender, clock):
    clock.now += TIMEOUT
    assert not sender.poll()
    assert sender.running
    clock.now += 0.001
    sender.poll()
    assert sender.ending() == TIMED_OUT


def test_records_end_a_silence(sender, clock):
    for _ in range(4):
        with sender.files.transfers.open("a") as records:
            records.write("1700000000000,0\n")
        clock.now += TIMEOUT + 1
        sender.poll()
        assert sender.running


def test_a_sender_may_be_silent_while_the_receiver_receives(sender, clock):
    """A broker with a long queue lets a sender wait for its last outcomes longer than that."""
    receiver = Other(silence=TIMEOUT)
    sender.accompany(receiver)
    clock.now += 100 * TIMEOUT
    sender.poll()
    assert sender.running
    receiver.silence += 0.001
    sender.poll()
    assert sender.ending() == TIMED_OUT


def test_a_receiver_that_has_ended_keeps_no_sender(sender, clock):
    sender.accompany(Other(silence=0, running=False))
    clock.now += TIMEOUT + 1
    sender.poll()
    assert sender.ending() == TIMED_OUT
