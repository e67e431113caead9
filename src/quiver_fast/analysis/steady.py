"""The steady part of a run, without its warm-up and ramp-down; and stalls within it.

Of the whole seconds of the run (the first and the last are cut by its ends), up to the end
of the sending: what is drained afterwards is no part of it.

A run that keeps the rate it was asked for is steady. Seconds at its ends are left out
only while they are more than 10 % off that rate. Of any other run MSER decides how many
seconds to leave out. MSER (White, "An Effective Truncation Heuristic for Bias Reduction
in Simulation Output", Simulation 69(6), 1997) removes the d first observations that
minimise the squared standard error of the mean of the others,

    MSER(d) = sum((x[i] - mean(x[d:]))**2 for i >= d) / (n - d)**2

It is applied to the counts per second from the front (warm-up) and, to what is
left, from the back (ramp-down). Either way at most a third of the whole seconds is left
out at each end. Fewer than six whole seconds have no steady state that could be told, nor
has a run that is silent in most of its seconds: one late message is no steady silence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.windows import SecondCounts

__all__ = [
    "BY_MSER", "BY_RATE", "MINIMUM_SECONDS", "STALL_SHARE", "Stall", "Steady", "measured_seconds",
    "stalls", "steady_state",
]  # fmt: skip

MINIMUM_SECONDS = 6
_LARGEST_SHARE = 3

BY_RATE, BY_MSER = "rate", "MSER"
_RATE_TOLERANCE = 0.1

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
        rule: what the ends were left out by: "rate" or "MSER".
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
class Stall:
    """Consecutive seconds in which next to nothing arrived.

    Attributes:
        first: the epoch second it begins with.
        seconds: its length.
        count: messages that arrived nevertheless.
    """

    first: int
    seconds: int
    count: int


def steady_state(
    counts: SecondCounts, rate: float = 0, until: float | None = None
) -> Steady | None:
    """Return the steady part of a run, or None where it cannot be told.

    That is, of under six whole seconds, or with no message in half of them.

    Args:
        counts: messages per second.
        rate: messages/s that the run was asked for; 0 for none.
        until: epoch seconds of the end of the sending; None for the last message.
    """
    whole = measured_seconds(counts, until)
    if len(whole.seconds) < MINIMUM_SECONDS or whole.sparse or np.median(whole.counts) == 0:
        return None
    limit = len(whole.seconds) // _LARGEST_SHARE
    by_rate = rate > 0 and not bool(_off(np.median(whole.counts), rate))
    if by_rate:
        warm_up, ramp_down = (
            _off_rate(part, rate, limit) for part in (whole.counts, whole.counts[::-1])
        )
    else:
        warm_up = _truncation(whole.counts, limit)
        ramp_down = _truncation(whole.counts[warm_up:][::-1], limit)
    end = len(whole.seconds) - ramp_down
    return Steady(
        first=int(whole.seconds[warm_up]),
        last=int(whole.seconds[end - 1]),
        warm_up=warm_up,
        ramp_down=ramp_down,
        count=int(whole.counts[warm_up:end].sum()),
        rule=BY_RATE if by_rate else BY_MSER,
    )


def measured_seconds(counts: SecondCounts, until: float | None = None) -> SecondCounts:
    """Return the whole seconds of a run, up to the end of the sending if that is known."""
    whole = counts.whole()
    if until is None:
        return whole
    end = int(np.searchsorted(whole.seconds, until - 1, side="right"))
    return SecondCounts(whole.seconds[:end], whole.counts[:end], sparse=whole.sparse)


def _off(counts: NDArray[np.int64] | np.float64, rate: float) -> NDArray[np.bool_] | np.bool_:
    """Say which counts are off the rate by more than 10 %, and by more than a message."""
    return np.abs(counts - rate) > max(_RATE_TOLERANCE * rate, 1)


def _off_rate(counts: NDArray[np.int64], rate: float, limit: int) -> int:
    """Return how many of the first ``limit`` counts, one after the other, are off the rate."""
    kept = np.flatnonzero(~np.asarray(_off(counts[:limit], rate)))
    return int(kept[0]) if len(kept) else limit


def _truncation(counts: NDArray[np.int64], limit: int) -> int:
    """Return the d in 0..limit that minimises MSER(d), the smallest of equals.

    ``counts`` has more than ``limit`` elements.
    """
    sizes = np.arange(len(counts), 0, -1, dtype=np.float64)
    # Deviations from one number keep the sums of squares small and exact.
    offsets = (counts - counts[-1]).astype(np.float64)
    sums = np.cumsum(offsets[::-1])[::-1]
    squares = np.cumsum((offsets * offsets)[::-1])[::-1]
    errors = (squares - sums * sums / sizes) / (sizes * sizes)
    return int(np.argmin(errors[: limit + 1]))


def stalls(counts: SecondCounts, until: float | None = None) -> list[Stall]:
    """Return the stalls among the whole seconds up to ``until``, in order of time.

    A second is stalled when its count is below 10 % of the median of the run's whole
    seconds; a stall is a longest series of stalled seconds. Pauses shorter than about
    a second do not show. A run that is silent in most of its seconds has none.
    """
    whole = measured_seconds(counts, until)
    if len(whole.seconds) == 0 or whole.sparse:
        return []
    stalled = whole.counts < STALL_SHARE * np.median(whole.counts)
    edges = np.flatnonzero(np.diff(stalled.astype(np.int8), prepend=0, append=0))
    return [
        Stall(int(whole.seconds[start]), int(end - start), int(whole.counts[start:end].sum()))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]
