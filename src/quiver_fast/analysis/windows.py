"""Windows of one second: message counts and latency figures, from the histogram per second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.histogram import SecondHistogram
from quiver_fast.analysis.units import PER_SECOND, per_millisecond

__all__ = ["SecondCounts", "latency_windows", "of_differences", "overall", "within"]

# A chunk's temporaries stay at a few tens of megabytes.
_CHUNK = 1 << 21


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
    def of_times(cls, times: Int64Array, unit: str) -> SecondCounts:
        """Count ``times`` (int64, in ``unit``, any order) by second."""
        found = Distribution.of(times // PER_SECOND[unit])
        return cls._filled(found.values, found.counts)

    @classmethod
    def of_histogram(cls, histogram: SecondHistogram) -> SecondCounts:
        """Count the messages of ``histogram`` by second."""
        starts = _starts(histogram.seconds)
        if len(starts) == 0:
            return cls._filled(histogram.seconds, histogram.counts)
        counts = np.add.reduceat(histogram.counts, starts)
        return cls._filled(histogram.seconds[starts], counts)

    @classmethod
    def _filled(cls, seconds: Int64Array, counts: Int64Array) -> SecondCounts:
        if len(seconds) == 0:
            return cls(seconds, counts)
        every = np.arange(seconds[0], seconds[-1] + 1, dtype=np.int64)
        filled = np.zeros(len(every), np.int64)
        filled[seconds - seconds[0]] = counts
        return cls(every, filled)

    def whole(self) -> SecondCounts:
        """Return all but the first and the last second, which are cut by the run's ends."""
        return SecondCounts(self.seconds[1:-1], self.counts[1:-1])


def of_differences(received: Int64Array, sent: Int64Array, unit: str) -> SecondHistogram:
    """Return the histogram of ``received - sent`` by the second of ``received``.

    Args:
        received: int64, receive times in ``unit``, any order.
        sent: int64, the send times, the same length.
        unit: "ms", "us" or "ns".
    """
    empty = np.empty(0, np.int64)
    parts = [SecondHistogram(empty, empty, empty, unit)]
    for start in range(0, len(received), _CHUNK):
        times = received[start : start + _CHUNK]
        latencies = times - sent[start : start + _CHUNK]
        ones = np.ones(len(times), np.int64)
        seconds = times // PER_SECOND[unit]
        parts.append(SecondHistogram.from_rows(seconds, latencies, ones, unit))
    return SecondHistogram.from_rows(
        np.concatenate([part.seconds for part in parts]),
        np.concatenate([part.latencies for part in parts]),
        np.concatenate([part.counts for part in parts]),
        unit,
    )


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
    rows = [part.percentiles(ranks) for _, part in _by_second(histogram)]
    table = np.array(rows, np.float64).reshape(len(rows), len(ranks))
    return histogram.seconds[_starts(histogram.seconds)], table / per_millisecond(histogram.unit)


def _by_second(histogram: SecondHistogram) -> Iterator[tuple[int, Distribution]]:
    starts = _starts(histogram.seconds)
    ends = np.append(starts, len(histogram.seconds))[1:]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = Distribution(histogram.latencies[start:end], histogram.counts[start:end])
        yield int(histogram.seconds[start]), part


def _starts(seconds: Int64Array) -> Int64Array:
    """Return the index of the first row of each second."""
    return np.flatnonzero(np.diff(seconds, prepend=seconds[:1] - 1))
