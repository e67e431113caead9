"""Latency statistics: upstream's figures in milliseconds, and exact ones in the clock's unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.ranks import IN_MICROSECONDS, NAMES, NINES, QUARTILES, RANKS
from quiver_fast.analysis.model.units import PER_SECOND, per_millisecond
from quiver_fast.analysis.tables.latencies import Latencies, coarse


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


def latency_of(receiver: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the latencies that a receiver's summary has; None without a summary."""
    return None if receiver is None else receiver.get("latency")


def exact_latency(latencies: Latencies, unit: str) -> dict[str, Any]:
    """Return the statistics of ``latencies`` in ``unit`` without truncation.

    Keys: ``unit``; ``count``; ``negative`` (samples below zero: the clocks of sender
    and receiver differ); ``mean`` = sum(x) / n; ``stddev`` = sqrt(sum((x - mean)^2) / n);
    ``percentiles``: rank to value, linear between the neighbouring order statistics. The
    same in microseconds, as floats: ``p50_us``, ``p90_us``, ``p99_us``, ``p99_9_us``,
    ``p99_99_us``, ``p99_999_us``, ``mean_us``, ``min_us``, ``max_us``.
    Without samples ``mean``, ``stddev``, the percentiles and these are None.
    """
    if latencies.total == 0:
        values: list[float | None] = [None] * len(RANKS)
        mean, stddev = None, None
    else:
        values = list(latencies.percentiles(RANKS))
        mean, stddev = latencies.mean(), latencies.stddev()
    percentiles = dict(zip(NAMES, values, strict=True))
    microseconds = {name: percentiles[str(rank)] for name, rank in IN_MICROSECONDS.items()}
    microseconds["mean_us"] = mean
    return {
        "unit": unit,
        "count": latencies.total,
        "negative": latencies.below(0),
        "mean": mean,
        "stddev": stddev,
        "percentiles": percentiles,
        **{name: _microseconds(value, unit) for name, value in microseconds.items()},
    }


def with_never_sent(latencies: Latencies, unsent: Distribution, unit: str) -> dict[str, Any]:
    """Return the section ``with_never_sent`` of a latency; no section where all was sent.

    Percentiles are of the messages that were sent. Here they are of all that were due: keys
    ``never_sent``, the number of others, ``unit``, ``mean``, ``stddev`` and ``percentiles``
    (:func:`exact_latency`), in which each of these counts at the least that it waited. More than
    65,536 different latencies are rounded down to as many.

    Args:
        latencies: signed, in ``unit``.
        unsent: the waits of those that were never sent (:func:`.schedule.unsent_waits`).
        unit: "ms", "us" or "ns".
    """
    if unsent.total == 0:
        return {}
    all_due = coarse(latencies)[0].merged(unsent)
    percentiles = dict(zip(NAMES, all_due.percentiles(RANKS), strict=True))
    return {
        "with_never_sent": {
            "never_sent": unsent.total,
            "unit": unit,
            "mean": all_due.mean(),
            "stddev": all_due.stddev(),
            "percentiles": percentiles,
        }
    }


def _microseconds(value: float | None, unit: str) -> float | None:
    return None if value is None else value * PER_SECOND["us"] / PER_SECOND[unit]
