"""Bodies and first bytes, from the lines that arrows add in streaming mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.latency import exact_latency
from quiver_fast.analysis.units import PER_SECOND
from quiver_fast.records.formats import time_unit
from quiver_fast.records.transfers import Streamed

__all__ = ["Streams"]


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
    first_byte: Distribution

    @classmethod
    def of(cls, streamed: Streamed) -> Streams:
        """Return the statistics of one batch of lines."""
        latencies = Distribution.of(streamed.first_byte_latencies)
        return cls(streamed.body_bytes, streamed.start, streamed.end, latencies)

    def after(self, before: Streams | None) -> Streams:
        """Return what both batches say together."""
        if before is None:
            return self
        return Streams(
            before.body_bytes + self.body_bytes,
            min(before.start, self.start),
            max(before.end, self.end),
            before.first_byte.merged(self.first_byte),
        )

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
