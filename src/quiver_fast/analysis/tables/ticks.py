"""Messages by the tick of the clock at which they were sent, where they have no ids."""

from __future__ import annotations

import numpy as np

from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.tables.sorted_rows import SortedRows, aligned, summed


class Ticks:
    """Messages per tick of a clock, in any number of ticks."""

    def __init__(self) -> None:
        self.rows = SortedRows(2, combine=summed)

    def add(self, ticks: Int64Array, counts: Int64Array) -> None:
        """Add ``counts`` messages at ``ticks`` (int64, equal lengths, any order)."""
        self.rows.add(ticks, counts)

    def coarser(self, factor: int) -> Ticks:
        """Return the same by a clock whose ticks are ``factor`` times as long."""
        if factor == 1:
            return self
        ticks = Ticks()
        for rows in self.rows.chunks():
            ticks.add(rows[:, 0] // factor, rows[:, 1])
        return ticks

    def balance(self, received: Ticks) -> tuple[int, int]:
        """Return (unreceived, duplicate) of sends per tick against receipts at known ticks."""
        unreceived = duplicate = 0
        for sends, receipts in aligned(self.rows, received.rows):
            missing = sends[:, 1].copy()
            missing[np.searchsorted(sends[:, 0], receipts[:, 0])] -= receipts[:, 1]
            unreceived += int(missing[missing > 0].sum())
            duplicate -= int(missing[missing < 0].sum())
        return unreceived, duplicate
