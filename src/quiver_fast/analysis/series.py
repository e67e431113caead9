"""Per-second series: message counts and latency percentiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.histogram import SecondHistogram

__all__ = ["latencies_per_second", "per_second", "steady_state"]

_RANKS = {"latency_p50": 50, "latency_p99": 99, "latency_max": 100}
_STEADY_SHARE = 0.9


def per_second(counts: Distribution, histogram: SecondHistogram | None) -> dict[str, list[Any]]:
    """Return counts and, for a receiver, latency percentiles of each epoch second.

    Args:
        counts: messages in each epoch second, by send time (sender) or receive time.
        histogram: the latencies of received messages; None for a sender.

    Returns:
        Columns of equal length: ``second`` (epoch seconds, ascending, only those with
        messages), ``count``, and with ``histogram`` also ``latency_p50``, ``latency_p99``
        and ``latency_max`` in its unit.
    """
    columns: dict[str, list[Any]] = {
        "second": counts.values.tolist(),
        "count": counts.counts.tolist(),
    }
    if histogram is None:
        return columns
    rows = [latencies.percentiles(_RANKS.values()) for latencies in latencies_per_second(histogram)]
    for column, name in enumerate(_RANKS):
        columns[name] = [row[column] for row in rows]
    return columns


def latencies_per_second(histogram: SecondHistogram) -> list[Distribution]:
    """Return the latencies of each second that has messages, in order."""
    starts = _starts(histogram.seconds)
    ends = np.append(starts, len(histogram.seconds))[1:]
    return [
        Distribution(histogram.latencies[start:end], histogram.counts[start:end])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def steady_state(counts: Distribution) -> dict[str, Any] | None:
    """Return the part of a run between warm-up and ramp-down.

    The first and the last second are partial and left out. Of the others, those at both
    ends with fewer messages than 90 % of the median second are trimmed.

    Args:
        counts: messages in each epoch second that has any.

    Returns:
        ``first_second``, ``last_second`` (epoch, both included), ``count`` and ``rate``
        (messages/s); None for a run without a whole second between its first and last.
    """
    if len(counts) < 3:
        return None
    first, last = int(counts.values[0]) + 1, int(counts.values[-1]) - 1
    seconds, messages = counts.values[1:-1], counts.counts[1:-1]
    steady = np.flatnonzero(messages >= _STEADY_SHARE * _median(messages, last - first + 1))
    first, last = int(seconds[steady[0]]), int(seconds[steady[-1]])
    count = int(messages[steady[0] : steady[-1] + 1].sum())
    return {
        "first_second": first,
        "last_second": last,
        "count": count,
        "rate": count / (last - first + 1),
    }


def _median(messages: Int64Array, seconds: int) -> float:
    """Return the median of the counts of ``seconds``, those without messages among them."""
    silent = Distribution(np.zeros(1, np.int64), np.array([seconds - len(messages)], np.int64))
    every = Distribution.of_counted(messages, np.ones(len(messages), np.int64))
    return (every if silent.total == 0 else every.merged(silent)).percentiles([50])[0]


def _starts(seconds: Int64Array) -> Int64Array:
    return np.flatnonzero(np.diff(seconds, prepend=seconds[:1] - 1))
