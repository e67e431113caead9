"""Exact distributions of integer samples: distinct values with counts.

Latencies are integers in the clock's unit, so a histogram with one bin per
value loses nothing, is small, can be merged, and gives exact order statistics
without sorting all samples.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]

# Counting by offset beats sorting as long as the bins are not many more than the samples.
_BINS_PER_SAMPLE = 4
_FEW_BINS = 1 << 16
_INT64_END, _HALF_END = 1 << 63, 1 << 31

# Elements that are made Python's integers at a time.
_PIECE = 1 << 14
# A value below 2^54 is cut here, so that both halves have squares below 2^60.
_LOW_BITS = 24
_LARGEST_CUT = 1 << 54

Places = list[tuple[int, int, float]]

_Number = TypeVar("_Number", bound=np.number)


@dataclass(frozen=True)
class Distribution:
    """How often each value occurs.

    Attributes:
        values: int64, the distinct values in ascending order.
        counts: int64, the same length; the occurrences of each value, all positive.
    """

    values: Int64Array
    counts: Int64Array

    @classmethod
    def of(cls, samples: Int64Array) -> Distribution:
        """Count the values of ``samples`` (int64, any order)."""
        return cls.of_counted(samples, np.ones(len(samples), np.int64))

    @classmethod
    def of_counted(cls, values: Int64Array, counts: Int64Array) -> Distribution:
        """Add up ``counts`` of ``values`` in any order, with repetitions (int64, equal lengths)."""
        return cls(*_counted(values, counts)) if len(values) else cls.none()

    @classmethod
    def none(cls) -> Distribution:
        """Return the distribution of no samples."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def merged(self, other: Distribution) -> Distribution:
        """Return the distribution of both together."""
        return self.of_counted(
            np.concatenate((self.values, other.values)),
            np.concatenate((self.counts, other.counts)),
        )

    def parts(self) -> Iterator[Distribution]:
        """Yield the distribution, as those that are on file do in pieces."""
        yield self

    def in_memory(self) -> Distribution:
        """Return the distribution, as those that are on file do when they are read."""
        return self

    def __len__(self) -> int:
        """Return the number of distinct values."""
        return len(self.values)

    @property
    def total(self) -> int:
        """The number of samples."""
        return int(self.counts.sum())

    @property
    def minimum(self) -> int:
        """The smallest sample. The distribution must not be empty."""
        return int(self.values[0])

    @property
    def maximum(self) -> int:
        """The largest sample. The distribution must not be empty."""
        return int(self.values[-1])

    def below(self, limit: int) -> int:
        """Return the number of samples smaller than ``limit``."""
        return int(self.counts[: np.searchsorted(self.values, limit)].sum())

    def mean(self) -> float:
        """Return sum(x) / n, with the sum exact. The distribution must not be empty."""
        return self.sum() / self.total

    def sum(self) -> int:
        """Return the sum of the samples, exact. The distribution must not be empty."""
        return exact_dot(self.values, self.counts)

    def squares(self) -> int:
        """Return the sum of the squares of the samples, exact. Must not be empty."""
        largest = max(abs(self.minimum), abs(self.maximum))
        if largest * largest < _INT64_END:
            return exact_dot(self.values * self.values, self.counts)
        if largest < _LARGEST_CUT:
            high, low = self.values >> _LOW_BITS, self.values & ((1 << _LOW_BITS) - 1)
            parts = (high * high, 2 * high * low, low * low)
            words = [exact_dot(part, self.counts) for part in parts]
            return (((words[0] << _LOW_BITS) + words[1]) << _LOW_BITS) + words[2]
        pairs = zip(self.values.tolist(), self.counts.tolist(), strict=True)
        return sum(value * value * count for value, count in pairs)

    def stddev(self) -> float:
        """Return sqrt(sum((x - mean)^2) / n), of the population. Must not be empty."""
        return deviation(self.total, self.sum(), self.squares())

    def order_statistics(self, indices: Iterable[int]) -> dict[int, int]:
        """Return the samples at ``indices`` (from 0) in ascending order."""
        wanted = np.array(list(indices), np.int64)
        found = self.values[np.searchsorted(np.cumsum(self.counts), wanted, "right")]
        return dict(zip(wanted.tolist(), found.tolist(), strict=True))

    def percentiles(self, ranks: Iterable[float]) -> list[float]:
        """Return the percentiles at ``ranks`` (0 to 100) as NumPy's default method does.

        With samples x[0] <= ... <= x[n-1] and h = (n - 1) * rank / 100, the result
        is x[floor(h)] + (h - floor(h)) * (x[floor(h) + 1] - x[floor(h)]).
        The floating-point steps are those of :func:`numpy.percentile`, so that
        results are equal bit for bit. The distribution must not be empty.
        """
        places = neighbours(self.total, ranks)
        return percentiles_of(self.order_statistics(_indices(places)), places)


def neighbours(total: int, ranks: Iterable[float]) -> Places:
    """Return for each rank the two samples that its percentile is between, and how far.

    Args:
        total: the number of samples, above 0.
        ranks: 0 to 100.
    """
    positions = [(total - 1) * (rank / 100) for rank in ranks]
    lows = [math.floor(position) for position in positions]
    return [
        (low, min(low + 1, total - 1), position - low)
        for low, position in zip(lows, positions, strict=True)
    ]


def _indices(places: Places) -> list[int]:
    return sorted({index for low, high, _ in places for index in (low, high)})


def percentiles_of(samples: Mapping[int, int], places: Places) -> list[float]:
    """Return percentiles, given the samples that they are between by their indices."""
    return [interpolated(samples[low], samples[high], fraction) for low, high, fraction in places]


def deviation(total: int, first: int, second: int) -> float:
    """Return the standard deviation of the population, rounded but twice.

    Args:
        total: the number of samples, above 0.
        first: their sum.
        second: the sum of their squares.
    """
    return math.sqrt((total * second - first * first) / (total * total))


def exact_dot(values: Int64Array, counts: Int64Array) -> int:
    """Return the sum of values[i] * counts[i], exact at any size.

    Args:
        values: int64[n].
        counts: int64[n], not negative, with a sum below 2^63.
    """
    if len(values) == 0:
        return 0
    total = int(counts.sum())
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest * total < _INT64_END:
        return int(np.dot(values, counts))
    if total < _HALF_END:
        # In halves of 32 bits each product and each sum stays below 2^63.
        high, low = values >> 32, values & 0xFFFFFFFF
        return (int(np.dot(high, counts)) << 32) + int(np.dot(low, counts))
    pieces = range(0, len(values), _PIECE)
    return sum(_slow_dot(values[i : i + _PIECE], counts[i : i + _PIECE]) for i in pieces)


def sum_of_products(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the sum of one[i] * other[i], with the same bits on every machine.

    The library behind `np.dot` chooses the order of a sum of floats by the processor.
    """
    return float(np.sum(one * other))


def _slow_dot(values: Int64Array, counts: Int64Array) -> int:
    """Do the sum in Python's integers, which do not overflow."""
    return sum(map(operator.mul, values.tolist(), counts.tolist()))


def interpolated(low: int, high: int, fraction: float) -> float:
    """Return the value at ``fraction`` (0 to below 1) of the way from ``low`` to ``high``.

    As NumPy does it (its `_lerp`): from the nearer end.
    """
    if fraction >= 0.5:
        return float(high - (high - low) * (1 - fraction))
    return float(low + (high - low) * fraction)


def _counted(samples: Int64Array, weights: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values of non-empty ``samples``, ascending, and their weights' sums."""
    low = int(samples.min())
    span = int(samples.max()) - low
    if span > max(_FEW_BINS, _BINS_PER_SAMPLE * len(samples)):
        return _sorted_counts(samples, weights)
    # Floating-point sums of the weights are exact below 2^53 messages.
    bins = np.bincount(samples - low, weights)
    offsets = np.flatnonzero(bins)
    return offsets + low, bins[offsets].astype(np.int64)


def _sorted_counts(samples: Int64Array, weights: Int64Array) -> tuple[Int64Array, Int64Array]:
    order = np.argsort(samples)
    samples = samples[order]
    starts = np.flatnonzero(np.append(True, samples[1:] != samples[:-1]))
    return samples[starts], np.add.reduceat(weights[order], starts)


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """Return the distinct values of an array without NaN, ascending, in one dimension.

    `numpy.unique` does the same, but the first call of it imports `numpy.ma`: 7 MB of memory,
    and a fifth of a second on a busy machine.
    """
    ordered = np.sort(values, axis=None)
    return ordered[np.insert(ordered[1:] != ordered[:-1], 0, True)] if len(ordered) else ordered
