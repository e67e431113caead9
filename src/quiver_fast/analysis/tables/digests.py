"""Digests of distributions and histograms: their figures without their rows.

Where the rows of a run are more than one process should hold, others look at them
(``spark_analysis/digests.py``) and send the figures that are asked for. Every figure is the one
that the rows would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np

from quiver_fast.analysis.model.distribution import (
    Distribution,
    deviation,
    neighbours,
    percentiles_of,
)
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.tables.spilled import SpilledDistribution, SpilledHistogram

Extent = tuple[int, int]
"""The first and the last epoch second of a part of a run, both included."""
Asked = set[tuple[str, Extent]]
"""Which parts of which arrows statistics need."""

_ASKED: ContextVar[Asked | None] = ContextVar("asked", default=None)


@dataclass(frozen=True)
class DistributionDigest:
    """A :class:`.distribution.Distribution` of at least one sample, by its digest.

    Attributes:
        total: the number of samples.
        distinct: that of different ones.
        minimum, maximum: the smallest and the largest.
        negative: the number of those below zero.
        first: their sum.
        second: the sum of their squares.
        samples: those at some indices in ascending order, between which percentiles are.
        rounded: all of them, as exact as :func:`.latencies.coarse` has them.
    """

    total: int
    distinct: int
    minimum: int
    maximum: int
    negative: int
    first: int
    second: int
    samples: Mapping[int, int]
    rounded: Distribution

    def __len__(self) -> int:
        """Return the number of distinct values."""
        return self.distinct

    def parts(self) -> Iterator[Distribution]:
        """Yield the rounded distribution."""
        yield self.rounded

    def in_memory(self) -> Distribution:
        """Return the rounded distribution."""
        return self.rounded

    def below(self, limit: int) -> int:
        """Return the number of samples below zero; no other ``limit`` is known."""
        if limit != 0:
            raise ValueError("only the number of samples below zero is known")
        return self.negative

    def mean(self) -> float:
        """Return sum(x) / n, with the sum exact."""
        return self.first / self.total

    def stddev(self) -> float:
        """Return sqrt(sum((x - mean)^2) / n), of the population."""
        return deviation(self.total, self.first, self.second)

    def percentiles(self, ranks: Iterable[float]) -> list[float]:
        """Return the percentiles at ``ranks`` as :class:`.distribution.Distribution` does.

        Raises:
            KeyError: the samples around one of them are not in the digest.
        """
        return percentiles_of(self.samples, neighbours(self.total, ranks))


@contextmanager
def asking() -> Iterator[Asked]:
    """Collect the parts that statistics ask for; the figures computed meanwhile are not used."""
    asked: Asked = set()
    token = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(token)


@dataclass(frozen=True, eq=False)
class HistogramDigest:
    """A :class:`.histogram.SecondHistogram`, by its digests.

    Attributes:
        arrow: whose latencies these are.
        of_seconds: :func:`thinned` latencies of each second.
        of_windows: those of each window, by its first second, where windows are wanted.
        known: the latencies of parts of the run.
        extent: the part of the run.
    """

    arrow: str
    of_seconds: SecondHistogram | SpilledHistogram
    of_windows: SecondHistogram | SpilledHistogram
    known: Mapping[Extent, DistributionDigest]
    extent: Extent

    @property
    def unit(self) -> str:
        """``ms``, ``us`` or ``ns``."""
        return self.of_seconds.unit

    @property
    def total(self) -> int:
        """Number of messages."""
        return self.of_seconds.total

    def parts(self) -> Iterator[SecondHistogram]:
        """Yield a histogram with the same figures in each second, in pieces."""
        return self.of_seconds.parts()

    def within(self, first: int, last: int) -> HistogramDigest:
        """Return the messages received in the seconds ``first`` to ``last``, both included."""
        return replace(self, of_seconds=self.of_seconds.within(first, last), extent=(first, last))

    def regrouped(self) -> HistogramDigest:
        """Return windows in place of seconds: of the length that was asked for beforehand."""
        return replace(self, of_seconds=self.of_windows)

    def distribution(self) -> Distribution | SpilledDistribution | DistributionDigest:
        """Return the distribution of all latencies, in ``unit``.

        Raises:
            KeyError: the digest of this part is not known.
        """
        asked = _ASKED.get()
        if asked is None:
            return self.known[self.extent]
        asked.add((self.arrow, self.extent))
        return self.of_seconds.distribution()


def thinned(latencies: Distribution | SpilledDistribution, ranks: Iterable[float]) -> Distribution:
    """Return as many samples with the same smallest one and percentiles, few of them different.

    Each sample that is needed stands for those up to the next one that is.

    Args:
        latencies: at least one sample.
        ranks: of the percentiles.
    """
    total = latencies.total
    places = neighbours(total, ranks)
    indices = sorted({0} | {index for low, high, _ in places for index in (low, high)})
    samples = latencies.order_statistics(indices)
    counts = np.diff([*indices, total])
    return Distribution.of_counted(np.array([samples[index] for index in indices]), counts)
