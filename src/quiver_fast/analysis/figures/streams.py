"""Bodies and first bytes, from the lines that arrows add in streaming mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.latencies import Latencies
from quiver_fast.analysis.tables.spilled import LatencyRows
from quiver_fast.records.formats import time_unit
from quiver_fast.records.transfers import Streamed


@dataclass(frozen=True)
class Streams:
    """The bodies of one file of records.

    Times are in the records' unit since the epoch.

    Attributes:
        body_bytes: bytes of bodies, those of messages that never became whole among them.
        start: time of the earliest first byte.
        end: time of the latest line.
        first_byte: first byte minus send time of the whole messages, signed.
    """

    body_bytes: int
    start: int
    end: int
    first_byte: Latencies

    def section(self) -> dict[str, Any]:
        """Return the ``streaming`` section of a summary.

        Keys: ``body_bytes``; ``throughput`` = body_bytes / (end - start) in bytes/s, None
        when that is no time; ``first_byte_latency`` (:func:`.latency.exact_latency`).
        """
        unit = time_unit(self.start)
        seconds = (self.end - self.start) / PER_SECOND[unit]
        return {
            "body_bytes": self.body_bytes,
            "throughput": self.body_bytes / seconds if seconds > 0 else None,
            "first_byte_latency": exact_latency(self.first_byte, unit),
        }


class StreamSums:
    """Adds up the lines of streaming mode of one file."""

    def __init__(self) -> None:
        self._body_bytes = 0
        self._start: int | None = None
        self._end = 0
        self._first_byte = LatencyRows()

    def add(self, streamed: Streamed) -> None:
        """Add a batch of lines."""
        self._body_bytes += streamed.body_bytes
        self._start = streamed.start if self._start is None else min(self._start, streamed.start)
        self._end = max(self._end, streamed.end)
        latencies = Distribution.of(streamed.first_byte_latencies)
        self._first_byte.add(latencies.values, latencies.counts)

    def total(self) -> Streams | None:
        """Return the sums of all lines; None without any."""
        if self._start is None:
            return None
        return Streams(self._body_bytes, self._start, self._end, self._first_byte.total())
