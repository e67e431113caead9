"""Snapshots of running arrows: their transfers, and their CPU time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from operator import mul
from typing import Any

from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.records.formats import UNITS_PER_SECOND
from quiver_fast.records.log_histogram import LogHistogram

# The percentiles that a live table has of each period, by their fields.
_PERCENTILES = {"latency_p50_us": 50, "latency_p99_us": 99}


def _mean(values: Sequence[float], messages: Sequence[int]) -> float:
    """Return the mean, by the messages of each arrow: settlements are sampled by count."""
    weights = [count or 1 for count in messages]
    return sum(map(mul, values, weights), 0.0) / sum(weights)


def _merged(values: Sequence[LogHistogram], _messages: Sequence[int]) -> LogHistogram:
    merged = LogHistogram()
    for one in values:
        merged.merge(one)
    return merged


# How the known values of several arrows, with their messages in the period, make one (`join`).
_SUM = {"rule": lambda values, _: sum(values)}
_SUM_OF_ALL = _SUM | {"of_ended": True}
_LARGEST = {"rule": lambda values, _: max(values)}
_MEAN = {"rule": _mean}
_MERGED = {"rule": _merged}
_FINEST = {"rule": lambda values, _: max(values, key=lambda unit: UNITS_PER_SECOND[unit])}


@dataclass(frozen=True)
class Snapshot:
    """The work of an arrow, or of several, from one moment to the next.

    A receiver's figures are of this run's messages only, whatever else was in the queue.

    Attributes:
        timestamp: epoch milliseconds of the moment up to which records are counted.
        period: milliseconds since the snapshot before, or since the start.
        count: records since the start; every record is counted.
        period_count: records in this period.
        cpu_time: CPU milliseconds since the start.
        period_cpu_time: CPU milliseconds in this period.
        rss: resident bytes.
        period_bytes: bytes of bodies in this period; None unless streaming.
        latency_us: mean latency of a receiver's messages in microseconds, signed, as fine as its
            clock; None without any.
        settlement_us: mean settlement latency of the period's ``S`` lines; None without any.
        latency_p50_us: median latency of the period, to within 0.2 %; None without any.
        latency_p99_us: 99th percentile of the period, to within 0.2 %; None without any.
        covered_ms: milliseconds of the period in which its records came: the first period with
            records begins with them, and the last one ends with them. None for all of it.
        latencies: a receiver's latencies in ticks; valid until the arrow's next snapshot.
        time_unit: that of the ticks.
    """

    timestamp: int = field(default=0, metadata=_LARGEST)
    period: int = field(default=0, metadata=_LARGEST)
    count: int = field(default=0, metadata=_SUM_OF_ALL)
    period_count: int = field(default=0, metadata=_SUM)
    cpu_time: int = field(default=0, metadata=_SUM_OF_ALL)
    period_cpu_time: int = field(default=0, metadata=_SUM)
    rss: int = field(default=0, metadata=_SUM)
    period_bytes: int | None = field(default=None, metadata=_SUM)
    latency_us: float | None = field(default=None, metadata=_MEAN)
    settlement_us: float | None = field(default=None, metadata=_MEAN)
    latency_p50_us: float | None = field(default=None, metadata=_LARGEST)
    latency_p99_us: float | None = field(default=None, metadata=_LARGEST)
    covered_ms: float | None = field(default=None, metadata=_LARGEST)
    latencies: LogHistogram | None = field(default=None, compare=False, metadata=_MERGED)
    time_unit: str = field(default="ms", metadata=_FINEST)

    @property
    def latency(self) -> int:
        """Mean milliseconds: a receiver's of messages, a sender's of settlements; 0 without any."""
        mean = self.latency_us if self.settlement_us is None else self.settlement_us
        return int((mean or 0.0) / 1000)

    @property
    def covered(self) -> float:
        """Milliseconds in which the period's records came."""
        return self.period if self.covered_ms is None else self.covered_ms

    @property
    def rate(self) -> float | None:
        """Messages per second in this time; None if the time is 0."""
        return self.period_count * 1000 / self.covered if self.covered > 0 else None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes of bodies per second in this time; None if the time is 0, or without streaming."""
        if self.period_bytes is None or self.covered <= 0:
            return None
        return self.period_bytes * 1000 / self.covered

    def line(self) -> str:
        """Return its comma-separated line of a snapshots file, with its end."""
        fields = [
            self.timestamp, self.period, self.count, self.period_count, self.latency,
            self.cpu_time, self.period_cpu_time, self.rss,
        ]  # fmt: skip
        if self.period_bytes is not None:
            fields.append(self.period_bytes)
        return ",".join(map(str, fields)) + "\n"


def join(recent: Sequence[Snapshot], ended: Sequence[Snapshot] = ()) -> Snapshot:
    """Return one snapshot of several arrows of a side, or of several hosts.

    Each field is joined as it declares. Percentiles are of all latencies together; where hosts
    report only their own ones, they are the largest of any host.

    Args:
        recent: those of the present period, at least one.
        ended: the last ones of arrows that have ended before it.
    """
    if len(recent) == 1 and not ended:
        return recent[0]
    values = {}
    for one in fields(Snapshot):
        of = [*recent, *ended] if one.metadata.get("of_ended") else recent
        known = [each for each in of if getattr(each, one.name) is not None]
        if known:
            found = [getattr(each, one.name) for each in known]
            values[one.name] = one.metadata["rule"](found, [each.period_count for each in known])
    joined = Snapshot(**values)
    if joined.latencies is None:
        return joined
    return replace(joined, **percentiles_of(joined.latencies, joined.time_unit))


def percentiles_of(latencies: LogHistogram, unit: str) -> dict[str, Any]:
    """Return the percentiles of ticks in microseconds, by their fields."""
    found = {name: latencies.percentile(rank) for name, rank in _PERCENTILES.items()}
    ticks = per_millisecond(unit)
    return {name: None if value is None else value * 1000 / ticks for name, value in found.items()}
