"""Rates that follow each other: their text, their schedule, and the pacer against exact sums."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.arrow.run.pacer import SteppedPacer
from quiver_fast.errors import UsageError
from quiver_fast.rate_steps import (
    Piece,
    RateStep,
    billionths,
    exact_rate,
    messages_due,
    parse_rate,
    parse_rate_steps,
    rate_text,
    schedule_of,
    times_due,
    total_seconds,
)  # fmt: skip

SECOND = 1_000_000_000
YEAR = 366 * 86_400
FRACTIONS = st.integers(1, 10**15).map(exact_rate)
RATES = st.one_of(st.integers(1, 20), st.integers(1, SECOND), FRACTIONS)
STEPS = st.lists(
    st.builds(RateStep, RATES, RATES, st.integers(1, 1000)), min_size=1, max_size=4
)  # fmt: skip


@st.composite
def schedules(draw: st.DrawFn) -> list[Piece]:
    """Return pieces whose begins are any nanoseconds."""
    begins = draw(st.lists(st.integers(1, YEAR * SECOND), max_size=6, unique=True))
    return [Piece(begin, draw(RATES)) for begin in (0, *sorted(begins))]


def due_by(schedule: list[Piece], elapsed: int) -> Fraction:
    """Return the messages that are due, with the part of the next that is."""
    ends = [*(piece.begin for piece in schedule[1:]), elapsed]
    return sum(
        (
            Fraction(max(0, min(end, elapsed) - piece.begin) * piece.rate, SECOND)
            for piece, end in zip(schedule, ends, strict=True)
        ),
        Fraction(0),
    )


@given(schedules(), st.lists(st.integers(0, YEAR * SECOND), min_size=1, max_size=10))
def test_due_counts_the_messages_up_to_now(schedule: list[Piece], times: list[int]) -> None:
    """Whichever way time goes: the pacer looks from where it looked last."""
    pacer = SteppedPacer(schedule)
    for elapsed in times:
        due = floor(due_by(schedule, elapsed)) + 1
        assert pacer.messages_due(elapsed) == messages_due(schedule, elapsed) == due


@given(schedules(), st.lists(st.integers(0, YEAR * SECOND), min_size=1, max_size=10))
def test_a_message_is_due_exactly_at_its_intended_time(
    schedule: list[Piece], times: list[int]
) -> None:
    pacer = SteppedPacer(schedule)
    indices = [pacer.messages_due(elapsed) - 1 for elapsed in times]
    for index, time in zip(indices, times_due(schedule, indices), strict=True):
        intended = pacer.intended_ns(index)
        assert time == intended
        assert due_by(schedule, intended) >= index
        assert intended == 0 or due_by(schedule, intended - 1) < index


@given(st.integers(1, SECOND), st.integers(0, 10**9))
def test_one_rate_twice_is_that_rate(rate: int, index: int) -> None:
    pacer = SteppedPacer([Piece(0, rate), Piece(SECOND // 3, rate)])
    assert pacer.intended_ns(index) == ceil(Fraction(index * SECOND, rate))


@given(STEPS)
def test_steps_keep_their_text(steps: list[RateStep]) -> None:
    text = ",".join(f"{rate_text(one.first)}..{rate_text(one.last)}:{one.seconds}" for one in steps)
    assert parse_rate_steps(text) == tuple(steps)


@given(STEPS)
def test_a_ramp_sends_as_many_as_its_mean_rate(steps: list[RateStep]) -> None:
    """Its pieces round the rate down, by less than one message per second."""
    schedule = schedule_of(0, steps)
    exact = sum(Fraction((one.first + one.last) * one.seconds, 2) for one in steps)
    missing = exact - due_by(schedule, total_seconds(steps) * SECOND)
    assert -total_seconds(steps) <= missing <= total_seconds(steps)
    assert schedule[-1].rate == steps[-1].last
    assert [piece.begin for piece in schedule] == sorted({piece.begin for piece in schedule})


@pytest.mark.parametrize(
    ("text", "rate"),
    [("0", 0), ("0.5", Fraction(1, 2)), ("1.5k", 1500), ("2.0", 2), ("1m", 10**6),
     ("0.000000001", Fraction(1, 10**9)), ("1.0005k", Fraction(2001, 2))],
)  # fmt: skip
def test_rates_and_their_texts(text: str, rate: Fraction) -> None:
    assert parse_rate(text) == rate
    assert isinstance(parse_rate(text), int) is (rate == int(rate))
    assert parse_rate(rate_text(rate)) == rate
    # JSON has it as a float.
    assert exact_rate(billionths(float(rate))) == rate


def test_a_ramp_of_fractions_has_a_thousand_pieces() -> None:
    schedule = schedule_of(0, parse_rate_steps("0.5..3:20s"))
    assert len(schedule) == 1001
    assert schedule[0].rate == Fraction("0.50125")
    assert schedule[-1] == Piece(20 * SECOND, 3)


def test_units_and_ramps() -> None:
    steps = parse_rate_steps("10k:30s,10k..1m:2m,5:1h,7:9")
    assert steps == (
        RateStep(10_000, 10_000, 30),
        RateStep(10_000, 1_000_000, 120),
        RateStep(5, 5, 3600),
        RateStep(7, 7, 9),
    )
    assert total_seconds(steps) == 3759
    assert parse_rate_steps("") == ()


def test_a_schedule_of_nothing_is_empty() -> None:
    assert schedule_of(0) == []
    assert schedule_of(7) == [Piece(0, 7)]
    assert schedule_of(0, parse_rate_steps("7:2s")) == [Piece(0, 7)]
    assert schedule_of(0, parse_rate_steps("1..3:2s")) == [
        Piece(0, 1), Piece(SECOND, 2), Piece(2 * SECOND, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10k", "'10k' is not RATE:DURATION"),
        ("10k:30s,", "'' is not RATE:DURATION"),
        ("10k:30s, 20k:30s", "' 20k:30s' is not"),
        (".5:3s", "is not RATE:DURATION"),
        ("1.0123456789:3s", "is not RATE:DURATION"),
        ("0.0:3s", "'0.0:3s': a rate of 0 sends nothing"),
        ("1..2000m:3s", "'1..2000m:3s': rate '2000m' is above 1000000000 messages per second"),
        ("1.2000000003m:3s", "is not RATE:DURATION"),
        ("1000000.1:3s", "rate '1000000.1' is no whole number, and above 1000000"),
        ("5:0s", "a step takes whole seconds, 1s at least"),
        ("5:1s500ms", "a step takes whole seconds, 1s at least"),
        ("5:1s1m", "is not RATE:DURATION"),
        ("5:9999999999", "more than 2147483648"),
        (",".join(["5:1s"] * 1001), "rate-steps: 1001 are more than 1000"),
        ("٣:3s", "is not RATE:DURATION"),
    ],
)
def test_malformed_steps_are_named(text: str, why: str) -> None:
    with pytest.raises(UsageError, match="rate-steps") as caught:
        parse_rate_steps(text)
    assert why in str(caught.value)
