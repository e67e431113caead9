"""Windows of one second or more: message counts and latency figures, from the histogram."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.series import percentiles_at, percentiles_per_second
from quiver_fast.analysis.model.columns import Column, SecondRows, pieces_of
from quiver_fast.analysis.model.distribution import Distribution, Float64Array, Int64Array
from quiver_fast.analysis.model.ranks import PER_SECOND
from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.analysis.tables.digests import HistogramDigest
from quiver_fast.analysis.tables.latencies import Histogram
from quiver_fast.analysis.tables.spilled import HistogramRows

_MS_PER_S = 1000
# Over less than a tenth of a second a rate says more about chance than about the run.
_SHORTEST = 0.1
# Seconds without a message have a cell each, up to three days of them, or while they are no
# more than the others. One record of a clock that stepped must not ask for fifty years.
_MOST_FILLED = 1 << 18
_FILLED_SHARE = 2


@dataclass(frozen=True)
class SecondCounts:
    """How many messages each second of a run had.

    Attributes:
        seconds: epoch seconds, int64, ascending; without gaps unless ``sparse``.
        counts: messages, int64; 0 in a second without any.
        sparse: the run is silent for so long that only seconds with messages are there.
        first, last: when the first and the last of them came, epoch milliseconds; None
            where that is not known.
    """

    seconds: Int64Array
    counts: Int64Array
    first: int | None = None
    last: int | None = None
    sparse: bool = False

    @classmethod
    def of(cls, messages: Distribution) -> SecondCounts:
        """Fill the gaps of ``messages``, a distribution over epoch seconds, if they are few."""
        seconds, counts = messages.values, messages.counts
        if len(seconds) == 0:
            return cls(seconds, counts)
        span = int(seconds[-1]) - int(seconds[0]) + 1
        if span > max(_MOST_FILLED, _FILLED_SHARE * len(seconds)):
            return cls(seconds, counts, sparse=True)
        every = np.arange(seconds[0], seconds[-1] + 1, dtype=np.int64)
        filled = np.zeros(len(every), np.int64)
        filled[seconds - seconds[0]] = counts
        return cls(every, filled)

    def between(self, first: int | None, last: int | None) -> SecondCounts:
        """Return the same with ``first`` and ``last``."""
        return replace(self, first=first, last=last)

    def whole(self) -> SecondCounts:
        """Return all but the first and the last second, which are cut by the run's ends."""
        return SecondCounts(self.seconds[1:-1], self.counts[1:-1], sparse=self.sparse)

    @property
    def ends(self) -> SecondCounts:
        """The first and the last second alone, which the run covers in part."""
        seconds = np.concatenate((self.seconds[:1], self.seconds[-1:]))
        return replace(self, seconds=seconds, counts=np.zeros(len(seconds), np.int64))

    @property
    def covered(self) -> Float64Array:
        """How much of each second is between the first and the last message, float64, 0 to 1."""
        return self.covered_of(self.seconds, 1)

    def covered_of(self, starts: Int64Array, length: int) -> Float64Array:
        """Return how much of windows is between the first and the last message.

        Args:
            starts: int64[n], epoch seconds with which the windows begin.
            length: theirs in seconds.

        Returns:
            Seconds, float64[n], above 0.
        """
        if len(starts) == 0:
            return np.empty(0)
        first, last = float(self.seconds[0]), self.seconds[-1] + 1.0
        tick = 1 / _MS_PER_S
        # Records may be out of order: either end is kept within its own second.
        if self.first is not None:
            first = min(max(self.first / _MS_PER_S, first), first + 1 - tick)
        if self.last is not None:
            # The last message came somewhere within its millisecond.
            last = max(min((self.last + 1) / _MS_PER_S, last), last - 1 + tick)
        covered = np.minimum(starts + float(length), last) - np.maximum(starts, first)
        clipped: Float64Array = np.clip(covered, tick, float(length))
        return clipped

    @property
    def rates(self) -> Float64Array:
        """Messages/s of the covered part of each second, float64; NaN where it is too short."""
        return rates(self.counts, self.covered, alone=len(self.counts) == 1)


def rates(counts: Int64Array, covered: Float64Array, *, alone: bool) -> Float64Array:
    """Return counts / covered, and NaN where under a tenth of a second is covered.

    A run that is altogether shorter has its rate nevertheless.

    Args:
        counts: int64[n], messages.
        covered: float64[n], seconds above 0.
        alone: whether the run has one of these only.
    """
    measurable = (covered >= _SHORTEST) | alone
    return np.where(measurable, counts / covered, np.nan)


def latency_windows(
    histogram: Histogram, ranks: Iterable[float]
) -> tuple[Int64Array, NDArray[np.float64]]:
    """Return the seconds that have messages, and their latency percentiles.

    Args:
        histogram: of n seconds with messages.
        ranks: r percentile ranks, 0 to 100.

    Returns:
        Epoch seconds, int64[n], and latencies in milliseconds, float64[n, r].
    """
    seconds, table = percentiles_per_second(histogram, tuple(ranks))
    return seconds, table / per_millisecond(histogram.unit)


def window_section(
    counts: SecondCounts, histogram: Histogram | None, seconds: int
) -> dict[str, Any]:
    """Return message rates and latency percentiles of windows of whole seconds.

    Args:
        counts: of a run.
        histogram: its latencies; None for a sender's.
        seconds: the length of a window; windows begin at multiples of it since the epoch.

    Returns:
        ``seconds``, and columns (:class:`.columns.Column`) of equal length, a row for each
        window from the first with messages to the last (of a sparse run only those with
        messages): ``start`` (epoch seconds), ``count``, ``covered`` (seconds of the window
        between the run's first and last message), ``rate`` = count / covered (None where under
        a tenth of a second is covered), and with ``histogram`` also ``latency_p50``,
        ``latency_p99`` and ``latency_max`` in milliseconds, None in a window without messages.
    """
    some = counts.counts > 0
    windows = counts.seconds[some] // seconds * seconds
    first = np.flatnonzero(np.diff(windows, prepend=windows[:1] - 1))
    rows = SecondRows(windows[first], not counts.sparse, seconds)
    sums = np.add.reduceat(counts.counts[some], first) if len(first) else windows
    count = rows.column(lambda: zip(pieces_of(rows.seconds), pieces_of(sums), strict=True), 0)
    ends = counts.ends

    def covered() -> Iterator[Float64Array]:
        return (ends.covered_of(starts, seconds).round(3) for starts in rows.rows())

    def rated() -> Iterator[Float64Array]:
        start = 0
        for messages in count.pieces():
            end = start + len(messages)
            time = ends.covered_of(rows.between(start, end), seconds)
            yield rates(messages, time, alone=len(rows) == 1)
            start = end

    columns = {
        "start": Column(len(rows), rows.rows),
        "count": count,
        "covered": Column(len(rows), covered),
        "rate": Column(len(rows), rated),
    }
    if histogram is not None:
        regrouped, ticks = _regrouped(histogram, seconds), per_millisecond(histogram.unit)
        for name, rank in PER_SECOND.items():
            columns[name] = rows.column(partial(percentiles_at, regrouped, rank, ticks), np.nan)
    return {"seconds": seconds, **columns}


def _regrouped(histogram: Histogram, seconds: int) -> Histogram:
    """Return ``histogram`` with the first second of its window for each second."""
    if isinstance(histogram, HistogramDigest):
        return histogram.regrouped()
    rows = HistogramRows(histogram.unit)
    for part in histogram.parts():
        rows.add(part.seconds // seconds * seconds, part.latencies, part.counts)
    return rows.total()
