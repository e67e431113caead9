"""The delay of each message is divided by its causes: against all waits, one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.arrow.run.delays import Delays, Waits

CAUSES = {"credit": 1, "socket": 2, "outcomes": 3}
SPANS = st.integers(0, 10**12)


@dataclass
class SlowWaits:
    """All waits of a sender, and the parts of each message's delay."""

    waits: list[tuple[int, int, int]] = field(default_factory=list)
    parts: list[dict[str, int]] = field(default_factory=list)

    def send(self, due: int, now: int) -> None:
        found = {
            name: sum(
                max(end - max(begin, due), 0) for one, begin, end in self.waits if one == number
            )
            for name, number in CAUSES.items()
        }
        self.parts.append(found | {"itself": now - due - sum(found.values())})


# A wait for a cause, after a gap; or a message, so much later, due so long after the last one.
STEPS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3]), SPANS, SPANS) | st.tuples(st.just(0), SPANS, SPANS),
    min_size=1,
    max_size=50,
)


@given(STEPS)
def test_each_delay_is_the_sum_of_its_parts(steps: list[tuple[int, int, int]]) -> None:
    waits, delays, slow = Waits(), Delays(), SlowWaits()
    now, due = 1, 1
    for cause, gap, length in steps:
        if cause:
            begin, now = now + gap, now + gap + length
            waits.wait(cause, begin, now)
            slow.waits.append((cause, begin, now))
        else:
            now += gap
            due = min(due + length, now)
            delays.record(waits, due, now)
            slow.send(due, now)
    found = delays.late_by_us()
    for name in (*CAUSES, "itself"):
        most = max((one[name] for one in slow.parts), default=0)
        assert found[name]["max"] * 1000 == pytest.approx(most, abs=2, rel=1e-9), name
    wholes = [sum(one.values()) for one in slow.parts]
    assert delays.late_us()["max"] * 1000 == pytest.approx(max(wholes, default=0))


def test_messages_that_waited_for_nothing_count_in_each_part() -> None:
    waits, delays = Waits(), Delays()
    for number in range(98):
        delays.record(waits, number, number + 1000)
    waits.wait(CAUSES["credit"], 2000, 5000)
    for _ in range(2):
        delays.record(waits, 1000, 6000)
    found = delays.late_by_us()
    assert found["credit"] == {"p50": 0, "p99": 3, "p99.9": 3, "max": 3}
    assert found["itself"] == {"p50": pytest.approx(1, rel=0.04), "p99": 2, "p99.9": 2, "max": 2}
    assert found["socket"]["max"] == found["outcomes"]["max"] == 0
    assert delays.late_us()["p50"] == pytest.approx(1, rel=0.04)


def test_waits_that_overlap_count_once() -> None:
    waits, delays = Waits(), Delays()
    waits.wait(CAUSES["credit"], 1000, 4000)
    waits.wait(CAUSES["socket"], 2000, 6000)
    waits.wait(CAUSES["socket"], 3000, 5000)
    delays.record(waits, 0, 7000)
    found = delays.late_by_us()
    assert [found[name]["max"] for name in ("credit", "socket", "itself")] == [3, 2, 2]


def test_a_sender_that_did_not_run_waited_for_nothing() -> None:
    waits, delays = Waits(), Delays()
    waits.away(3000, 8000)
    # A wait that is told later does not reach back.
    waits.wait(CAUSES["credit"], 1000, 9000)
    delays.record(waits, 2000, 9000)
    found = delays.late_by_us()
    assert (found["credit"]["max"], found["itself"]["max"]) == (1, 6)


@pytest.mark.parametrize("behind", [1, 100, 5000])
def test_many_waits_take_no_more_room(behind: int) -> None:
    """A slow target gives credit a thousand times a second, and the sender falls behind."""
    waits, delays, slow = Waits(), Delays(), SlowWaits()
    for number in range(5000):
        begin = number * 1000
        waits.wait(CAUSES["credit"], begin, begin + 900)
        slow.waits.append((CAUSES["credit"], begin, begin + 900))
        if number >= behind:
            due = (number - behind) * 1000
            delays.record(waits, due, begin + 1000)
            if number % 100 == 0:
                slow.send(due, begin + 1000)
    if behind == 5000:
        delays.record(waits, 0, 5_000_000)
        slow.send(0, 5_000_000)
    found = delays.late_by_us()
    for name in ("credit", "itself"):
        most = max(one[name] for one in slow.parts) / 1000
        assert found[name]["max"] == pytest.approx(most, rel=0.05, abs=1), name
