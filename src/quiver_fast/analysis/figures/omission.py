"""Correction of latencies for coordinated omission.

A sender that waits for a slow receiver does not send the messages that would have seen
the worst of the delay. With an expected interval i between messages, each latency v > i
stands for messages that were not sent: they would have had v - i, v - 2 * i, ..., down
to i (HdrHistogram, `copyCorrectedForCoordinatedOmission`; Tene, "How NOT to Measure
Latency", 2013). The corrected distribution holds, for each v, the samples

    v, and v - k * i for k = 1, 2, ... while v - k * i >= i

It is never written out: its counting function has a closed form, so order statistics
are found by bisection, exactly and in the memory of the raw distribution.

The samples that are put back are smaller than v, so a percentile of theirs can be below that of the
records. No message waited less because others were not sent: each figure is at least the raw one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from quiver_fast.analysis.model.distribution import Distribution, exact_dot, interpolated


class CorrectedDistribution:
    """A distribution with the samples that were omitted put back."""

    def __init__(self, raw: Distribution, interval: int) -> None:
        """Correct ``raw`` for an expected ``interval``.

        Args:
            raw: latencies, at least one, in the clock's unit.
            interval: expected time between messages in the same unit, at least 1.
        """
        if interval < 1:
            raise ValueError("the expected interval must be at least one tick")
        self._raw = raw
        self._interval = interval
        self._added = np.maximum(raw.values // interval - 1, 0)
        # Most values put back no sample: they need only a look-up.
        alone = int(np.searchsorted(raw.values, 2 * interval))
        self._alone = Distribution(raw.values[:alone], raw.counts[:alone])
        self._alone_ends = np.concatenate(([0], np.cumsum(self._alone.counts)))
        self._tail = Distribution(raw.values[alone:], raw.counts[alone:])
        self._tail_samples = self._added[alone:] + 1

    @property
    def total(self) -> int:
        """The number of samples, with those put back."""
        return exact_dot(self._added + 1, self._raw.counts)

    def mean(self) -> float:
        """Return the mean of all samples, or the raw one if that is larger."""
        # Per value: v * (m + 1) - i * m * (m + 1) / 2. Python's integers do not overflow.
        values, counts = self._raw.values.tolist(), self._raw.counts.tolist()
        weighted = (
            count * (2 * value * (added + 1) - self._interval * added * (added + 1))
            for value, count, added in zip(values, counts, self._added.tolist(), strict=True)
        )
        return max(int(sum(weighted)) / (2 * self.total), self._raw.mean())

    def at_most(self, limit: int) -> int:
        """Return the number of samples that are not above ``limit``."""
        alone = int(self._alone_ends[np.searchsorted(self._alone.values, limit, side="right")])
        if limit < self._interval:
            return alone  # no sample of the tail is below one interval
        # v stands for v, v - i, ..., v - m * i; count those from k = ceil((v - limit) / i) on.
        skipped = np.maximum(-((limit - self._tail.values) // self._interval), 0)
        kept = np.maximum(self._tail_samples - skipped, 0)
        return alone + exact_dot(kept, self._tail.counts)

    def percentiles(self, ranks: Iterable[float]) -> list[float]:
        """Return the percentiles at ``ranks`` (0 to 100), or the raw ones that are larger.

        Both are by NumPy's default method.
        """
        last, ranks = self.total - 1, list(ranks)
        corrected = (self._percentile(last * (rank / 100), last) for rank in ranks)
        return [max(pair) for pair in zip(corrected, self._raw.percentiles(ranks), strict=True)]

    def _percentile(self, position: float, last: int) -> float:
        index = math.floor(position)
        above = min(index + 1, last)
        low = self._order_statistic(index)
        # Neighbours are mostly equal, and one count is less than another bisection.
        high = low if self.at_most(low) > above else self._order_statistic(above)
        return interpolated(low, high, position - index)

    def _order_statistic(self, index: int) -> int:
        """Return the sample at ``index`` (from 0) in ascending order."""
        # Samples that were put back may be below all recorded ones, but not below the interval.
        low, high = min(self._raw.minimum, self._interval), self._raw.maximum
        while low < high:
            middle = (low + high) // 2
            if self.at_most(middle) > index:
                high = middle
            else:
                low = middle + 1
        return low
