"""A rate that changes during a run: its text, and its pieces of constant rate.

    10k:30s,10k..50k:1m,50k:30s

is 10,000 messages/s for 30 seconds, then a ramp to 50,000 within a minute, and 50,000 from there
on. A ramp rises, or falls, in a thousand steps of equal length.

A rate is a whole number, or a fraction of billionths: schedules are exact sums of them.

Messages come at even distances, or at random ones: `quiver_fast.arrivals`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from quiver_fast.errors import UsageError
from quiver_fast.quantities import COUNTS, fixed_point, microseconds

if TYPE_CHECKING:
    from fractions import Fraction

_SECOND = 10**9
_FASTEST = 10**9
# Faster rates are whole: a float, as in JSON, has no more digits.
_FASTEST_FRACTION = 10**6
_LONGEST = 2**31
_MOST_STEPS = 1000
_RAMP_PIECES = 1000
# Rates are counted in billionths.
_PLACES = 9


class Seed(NamedTuple):
    """Of arrivals at random.

    Attributes:
        number: the same number gives the same arrivals.
        stream: those of the first end; each further one has the next stream.
    """

    number: int
    stream: int = 0

    def __str__(self) -> str:
        return ":".join(["poisson", str(self.number), *([str(self.stream)] if self.stream else [])])


class RateStep(NamedTuple):
    """One step.

    Attributes:
        first: messages/s at its begin.
        last: messages/s at its end; differs only for a ramp.
        seconds: its length.
    """

    first: int | Fraction
    last: int | Fraction
    seconds: int


class Piece(NamedTuple):
    """A part of the schedule with one rate.

    Attributes:
        begin: nanoseconds since the start of the schedule.
        rate: messages/s.
    """

    begin: int
    rate: int | Fraction


def billionths(rate: float | Fraction) -> int:
    """Return a rate in billionths of a message per second."""
    return round(rate * _SECOND)


def exact_rate(count: int) -> int | Fraction:
    """Return a rate from billionths of a message per second."""
    whole, rest = divmod(count, _SECOND)
    if rest == 0:
        return whole
    # Imported late: every arrow imports this module, and most rates are whole.
    from fractions import Fraction

    return Fraction(count, _SECOND)


def rate_text(rate: float | Fraction) -> str:
    """Return a rate as text, with all its digits."""
    whole, rest = divmod(billionths(rate), _SECOND)
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)


def parse_rate(text: str) -> int | Fraction:
    """Return the rate of a text such as ``500``, ``10k`` or ``0.5``.

    Raises:
        UsageError: it is no rate.
    """
    number = fixed_point(text, COUNTS, _PLACES)
    if number is None:
        raise UsageError(f"rate '{text}' is no number of messages per second, such as 10k or 0.5")
    rate = exact_rate(number)
    if rate > _FASTEST:
        raise UsageError(f"rate '{text}' is above {_FASTEST} messages per second")
    if rate > _FASTEST_FRACTION and not isinstance(rate, int):
        raise UsageError(f"rate '{text}' is no whole number, and above {_FASTEST_FRACTION}")
    return rate


def parse_rate_steps(text: str, name: str = "rate-steps") -> tuple[RateStep, ...]:
    """Return the steps of a text such as ``10k:30s,10k..50k:1m``; none for no text.

    Raises:
        UsageError: a step is malformed; the message names the step, and calls the option ``name``.
    """
    if not text:
        return ()
    steps = tuple(_step(part, name) for part in text.split(","))
    if len(steps) > _MOST_STEPS:
        raise UsageError(f"{name}: {len(steps)} are more than {_MOST_STEPS}")
    if total_seconds(steps) > _LONGEST:
        raise UsageError(f"{name}: {total_seconds(steps)} s are more than {_LONGEST}")
    return steps


def parse_arrivals(text: str, name: str = "arrivals") -> Seed | None:
    """Return the seed of a text such as ``poisson:7``; None for no text.

    Raises:
        UsageError: it is malformed; the message calls the option ``name``.
    """
    if not text:
        return None
    kind, *numbers = text.split(":")
    known = all(one.isdecimal() and one.isascii() and int(one) < 2**32 for one in numbers)
    if kind != "poisson" or not known or len(numbers) > 2:
        raise UsageError(f"{name}: '{text}' is not poisson or poisson:SEED, such as poisson:7")
    return Seed(*map(int, numbers or ["1"]))


def _step(text: str, name: str) -> RateStep:
    rates, _, duration = text.partition(":")
    first, dots, last = rates.partition("..")
    time = microseconds(duration)
    if time is None or None in (
        fixed_point(rate, COUNTS, _PLACES) for rate in (first, last if dots else first)
    ):
        raise UsageError(
            f"{name}: '{text}' is not RATE:DURATION or RATE..RATE:DURATION, such as 10k:30s"
        )
    try:
        begin = parse_rate(first)
        end = parse_rate(last) if dots else begin
    except UsageError as error:
        raise UsageError(f"{name}: '{text}': {error}") from None
    if min(begin, end) == 0:
        raise UsageError(f"{name}: '{text}': a rate of 0 sends nothing")
    seconds, part = divmod(time, 10**6)
    if part or seconds < 1:
        raise UsageError(f"{name}: '{text}': a step takes whole seconds, 1s at least")
    return RateStep(begin, end, seconds)


def total_seconds(steps: Sequence[RateStep]) -> int:
    """Return the length of all steps together."""
    return sum(step.seconds for step in steps)


def schedule_of(rate: int | Fraction, steps: Sequence[RateStep] = ()) -> list[Piece]:
    """Return the schedule of steps, or else of a rate; empty without both.

    The last rate goes on. A rate of 0 is none.
    """
    if not steps:
        return [Piece(0, rate)] if rate else []
    found = []
    begin = 0
    for step in steps:
        span = step.seconds * _SECOND
        for number, rate in enumerate(rates := _ramp(step)):
            found.append(Piece(begin + span * number // len(rates), rate))
        begin += span
    if steps[-1].last != steps[-1].first:
        found.append(Piece(begin, steps[-1].last))
    return found


def _ramp(step: RateStep) -> list[int | Fraction]:
    """Return the rates of a step's pieces: each is the rate at the piece's middle."""
    whole = isinstance(step.first, int) and isinstance(step.last, int)
    unit = 1 if whole else _SECOND
    first, change = round(step.first * unit), round((step.last - step.first) * unit)
    count = min(_RAMP_PIECES, max(1, abs(change)))
    rates = [first + change * (2 * number + 1) // (2 * count) for number in range(count)]
    return [*rates] if whole else [exact_rate(rate) for rate in rates]


def messages_due(schedule: Sequence[Piece], elapsed: int) -> int:
    """Return how many messages are due ``elapsed`` nanoseconds after the start."""
    return parts_due(schedule, elapsed) // _SECOND + 1


def parts_due(schedule: Sequence[Piece], elapsed: int) -> int:
    """Return the billionths of messages that are due ``elapsed`` nanoseconds after the start."""
    begins = [piece.begin for piece in schedule]
    passed = bisect_right(begins, elapsed)
    ends = [*begins[1:passed], elapsed]
    spans = zip(schedule[:passed], ends, strict=True)
    return int(sum((end - piece.begin) * piece.rate for piece, end in spans) // 1)


def times_due(schedule: Sequence[Piece], indices: Iterable[int]) -> list[int]:
    """Return when messages, by their numbers from 0, are due: nanoseconds after the start."""
    return times_of_parts(schedule, (index * _SECOND for index in indices))


def times_of_parts(schedule: Sequence[Piece], parts: Iterable[int]) -> list[int]:
    """Return when so many billionths of messages are due: nanoseconds after the start."""
    # In billionths of a message, so that no piece rounds the rest of the pieces before it.
    before: list[int | Fraction] = [0]
    for piece, following in pairwise(schedule):
        before.append(before[-1] + (following.begin - piece.begin) * piece.rate)
    found = []
    for part in parts:
        place = bisect_right(before, part) - 1
        piece = schedule[place]
        found.append(piece.begin - (before[place] - part) // piece.rate)
    return found
