"""HdrHistogram's percentile distribution (``.hgrm``), byte for byte as Java's prints it.

The Python port steps through the percentiles in another way, and prints a mean in
milliseconds beside a standard deviation in nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Distribution, Int64Array

HIGHEST_NS = 24 * 3600 * 10**9
"""The longest latency that is counted: a day."""

_NS_PER_MS = 1e6
# Three significant digits need 2 * 10^3 sub-buckets, rounded up to a power of two.
_SUB_BUCKETS = 2048
_BUCKETS = 1 + math.floor(math.log2(HIGHEST_NS / _SUB_BUCKETS)) + 1
_TICKS_PER_HALF = 5


class BucketCounts:
    """Latencies from 0 ns to a day, counted in HdrHistogram's buckets of three digits."""

    def __init__(self) -> None:
        self._lowest = Distribution.none()

    def add(self, latencies: Int64Array, counts: Int64Array) -> None:
        """Add ``counts`` of ``latencies`` (nanoseconds, int64, 0 to :data:`HIGHEST_NS`)."""
        sizes = _sizes(latencies)
        self._lowest = self._lowest.merged(
            Distribution.of_counted(latencies // sizes * sizes, counts)
        )

    def text(self) -> str:
        """Return the distribution in milliseconds. There must be a latency."""
        lines = [
            f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}",
            "",
        ]
        lines += self._lines()
        mean, deviation, highest = self._figures()
        total = self._lowest.total
        lines += [
            f"#[Mean    = {_fixed(mean, 3):>12}, StdDeviation   = {_fixed(deviation, 3):>12}]",
            f"#[Max     = {_fixed(highest, 3):>12}, Total count    = {total:>12}]",
            f"#[Buckets = {_BUCKETS:>12}, SubBuckets     = {_SUB_BUCKETS:>12}]",
        ]
        return "\n".join(lines) + "\n"

    def _lines(self) -> Iterator[str]:
        values = self._lowest.values
        highest = (values + _sizes(values) - 1) / _NS_PER_MS
        totals = np.cumsum(self._lowest.counts)
        for row, level in _levels(totals):
            cells = f"{_fixed(highest[row], 3):>12} {_fixed(level / 100, 12)} {totals[row]:>10}"
            if level != 100:
                cells += f" {_fixed(1 / (1 - level / 100), 2):>14}"
            yield cells

    def _figures(self) -> tuple[float, float, float]:
        """Return mean, standard deviation and maximum in milliseconds."""
        values, counts = self._lowest.values, self._lowest.counts
        sizes = _sizes(values)
        middles = (values + sizes // 2).astype(np.float64)
        mean = float(np.dot(middles, counts)) / self._lowest.total
        squares = float(np.dot((middles - mean) ** 2, counts)) / self._lowest.total
        highest = float(values[-1] + sizes[-1] - 1)
        return mean / _NS_PER_MS, math.sqrt(squares) / _NS_PER_MS, highest / _NS_PER_MS


def _levels(totals: NDArray[np.int64]) -> Iterator[tuple[int, float]]:
    """Yield (row, percentile): five steps for each halving of the distance to 100 %.

    A row is the first whose share of all reaches the level; the last stands at 100 besides.
    """
    level, row, total = 0.0, 0, int(totals[-1])
    while row < len(totals):
        if 100.0 * int(totals[row]) / total < level:
            row += 1
            continue
        yield row, level
        if row == len(totals) - 1:
            break
        halvings = int(math.log(100 / (100 - level)) / math.log(2)) + 1
        level += 100.0 / (_TICKS_PER_HALF * 2**halvings)
    yield len(totals) - 1, 100.0


def _sizes(latencies: Int64Array) -> Int64Array:
    """Return how many values the bucket of each latency has."""
    # frexp of an integer below 2^53 gives its number of bits.
    bits = np.frexp(latencies.astype(np.float64))[1].astype(np.int64)
    return np.int64(1) << np.maximum(bits - (_SUB_BUCKETS - 1).bit_length(), 0)


def _fixed(value: float, decimals: int) -> str:
    """Return ``value`` with ``decimals``, rounded half up from its shortest digits as Java does."""
    step = Decimal(1).scaleb(-decimals)
    return f"{Decimal(repr(float(value))).quantize(step, ROUND_HALF_UP):f}"
