"""Latency statistics: upstream's figures in milliseconds, and exact ones in the clock's unit."""

from __future__ import annotations

from typing import Any

from quiver_fast.analysis.spilled import Latencies
from quiver_fast.analysis.units import per_millisecond

__all__ = ["NINES", "QUARTILES", "RANKS", "exact_latency", "upstream_latency"]

QUARTILES = (0, 25, 50, 75, 100)
NINES = (90, 99, 99.9, 99.99, 99.999)
RANKS = (0, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100)


def upstream_latency(latencies: Latencies, unit: str) -> dict[str, Any]:
    """Return ``latency_average``, ``latency_quartiles`` and ``latency_nines`` in milliseconds.

    The average is the mean; percentiles are NumPy's, truncated to int towards
    zero, as upstream does. Without samples each is None.

    Args:
        latencies: signed latencies in ``unit``.
        unit: "ms", "us" or "ns".
    """
    if latencies.total == 0:
        return dict.fromkeys(("latency_average", "latency_quartiles", "latency_nines"))
    ticks = per_millisecond(unit)
    return {
        "latency_average": latencies.mean() / ticks,
        "latency_quartiles": [int(x / ticks) for x in latencies.percentiles(QUARTILES)],
        "latency_nines": [int(x / ticks) for x in latencies.percentiles(NINES)],
    }


def exact_latency(latencies: Latencies, unit: str) -> dict[str, Any]:
    """Return the statistics of ``latencies`` in ``unit`` without truncation.

    Keys: ``unit``; ``count``; ``negative`` (samples below zero: the clocks of sender
    and receiver differ); ``mean`` = sum(x) / n; ``stddev`` = sqrt(sum((x - mean)^2) / n);
    ``percentiles``: rank to value, linear between the neighbouring order statistics.
    Without samples ``mean``, ``stddev`` and the percentiles are None.
    """
    if latencies.total == 0:
        values: list[float | None] = [None] * len(RANKS)
        mean, stddev = None, None
    else:
        values = list(latencies.percentiles(RANKS))
        mean, stddev = latencies.mean(), latencies.stddev()
    return {
        "unit": unit,
        "count": latencies.total,
        "negative": latencies.below(0),
        "mean": mean,
        "stddev": stddev,
        "percentiles": {str(rank): value for rank, value in zip(RANKS, values, strict=True)},
    }
