"""Limits that several ends share: their counts and schedules add up to those of all."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.arrow.run.control import Control
from quiver_fast.arrow.run.course import Limits
from quiver_fast.arrow.run.pacer import Pacer, SharePacer, SteppedPacer
from quiver_fast.rate_steps import parse_rate_steps, schedule_of

SECOND = 10**9
STEPS = schedule_of(0, parse_rate_steps("10:2s,7..2100:3s,90:1s"))


def limits(count: int, rate: int = 0) -> Limits:
    schedule = schedule_of(rate, ())
    return Limits(
        count=count, duration=3, schedule=schedule, run_start=0, clock_base=0, control=Control()
    )


@given(ends=st.integers(1, 500), extra=st.integers(0, 10**12))
def test_counts_add_up_and_the_first_ones_are_larger(ends: int, extra: int) -> None:
    whole = limits(ends + extra)
    shares = [whole.share(number, ends, Control()).count for number in range(ends)]
    assert sum(shares) == ends + extra
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)


def test_all_shares_have_the_duration() -> None:
    assert limits(0).share(3, 7, Control()).duration_ns == 3 * SECOND
    assert limits(0).share(3, 7, Control()).pacer is None


@given(
    ends=st.integers(1, 40),
    rate=st.integers(1, 10**6),
    elapsed=st.integers(0, 100 * SECOND),
    kind=st.sampled_from(["one rate", "a fraction", "steps"]),
)
def test_at_any_time_all_ends_together_owe_what_the_schedule_owes(
    ends: int, rate: int, elapsed: int, kind: str
) -> None:
    whole = Pacer(rate)
    if kind != "one rate":
        whole = SteppedPacer(STEPS if kind == "steps" else schedule_of(Fraction(rate, 10**5)))
    shares = [SharePacer(whole, number, ends) for number in range(ends)]
    due = [one.messages_due(elapsed) for one in shares]
    assert sum(due) == whole.messages_due(elapsed)
    assert max(due) - min(due) <= 1


@given(ends=st.integers(1, 40), rate=st.integers(1, 10**6), index=st.integers(0, 10**6))
def test_ends_take_the_messages_of_a_schedule_in_turns(ends: int, rate: int, index: int) -> None:
    whole = Pacer(rate)
    share = SharePacer(whole, index % ends, ends)
    assert share.intended_ns(index // ends) == whole.intended_ns(index)
    # A message is due when its time has come, and not a nanosecond before.
    due = whole.intended_ns(index)
    assert share.messages_due(due) > index // ends
    assert due == 0 or share.messages_due(due - 1) <= index // ends
