"""Windows of one second: message counts and latency figures, from the histogram per second."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.histogram import SecondHistogram
from quiver_fast.analysis.series import latencies_per_second
from quiver_fast.analysis.units import per_millisecond

__all__ = ["SecondCounts", "latency_windows", "overall", "within"]


@dataclass(frozen=True)
class SecondCounts:
    """How many messages each second of a run had.

    Attributes:
        seconds: epoch seconds, int64, ascending and without gaps.
        counts: messages, int64; 0 in a second without any.
    """

    seconds: Int64Array
    counts: Int64Array

    @classmethod
    def of(cls, messages: Distribution) -> SecondCounts:
        """Fill the gaps of ``messages``, a distribution over epoch seconds."""
        seconds, counts = messages.values, messages.counts
        if len(seconds) == 0:
            return cls(seconds, counts)
        every = np.arange(seconds[0], seconds[-1] + 1, dtype=np.int64)
        filled = np.zeros(len(every), np.int64)
        filled[seconds - seconds[0]] = counts
        return cls(every, filled)

    @classmethod
    def of_histogram(cls, histogram: SecondHistogram) -> SecondCounts:
        """Count the messages of ``histogram`` by second."""
        return cls.of(Distribution.of_counted(histogram.seconds, histogram.counts))

    def whole(self) -> SecondCounts:
        """Return all but the first and the last second, which are cut by the run's ends."""
        return SecondCounts(self.seconds[1:-1], self.counts[1:-1])


def overall(histogram: SecondHistogram) -> Distribution:
    """Return the distribution of all latencies, in the histogram's unit."""
    return Distribution(*histogram.overall())


def within(histogram: SecondHistogram, first: int, last: int) -> SecondHistogram:
    """Return what was received in the epoch seconds ``first`` to ``last``, both included."""
    low = np.searchsorted(histogram.seconds, first, side="left")
    high = np.searchsorted(histogram.seconds, last, side="right")
    return SecondHistogram(
        histogram.seconds[low:high],
        histogram.latencies[low:high],
        histogram.counts[low:high],
        histogram.unit,
    )


def latency_windows(
    histogram: SecondHistogram, ranks: Iterable[float]
) -> tuple[Int64Array, NDArray[np.float64]]:
    """Return the seconds that have messages, and their latency percentiles.

    Args:
        histogram: of n seconds with messages.
        ranks: r percentile ranks, 0 to 100.

    Returns:
        Epoch seconds, int64[n], and latencies in milliseconds, float64[n, r].
    """
    ranks = tuple(ranks)
    rows = [part.percentiles(ranks) for part in latencies_per_second(histogram)]
    table = np.array(rows, np.float64).reshape(len(rows), len(ranks))
    return np.unique(histogram.seconds), table / per_millisecond(histogram.unit)
