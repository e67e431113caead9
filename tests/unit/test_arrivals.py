"""Arrivals at random against a slow twin, exact arithmetic, and the exponential distribution."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.model.bounds import Sending
from quiver_fast.arrivals import Arrivals
from quiver_fast.arrow.run.control import Control
from quiver_fast.arrow.run.course import Limits
from quiver_fast.arrow.run.pacer import PoissonPacer, SteppedPacer
from quiver_fast.errors import UsageError
from quiver_fast.rate_steps import Seed, parse_arrivals, parse_rate_steps, schedule_of

WORD = 2**64
STEP = 0x9E3779B97F4A7C15
SECOND = 10**9
NUMBERS = st.integers(0, 2**32 - 1)
STEPS = "100:2s,5k..20k:3s,0.5:10s,1k:1s"


def mixed(state: int) -> int:
    """Return the number that splitmix64 draws, as its authors publish it."""
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ state >> 27) * 0x94D049BB133111EB % WORD
    return state ^ state >> 31


def draws(seed: int, stream: int, index: int) -> Iterator[int]:
    state = mixed((mixed(seed) + stream) % WORD) + 64 * index * STEP
    while True:
        yield mixed(state % WORD)
        state += STEP


def gap(seed: int, stream: int, index: int) -> int:
    """Return a distance in millionths: the slow twin of `Arrivals`."""
    numbers = draws(seed, stream, index)
    whole = 0
    while True:
        falling = [next(numbers)]
        for number in numbers:
            if number >= falling[-1]:
                break
            falling.append(number)
        if len(falling) % 2:
            return whole * 10**6 + (falling[0] >> 32) * 10**6 // 2**32
        whole += 1


def positions(seed: int, stream: int, *, at_once: bool) -> Iterator[int]:
    position = 0 if at_once else gap(seed, stream, 0)
    index = 0
    while True:
        yield position
        index += 1
        position += gap(seed, stream, index)


def pacer(seed: int, stream: int, ends: int, *, at_once: bool = True) -> PoissonPacer:
    whole = SteppedPacer(schedule_of(0, parse_rate_steps(STEPS)))
    return PoissonPacer(whole, Arrivals(seed, stream, at_once), ends)


@given(NUMBERS, st.integers(0, 10**5), st.booleans())
def test_positions_are_those_of_the_twin(seed: int, stream: int, at_once: bool) -> None:
    found = Arrivals(seed, stream, at_once)
    twins = list(islice(positions(seed, stream, at_once=at_once), 300))
    assert [found.position(index) for index in range(300)] == twins
    assert [found.position(index) for index in reversed(range(300))] == twins[::-1]


@given(NUMBERS, st.lists(st.integers(0, 200 * 10**6), min_size=1, max_size=20))
def test_counts_are_those_of_the_twin_in_any_order(seed: int, places: list[int]) -> None:
    found = Arrivals(seed, 0)
    twins = list(islice(positions(seed, 0, at_once=False), 500))
    for place in places:
        assert found.count_until(place) == sum(one <= place for one in twins)


def test_distances_have_the_exponential_distribution() -> None:
    found = Arrivals(1, 0, at_once=True)
    count = 200_000
    places = [found.position(index) for index in range(count + 1)]
    gaps = [(later - one) / 1e6 for one, later in pairwise(places)]
    mean = sum(gaps) / count
    assert abs(mean - 1) < 5 / math.sqrt(count)
    assert abs(sum((one - mean) ** 2 for one in gaps) / count - 1) < 0.03
    for limit in (0.01, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0):
        share = math.exp(-limit)
        allowed = 5 * math.sqrt(share * (1 - share) / count)
        assert abs(sum(one > limit for one in gaps) / count - share) < allowed
    # Neighbours do not depend on each other.
    products = [(one - 1) * (later - 1) for one, later in pairwise(gaps)]
    assert abs(sum(products) / count) < 5 / math.sqrt(count)


@given(NUMBERS, st.integers(1, 1000), st.integers(0, 300))
def test_a_message_is_due_when_the_schedule_passes_its_position(
    seed: int, ends: int, index: int
) -> None:
    tested = pacer(seed, 3, ends, at_once=False)
    place = next(islice(positions(seed, 3, at_once=False), index, None))
    intended = tested.intended_ns(index)
    due_parts = Fraction(place * ends, 10**6)
    for time, has_passed in ((intended - 1, False), (intended, True)):
        if time >= 0:
            assert (parts_at(time) >= due_parts) is has_passed
            assert (tested.messages_due(time) > index) is has_passed


def parts_at(time: int) -> Fraction:
    """Return the messages of the even schedule that are due after a time, exactly."""
    pieces = schedule_of(0, parse_rate_steps(STEPS))
    ends = [piece.begin for piece in pieces[1:]] + [2**62]
    spans = ((min(end, time) - one.begin, one.rate) for one, end in zip(pieces, ends, strict=True))
    return sum((Fraction(span) * rate / SECOND for span, rate in spans if span > 0), Fraction(0))


@given(NUMBERS, st.integers(1, 5), st.integers(0, 20 * SECOND))
def test_the_analysis_knows_the_messages_of_all_ends(seed: int, ends: int, elapsed: int) -> None:
    ours = [pacer(seed, 7 + one, ends, at_once=one == 0) for one in range(ends)]
    config = {"rate_steps": STEPS, "arrivals": f"poisson:{seed}:7", "ends": {"members": ends}}
    sending = Sending.of({"config": config})
    assert sending is not None
    due = sending.messages_due(elapsed)
    assert due == sum(one.messages_due(elapsed) for one in ours)
    times = sorted(one.intended_ns(index) for one in ours for index in range(due))[:due]
    near = range(max(0, due - 20), due)
    assert sending.times_due(near) == [times[index] for index in near]
    lasts = [one.intended_ns(due // ends + (at < due % ends)) for at, one in enumerate(ours)]
    assert sending.end_of(due) == max(lasts)


def test_ends_of_a_process_have_streams_of_their_own() -> None:
    limits = Limits(
        count=0, duration=0, schedule=schedule_of(1000), run_start=0, clock_base=0,
        control=Control(-1), arrivals=Seed(9, 4),
    )  # fmt: skip
    whole = SteppedPacer(schedule_of(1000))
    for number in range(3):
        shared = limits.share(number, 3, limits.control).pacer
        alone = PoissonPacer(whole, Arrivals(9, 4 + number, number == 0), 3)
        assert shared is not None
        for index in range(50):
            assert shared.intended_ns(index) == alone.intended_ns(index)


@pytest.mark.parametrize(
    ("text", "seed"),
    [("", None), ("poisson", Seed(1)), ("poisson:7", Seed(7)), ("poisson:7:3", Seed(7, 3))],
)
def test_the_text_has_a_seed_and_a_stream(text: str, seed: Seed | None) -> None:
    assert parse_arrivals(text) == seed
    assert seed is None or parse_arrivals(str(seed)) == seed


@pytest.mark.parametrize(
    "text", ["even", "poisson:", "poisson:x", "poisson:-1", "poisson:4294967296", "poisson:1:2:3"]
)
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(UsageError, match=r"--arrivals: '.*' is not poisson or poisson:SEED"):
        parse_arrivals(text, "--arrivals")
