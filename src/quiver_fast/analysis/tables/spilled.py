"""Distributions and histograms that may be too large for memory, with the same answers.

Clocks of microseconds and nanoseconds give nearly every message a latency of its own, and
long runs many seconds. Beyond a few megabytes such tables stand sorted in files
(:mod:`quiver_fast.analysis.tables.sorted_rows`), and each figure is one pass over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np

from quiver_fast.analysis.model.distribution import (
    Distribution,
    Int64Array,
    deviation,
    distinct,
    neighbours,
    percentiles_of,
)
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.tables.sorted_rows import Rows, SortedRows, summed

# Up to this many values are added up with those of other calls.
_FEW_VALUES = 64


class SpilledDistribution:
    """A :class:`.distribution.Distribution` on file, with at least one sample.

    Args:
        rows: (value, count), ascending and distinct when read.
    """

    def __init__(self, rows: SortedRows) -> None:
        self._rows = rows
        self.total = self._distinct = 0
        self.minimum = self.maximum = 0
        for chunk in rows.chunks():
            self.minimum = self.minimum if self.total else int(chunk[0, 0])
            self.maximum = int(chunk[-1, 0])
            self.total += int(chunk[:, 1].sum())
            self._distinct += len(chunk)

    def __len__(self) -> int:
        """Return the number of distinct values."""
        return self._distinct

    def parts(self) -> Iterator[Distribution]:
        """Yield the distribution in pieces of ascending values."""
        for chunk in self._rows.chunks():
            yield Distribution(chunk[:, 0], chunk[:, 1])

    def in_memory(self) -> Distribution:
        """Return the distribution read into memory, 16 bytes for each distinct value."""
        values, counts = np.empty((2, self._distinct), np.int64)
        end = 0
        for part in self.parts():
            start, end = end, end + len(part)
            values[start:end], counts[start:end] = part.values, part.counts
        return Distribution(values, counts)

    def below(self, limit: int) -> int:
        """Return the number of samples smaller than ``limit``."""
        return sum(part.below(limit) for part in self.parts())

    def mean(self) -> float:
        """Return sum(x) / n, with the sum exact."""
        return self._sum / self.total

    @cached_property
    def _sum(self) -> int:
        return sum(part.sum() for part in self.parts())

    def stddev(self) -> float:
        """Return sqrt(sum((x - mean)^2) / n), of the population."""
        return deviation(self.total, self._sum, sum(part.squares() for part in self.parts()))

    def percentiles(self, ranks: Iterable[float]) -> list[float]:
        """Return the percentiles at ``ranks`` as :class:`.distribution.Distribution` does."""
        places = neighbours(self.total, ranks)
        wanted = (index for low, high, _ in places for index in (low, high))
        return percentiles_of(self.order_statistics(wanted), places)

    def order_statistics(self, indices: Iterable[int]) -> dict[int, int]:
        """Return the samples at ``indices`` (from 0) in ascending order."""
        wanted = distinct(np.array(list(indices), np.int64))
        found: dict[int, int] = {}
        before = 0
        for part in self.parts():
            end = before + part.total
            here = wanted[(wanted >= before) & (wanted < end)] - before
            samples = part.order_statistics(here)
            found |= {index + before: sample for index, sample in samples.items()}
            before = end
        return found


class LatencyRows:
    """Adds up samples into a distribution, in memory or on file."""

    def __init__(self) -> None:
        self._rows = SortedRows(2, combine=summed)

    def add(self, values: Int64Array, counts: Int64Array) -> None:
        """Add ``counts`` of ``values`` (int64, equal lengths, any order)."""
        if len(values) > _FEW_VALUES:
            together = Distribution.of_counted(values, counts)
            values, counts = together.values, together.counts
        self._rows.add(values, counts)

    def add_ascending(self, part: Distribution) -> None:
        """Add a distribution, whose values are ascending already."""
        self._rows.add(part.values, part.counts)

    def total(self) -> Distribution | SpilledDistribution:
        """Return the distribution of all."""
        if not self._rows.in_memory:
            return SpilledDistribution(self._rows)
        for rows in self._rows.chunks():
            return Distribution(rows[:, 0].copy(), rows[:, 1].copy())
        return Distribution.none()


@dataclass(frozen=True, eq=False)
class SpilledHistogram:
    """A :class:`.histogram.SecondHistogram` on file.

    Attributes:
        rows: (second, latency, count), ascending and distinct when read.
        unit: ``ms``, ``us`` or ``ns``.
        first, last: epoch seconds; messages outside of them do not count.
    """

    rows: SortedRows
    unit: str
    first: int = -(2**63)
    last: int = 2**63 - 1

    @cached_property
    def total(self) -> int:
        """Number of messages."""
        return sum(part.total for part in self.parts())

    def parts(self) -> Iterator[SecondHistogram]:
        """Yield the histogram in ascending pieces; a second may go on in the next."""
        for chunk in self.rows.chunks():
            low = np.searchsorted(chunk[:, 0], self.first)
            high = np.searchsorted(chunk[:, 0], self.last, "right")
            if low < high:
                yield _histogram(chunk[low:high], self.unit)

    def within(self, first: int, last: int) -> SpilledHistogram:
        """Return the messages received in the seconds ``first`` to ``last``, both included."""
        return replace(self, first=max(first, self.first), last=min(last, self.last))

    def distribution(self) -> Distribution | SpilledDistribution:
        """Return the distribution of all latencies, in ``unit``."""
        return self._distribution

    @cached_property
    def _distribution(self) -> Distribution | SpilledDistribution:
        together = LatencyRows()
        for part in self.parts():
            together.add(part.latencies, part.counts)
        return together.total()


class HistogramRows:
    """Adds up received messages into a histogram, in memory or on file.

    Args:
        unit: ``ms``, ``us`` or ``ns``.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._rows = SortedRows(3, keys=2, combine=summed)

    def add(self, seconds: Int64Array, latencies: Int64Array, counts: Int64Array) -> None:
        """Add messages by epoch second of receipt and latency (int64, any order)."""
        self._rows.add(seconds, latencies, counts)

    def total(self) -> SecondHistogram | SpilledHistogram:
        """Return the histogram of all."""
        if not self._rows.in_memory:
            return SpilledHistogram(self._rows, self._unit)
        for rows in self._rows.chunks():
            return _histogram(rows, self._unit)
        return _histogram(np.empty((0, 3), np.int64), self._unit)


def _histogram(rows: Rows, unit: str) -> SecondHistogram:
    seconds, latencies, counts = (rows[:, column].copy() for column in range(3))
    return SecondHistogram(seconds, latencies, counts, unit)


def each_second(
    histogram: SecondHistogram | SpilledHistogram,
) -> Iterator[tuple[int, Distribution | SpilledDistribution]]:
    """Yield each second that has messages, and their latencies: one second at a time."""
    for number, pieces in groupby(_of_seconds(histogram), key=itemgetter(0)):
        rows = LatencyRows()
        for _, piece in pieces:
            rows.add_ascending(piece)
        yield number, rows.total()


def _of_seconds(
    histogram: SecondHistogram | SpilledHistogram,
) -> Iterator[tuple[int, Distribution]]:
    """Yield each second with some of its latencies; a second may go on in the next."""
    for part in histogram.parts():
        starts = np.flatnonzero(np.diff(part.seconds, prepend=part.seconds[:1] - 1))
        for start, end in pairwise([*starts.tolist(), len(part.seconds)]):
            some = slice(start, end)
            yield int(part.seconds[start]), Distribution(part.latencies[some], part.counts[some])
