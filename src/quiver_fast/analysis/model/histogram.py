"""The unit of exchange of all analysis: an integer latency histogram per second.

Latencies are integers of the clock's unit, so a histogram loses nothing of them:
percentiles, means and comparisons computed from it are exact, and two of them
merge by adding. Every backend (local, Spark) ends in this table, and every
statistic and plot begins from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Distribution


@dataclass(frozen=True)
class SecondHistogram:
    """How many messages were received in each second with each latency.

    Attributes:
        seconds: epoch seconds of the receive time, int64, ascending.
        latencies: receive time minus send time, in ``unit``, signed int64; ascending
            within a second. No (second, latency) stands twice.
        counts: messages, int64, each at least 1.
        unit: ``ms``, ``us`` or ``ns``.
    """

    seconds: NDArray[np.int64]
    latencies: NDArray[np.int64]
    counts: NDArray[np.int64]
    unit: str

    @property
    def total(self) -> int:
        """Number of messages."""
        return int(self.counts.sum())

    @classmethod
    def from_rows(
        cls,
        seconds: NDArray[np.int64],
        latencies: NDArray[np.int64],
        counts: NDArray[np.int64],
        unit: str,
    ) -> SecondHistogram:
        """Sort rows in any order, with repetitions, into a histogram."""
        order = np.lexsort((latencies, seconds))
        seconds, latencies, counts = seconds[order], latencies[order], counts[order]
        if len(order) == 0:
            return cls(seconds, latencies, counts, unit)
        fresh = np.concatenate(([True], (np.diff(seconds) != 0) | (np.diff(latencies) != 0)))
        starts = np.flatnonzero(fresh)
        return cls(seconds[starts], latencies[starts], np.add.reduceat(counts, starts), unit)

    def parts(self) -> Iterator[SecondHistogram]:
        """Yield the histogram, as those that are on file do in pieces."""
        yield self

    def within(self, first: int, last: int) -> SecondHistogram:
        """Return the messages received in the seconds ``first`` to ``last``, both included."""
        low = np.searchsorted(self.seconds, first, side="left")
        high = np.searchsorted(self.seconds, last, side="right")
        chosen = slice(int(low), int(high))
        return SecondHistogram(
            self.seconds[chosen], self.latencies[chosen], self.counts[chosen], self.unit
        )

    def distribution(self) -> Distribution:
        """Return the distribution of all latencies, in ``unit``."""
        return Distribution(*self.overall())

    def overall(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (latencies, counts) over all seconds, latencies ascending and distinct."""
        latencies, where = np.unique(self.latencies, return_inverse=True)
        counts = np.zeros(len(latencies), dtype=np.int64)
        np.add.at(counts, where, self.counts)
        return latencies, counts
