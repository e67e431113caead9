"""Messages by the tick of the clock at which they were sent, where they have no ids."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.distribution import Int64Array
from quiver_fast.analysis.sorted_rows import SortedLookup, SortedRows, aligned, summed
from quiver_fast.analysis.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.analysis.local import FileAnalysis

__all__ = ["SharedClock", "Ticks"]


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


class SharedClock:
    """The coarser clock of both ends of a run, by which send times are compared.

    Attributes:
        unit: its unit.
        first_own: the first time in the receiver's unit that its first send may have; None
            where the sender sent nothing.

    Args:
        sender: the sender's analysis, kept for reconciling.
        unit: the unit of the receiver's times.
    """

    def __init__(self, sender: FileAnalysis, unit: str) -> None:
        self.unit = min(sender.time_unit, unit, key=PER_SECOND.__getitem__)
        self._factor = PER_SECOND[unit] // PER_SECOND[self.unit]
        self._sent_factor = PER_SECOND[sender.time_unit] // PER_SECOND[self.unit]
        self._sender = sender
        self._lookup: SortedLookup | None = None
        first = sender.first_time
        self.first_own = None if first is None else first // self._sent_factor * self._factor

    def stamps(self, sent: Int64Array) -> Int64Array:
        """Return the receiver's send times, int64[n], by this clock."""
        return sent if self._factor == 1 else sent // self._factor

    @cached_property
    def sends(self) -> Ticks:
        """The sends by this clock."""
        return self._sender.send_ticks.coarser(self._sent_factor)

    def known(self, sent: Int64Array) -> NDArray[np.bool_]:
        """Say at which of the receiver's send times, int64[n], the sender sent something."""
        if self._lookup is None:
            self._lookup = SortedLookup(self.sends.rows)
        return self._lookup.values(self.stamps(sent)) > 0
