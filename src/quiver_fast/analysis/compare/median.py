"""The median of a few runs, and how far the median of all such runs may be from it."""

from __future__ import annotations

import math
from collections.abc import Sequence

_CONFIDENCE = 0.95

LEAST_VALUES = 6
"""Values from which their smallest and largest enclose the median in 95 of 100 cases."""


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median; None for under six values.

    The bounds are values themselves: the k-th smallest and the k-th largest. Whatever the
    distribution, they miss the median with the probability that a fair coin falls on one
    side fewer than k times in n throws, twice (David and Nagaraja, Order Statistics, 2003,
    section 7.1). The largest k is taken that keeps 95 %.
    """
    ordered = sorted(values)
    n = len(ordered)
    outside, k = 0.0, 0
    while k < n // 2:
        outside += 2 * math.comb(n, k) / 2**n
        if outside > 1 - _CONFIDENCE:
            break
        k += 1
    return (ordered[k - 1], ordered[n - k]) if k else None
