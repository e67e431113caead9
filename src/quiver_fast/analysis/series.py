"""Per-second series: message counts and latency percentiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.units import PER_SECOND

__all__ = ["per_second"]

_RANKS = {"latency_p50": 50, "latency_p99": 99, "latency_max": 100}


def per_second(times: Int64Array, sent: Int64Array | None, unit: str) -> dict[str, list[Any]]:
    """Return counts and, for a receiver, latency percentiles of each epoch second.

    Args:
        times: int64, when each message was sent (sender) or received (receiver), in ``unit``.
        sent: int64, the send times of received messages, the same length; None for a sender.
        unit: "ms", "us" or "ns".

    Returns:
        Columns of equal length: ``second`` (epoch seconds, ascending, only those with
        messages), ``count``, and with ``sent`` also ``latency_p50``, ``latency_p99`` and
        ``latency_max`` in ``unit``.
    """
    seconds = times // PER_SECOND[unit]
    if np.any(seconds[1:] < seconds[:-1]):
        order = np.argsort(seconds, kind="stable")
        seconds, times = seconds[order], times[order]
        sent = None if sent is None else sent[order]
    starts = np.flatnonzero(np.diff(seconds, prepend=seconds[:1] - 1))
    ends = np.append(starts, len(seconds))[1:]
    columns: dict[str, list[Any]] = {
        "second": seconds[starts].tolist(),
        "count": (ends - starts).tolist(),
    }
    if sent is None:
        return columns
    rows = [
        Distribution.of_differences(times[start:end], sent[start:end]).percentiles(_RANKS.values())
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    for column, name in enumerate(_RANKS):
        columns[name] = [row[column] for row in rows]
    return columns
