"""The steady part of a run, without its warm-up and ramp-down, if it has one; and stalls.

It consists of whole seconds of the run (the first and the last are cut by its ends), up to the
end of the sending: the drain afterwards is no part of it.

A run that keeps the rate it was asked for is steady. Seconds at its ends are left out
only while they are more than 10 % off that rate. For any other run MSER decides how many
seconds to leave out. MSER (White, "An Effective Truncation Heuristic for Bias Reduction
in Simulation Output", Simulation 69(6), 1997) removes the d first observations that
minimise the squared standard error of the mean of the others,

    MSER(d) = sum((x[i] - mean(x[d:]))**2 for i >= d) / (n - d)**2

It is applied to the counts per second from the front (warm-up) and, to what is
left, from the back (ramp-down). At most a third of the whole seconds is left out at each end.
Where MSER asks for more, looking at half of the seconds, it has not seen the end of the
transient, and its answer is rejected (White's rule): then the whole must keep its level too.

MSER always has an answer. Whether what it left keeps its level is another question, which
:mod:`quiver_fast.analysis.figures.constancy` answers: with a trend, a step or an episode in it the
run is not steady. Nor is a run whose queue grew, that was silent in most of its seconds or stalled
between others, or whose latencies do not keep their level
(:mod:`quiver_fast.analysis.figures.latency_level`). Of a run that was asked for a rate the
latencies of all whole seconds count: they are what the target does at that rate. Fewer than six
whole seconds are too short to tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.constancy import Step, Trend, change, detectable, episode
from quiver_fast.analysis.figures.latency_level import latency_change
from quiver_fast.analysis.figures.windows import SecondCounts
from quiver_fast.analysis.model.columns import Rows
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.tables.latencies import Histogram
from quiver_fast.words import counted

STEADY, NOT_STEADY, TOO_SHORT = "steady", "not steady", "too short to tell"

MINIMUM_SECONDS = 6
_LARGEST_SHARE = 3

BY_RATE, BY_MSER = "rate", "MSER"
_RATE_TOLERANCE = 0.1
# The share of the seconds that may be off a rate that is kept.
_MOST_OFF = 0.25
# A level of its own differs by more than this share of the others.
_OWN_LEVEL = 0.1
# One second in ten is below and one above; without a change of level they are closer together
# than this share of the median. Whole messages scatter by some roots of it (Poisson).
_RANKS, _SPREAD, _SCATTER = (10, 90), 0.4, 4
# Fewer messages in a second may be none by chance.
_STALLING = 20
_PIECE = 1 << 16
# Rates from here on are shown without decimals.
_WHOLE = 100

STALL_SHARE = 0.1
"""A second with less than this share of the median count is stalled."""


@dataclass(frozen=True)
class Steady:
    """The steady part of a run.

    Attributes:
        first, last: epoch seconds, both included.
        warm_up: whole seconds left out before.
        ramp_down: whole seconds left out after.
        count: messages within.
        rule: the rule that left the ends out: "rate" or "MSER".
    """

    first: int
    last: int
    warm_up: int
    ramp_down: int
    count: int
    rule: str

    @property
    def seconds(self) -> int:
        """The length in seconds."""
        return self.last - self.first + 1

    @property
    def rate(self) -> float:
        """Messages per second: count / seconds."""
        return self.count / self.seconds


@dataclass(frozen=True)
class Steadiness:
    """Whether a run is steady.

    Attributes:
        verdict: "steady", "not steady" or "too short to tell".
        reason: why it is not steady; None of a steady run.
        part: the steady part; None where there is none.
        step: the step that was seen, ``at`` in seconds from the first message; or None.
        trend: the trend that was seen, or None.
        detectable_step: a step in the midst of the steady part of this share of its rate
            would have been seen in four of five such runs; None where no test was needed.
    """

    verdict: str
    reason: str | None = None
    part: Steady | None = None
    step: Step | None = None
    trend: Trend | None = None
    detectable_step: float | None = None


def steady_state(
    counts: SecondCounts,
    rate: float = 0,
    until: float | None = None,
    latencies: Histogram | None = None,
    growth: float | None = None,
) -> Steadiness:
    """Return whether a run is steady, and its steady part if it is.

    Args:
        counts: messages per second.
        rate: messages/s that the run was asked for; 0 for none.
        until: epoch seconds of the end of the sending; None for the last message.
        latencies: those of the messages; None of a sender's.
        growth: messages/s by which the queue grew; None where it did not.
    """
    if growth is not None:
        return Steadiness(NOT_STEADY, f"queue growth of {_shown(growth)} messages/s")
    whole = measured_seconds(counts, until)
    size = len(whole.seconds)
    if size < MINIMUM_SECONDS:
        return Steadiness(
            TOO_SHORT, f"{size} of at least {counted(MINIMUM_SECONDS, 'whole second')}"
        )
    if whole.sparse or np.median(whole.counts) == 0:
        return Steadiness(NOT_STEADY, _silence(counts, whole, until))
    beginning = _beginning(counts)
    stall = _stall(whole, beginning)
    if stall is not None:
        return Steadiness(NOT_STEADY, stall)
    kept = _kept_rate(whole, rate) if rate > 0 else None
    found = _judged(whole, beginning) if kept is None else _kept_level(whole, kept, beginning)
    if found.part is None or latencies is None:
        return found
    first, last = found.part.first, found.part.last
    if rate > 0:
        first, last = int(whole.seconds[0]), int(whole.seconds[-1])
    moved = latency_change(latencies.within(first, last), beginning)
    return found if moved is None else Steadiness(NOT_STEADY, moved)


def _stall(whole: SecondCounts, beginning: float) -> str | None:
    """Describe the longest stall between other seconds; None without any."""
    if np.median(whole.counts) < _STALLING:
        return None
    low = whole.counts < STALL_SHARE * np.median(whole.counts)
    some = np.flatnonzero(~low)
    inner = np.flatnonzero(np.diff(some) > 1)
    if not len(inner):
        return None
    lengths = some[inner + 1] - some[inner] - 1
    longest = int(np.argmax(lengths))
    at = float(whole.seconds[some[inner[longest]] + 1]) - beginning
    more = f", the longest of {len(inner):,}" if len(inner) > 1 else ""
    return f"stall of {int(lengths[longest]):,} s at {at:.1f} s{more}"


def _kept_level(whole: SecondCounts, kept: Steady, beginning: float) -> Steadiness:
    """Judge a run that keeps its rate on the whole: it has no other one for a while."""
    other = _episode(whole.counts, float(whole.seconds[0]) - beginning)
    return Steadiness(STEADY, part=kept) if other is None else Steadiness(NOT_STEADY, other)


def _judged(whole: SecondCounts, beginning: float) -> Steadiness:
    """Have MSER leave out the ends, and test the rest; where it met its limit, test all too."""
    size = len(whole.counts)
    limit = size // _LARGEST_SHARE
    warm_up, late = _truncation(whole.counts, min(limit, size - MINIMUM_SECONDS))
    most = min(limit, size - warm_up - MINIMUM_SECONDS)
    ramp_down, early = _truncation(whole.counts[warm_up:][::-1], most)
    parts = [(0 if late else warm_up, 0 if early else ramp_down), (warm_up, ramp_down)]
    for front, back in dict.fromkeys(parts):
        counts, start = whole.counts[front : size - back], float(whole.seconds[front]) - beginning
        found = change(counts)
        if found is not None:
            return _not_steady(found, start)
        other = _episode(counts, start) or _spread(counts)
        if other is not None:
            return Steadiness(NOT_STEADY, other)
    part = _part(whole, warm_up, ramp_down, BY_MSER)
    step = detectable(whole.counts[warm_up : size - ramp_down])
    return Steadiness(STEADY, part=part, detectable_step=step)


def _episode(counts: NDArray[np.int64], start: float) -> str | None:
    """Describe seconds with a rate of their own, in counts that begin after ``start``."""
    found = episode(counts)
    if found is None or abs(found.level - found.others) <= _OWN_LEVEL * found.others:
        return None
    times = f"from {start + found.first:.1f} s to {start + found.end:.1f} s"
    return f"{_shown(found.level)} messages/s {times}, {_shown(found.others)} in the rest"


def _spread(counts: NDArray[np.int64]) -> str | None:
    """Describe counts that go up and down by more than one level does."""
    low, middle, high = np.percentile(counts, (_RANKS[0], 50, _RANKS[1]))
    if high - low <= _SPREAD * middle + _SCATTER * np.sqrt(middle):
        return None
    return f"up and down between {_shown(float(low))} and {_shown(float(high))} messages/s"


def _not_steady(found: Step | Trend, start: float) -> Steadiness:
    """Describe a change in counts that begin ``start`` seconds after the first message."""
    if isinstance(found, Trend):
        reason = f"trend of {found.percent_per_minute:+,.3g} %/min"
        return Steadiness(NOT_STEADY, reason, trend=found)
    step = replace(found, at=found.at + start)
    before, after = _shown(step.before), _shown(step.after)
    reason = f"step at {step.at:.1f} s from {before} to {after} messages/s"
    return Steadiness(NOT_STEADY, reason, step=step)


def _shown(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= _WHOLE or rate.is_integer() else f"{rate:,.1f}"


def _silence(counts: SecondCounts, whole: SecondCounts, until: float | None) -> str:
    """Say in how many whole seconds nothing came; those of a sparse run have no cell."""
    last = int(counts.seconds[-1]) if until is None else min(int(counts.seconds[-1]), int(until))
    span = last - int(counts.seconds[0]) - 1
    silent = span - int(np.count_nonzero(whole.counts))
    return f"no message in {silent:,} of {span:,} whole seconds"


def _beginning(counts: SecondCounts) -> float:
    """Return when a run begins, in epoch seconds: with its first message, if that is known."""
    first = float(counts.seconds[0])
    # The first record need not be the earliest, but stands for it within its own second.
    return first if counts.first is None else min(max(counts.first / 1000, first), first + 1)


def _part(whole: SecondCounts, warm_up: int, ramp_down: int, rule: str) -> Steady:
    end = len(whole.seconds) - ramp_down
    return Steady(
        first=int(whole.seconds[warm_up]),
        last=int(whole.seconds[end - 1]),
        warm_up=warm_up,
        ramp_down=ramp_down,
        count=int(whole.counts[warm_up:end].sum()),
        rule=rule,
    )


def _kept_rate(whole: SecondCounts, rate: float) -> Steady | None:
    """Return the part that keeps ``rate``; None where median, mean or many seconds do not."""
    tolerated = max(_RATE_TOLERANCE * rate, _SCATTER * np.sqrt(rate))
    off = np.abs(whole.counts - rate) > tolerated
    if _off(np.median(whole.counts), rate) or np.mean(off) > _MOST_OFF:
        return None
    limit = len(whole.counts) // _LARGEST_SHARE
    ends = [_off_rate(part, rate, limit) for part in (whole.counts, whole.counts[::-1])]
    part = _part(whole, ends[0], ends[1], BY_RATE)
    return None if _off(np.float64(part.rate), rate) else part


def measured_seconds(counts: SecondCounts, until: float | None = None) -> SecondCounts:
    """Return the whole seconds of a run, up to the end of the sending if that is known."""
    whole = counts.whole()
    if until is None:
        return whole
    end = int(np.searchsorted(whole.seconds, until - 1, side="right"))
    seconds, counted = whole.seconds[:end], whole.counts[:end]
    last = int(until) - 1
    if not whole.sparse or end == 0:
        return SecondCounts(seconds, counted, sparse=whole.sparse)
    # The message after a gap may have come after the end; the silence until the end counts.
    if seconds[-1] < last:
        seconds, counted = np.append(seconds, last), np.append(counted, 0)
    return SecondCounts.of(Distribution(seconds, counted))


def _off(counts: NDArray[np.int64] | np.float64, rate: float) -> NDArray[np.bool_] | np.bool_:
    """Say which counts are off the rate by more than 10 %, and by more than a message."""
    return np.abs(counts - rate) > max(_RATE_TOLERANCE * rate, 1)


def _off_rate(counts: NDArray[np.int64], rate: float, limit: int) -> int:
    """Return how many of the first ``limit`` counts, one after the other, are off the rate."""
    kept = np.flatnonzero(~np.asarray(_off(counts[:limit], rate)))
    return int(kept[0]) if len(kept) else limit


def _truncation(counts: NDArray[np.int64], limit: int) -> tuple[int, bool]:
    """Return the d up to ``limit`` that minimises MSER(d), and whether that is at the limit.

    The smallest of equals is returned. A d that is better beyond the limit, within the first
    half of the counts, counts as at the limit.
    """
    half = max(len(counts) // 2, limit)
    within = beyond = (np.inf, 0)
    total = squares = 0.0
    # Pieces are summed from the end: each sum starts with that of the piece behind it.
    for end in range(len(counts), 0, -_PIECE):
        start = max(end - _PIECE, 0)
        # Deviations from one number keep the sums of squares small and exact.
        offsets = (counts[start:end] - counts[-1]).astype(np.float64)
        sums = np.cumsum(np.append(total, offsets[::-1]))[:0:-1]
        powers = np.cumsum(np.append(squares, (offsets * offsets)[::-1]))[:0:-1]
        total, squares = float(sums[0]), float(powers[0])
        sizes = np.arange(len(counts) - start, len(counts) - end, -1, dtype=np.float64)
        errors = (powers - sums * sums / sizes) / (sizes * sizes)
        within = min(within, _least(errors, start, limit))
        beyond = min(beyond, _least(errors, start, half))
    return within[1], beyond[1] >= limit


def _least(errors: NDArray[np.float64], start: int, limit: int) -> tuple[float, int]:
    """Return the smallest of those up to the index ``limit``, and the first index it is at.

    Args:
        errors: float64[n].
        start: the index of the first.
        limit: an index.
    """
    if start > limit:
        return np.inf, limit
    best = int(np.argmin(errors[: limit + 1 - start]))
    return float(errors[best]), start + best


def stalls(counts: SecondCounts, until: float | None = None) -> Rows:
    """Return the stalls among the whole seconds up to ``until``, in order of time.

    A second is stalled when its count is below 10 % of the median of the run's whole
    seconds; a stall is a longest series of stalled seconds. Pauses shorter than about
    a second do not show. A run that is silent in most of its seconds has none.

    Returns:
        For each stall ``first`` (the epoch second it begins with), ``seconds`` (its length)
        and ``count`` (messages that arrived nevertheless).
    """
    whole = measured_seconds(counts, until)
    stalled = np.zeros(len(whole.seconds), np.int8)
    if len(stalled) and not whole.sparse:
        stalled[:] = whole.counts < STALL_SHARE * np.median(whole.counts)
    edges = np.flatnonzero(np.diff(stalled, prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    sums = np.zeros(0, np.int64)
    if len(starts):
        # Messages between two stalls belong to neither.
        sums = np.add.reduceat(np.where(stalled, whole.counts, 0), starts)
    return Rows({"first": whole.seconds[starts], "seconds": ends - starts, "count": sums})
