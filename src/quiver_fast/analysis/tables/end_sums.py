"""Sums over the records of each end of a process, where its records tell the ends apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.tables.spilled import HistogramRows

if TYPE_CHECKING:
    from quiver_fast.analysis.model.histogram import SecondHistogram
    from quiver_fast.analysis.tables.spilled import SpilledHistogram
    from quiver_fast.records.transfers import RunBatch


class EndSums:
    """Counts, times and latencies of each of some ends.

    Attributes:
        first: the number of the first end.
        counts: int64[n], the messages of each end.
        firsts, lasts: int64[n], own times of the first and the last of them; 0 without any.
        late: int64[n], those that were received after the end of the sending.

    Args:
        first: the number of the first end.
        count: how many ends there are.
    """

    def __init__(self, first: int, count: int) -> None:
        self.first = first
        self.counts: Int64Array = np.zeros(count, np.int64)
        self.firsts, self.lasts, self.late = (self.counts.copy() for _ in range(3))
        self._latencies: HistogramRows | None = None

    def add(self, batch: RunBatch, unit: str, ending: int | None) -> None:
        """Add the next records.

        Args:
            batch: with the end of each record; those of ends of other processes do not count.
            unit: of its times.
            ending: when the sending ended; None where that is not known.
        """
        if batch.ends is None:
            return
        known = (batch.ends >= self.first) & (batch.ends < self.first + len(self.counts))
        batch = batch if known.all() else batch.only(known)
        self._add(batch.ends, batch, unit, ending)

    def _add(self, ends: Int64Array | None, batch: RunBatch, unit: str, ending: int | None) -> None:
        if ends is None or not len(ends):
            return
        places, received = ends - self.first, batch.received
        times = batch.sent if received is None else received
        # The last of equal places is the one that stays.
        fresh = np.flatnonzero(self.counts[places] == 0)[::-1]
        self.firsts[places[fresh]] = times[fresh]
        self.lasts[places] = times
        np.add.at(self.counts, places, batch.count)
        if received is None:
            return
        if ending is not None and int(received.max()) > ending:
            after = received > ending
            np.add.at(self.late, places[after], batch.count[after])
        self._latencies = self._latencies or HistogramRows(unit)
        self._latencies.add(ends, received - batch.sent, batch.count)

    def histogram(self, unit: str) -> SecondHistogram | SpilledHistogram:
        """Return the latencies, with the number of the end in place of the second."""
        return (self._latencies or HistogramRows(unit)).total()
