"""The clock by which the send times of both ends of a run are compared."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.sorted_rows import SortedLookup
from quiver_fast.analysis.tables.ticks import Ticks


class SharedClock:
    """The coarser clock of both ends of a run, by which send times are compared.

    Attributes:
        unit: its unit.
        first_own: the first time in the receiver's unit that a send of the run may have; None
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
        # A clock that was set back gives later sends smaller times than the first one's.
        first = sender.earliest
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
