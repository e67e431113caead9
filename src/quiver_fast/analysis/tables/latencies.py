"""Latencies of a run and by the second: in memory, in files, or as digests."""

from __future__ import annotations

from typing import TypeAlias

from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.tables.digests import DistributionDigest, HistogramDigest
from quiver_fast.analysis.tables.spilled import SpilledDistribution, SpilledHistogram

COARSE_BINS = 1 << 16
"""Distinct values that are in memory exactly."""

Histogram: TypeAlias = SecondHistogram | SpilledHistogram | HistogramDigest
Latencies: TypeAlias = Distribution | SpilledDistribution | DistributionDigest


def coarse(latencies: Latencies, *, upwards: bool = False) -> tuple[Distribution, int]:
    """Return a distribution that fits into memory, and the step of its values.

    One of few distinct values comes back as it is, with a step of 1. The values of another are
    rounded to multiples of the step, down (or ``upwards``).
    """
    if len(latencies) <= COARSE_BINS:
        return latencies.in_memory(), 1
    step = coarse_step(latencies.minimum, latencies.maximum)
    shift = step - 1 if upwards else 0
    rounded = Distribution.none()
    for part in latencies.parts():
        values = (part.values + shift) // step * step
        rounded = rounded.merged(Distribution.of_counted(values, part.counts))
    return rounded, step


def coarse_step(minimum: int, maximum: int) -> int:
    """Return the step of a distribution with too many distinct values between these."""
    return 1 << ((maximum - minimum) // COARSE_BINS).bit_length()
