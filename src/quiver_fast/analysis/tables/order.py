"""The order of a file: reordering (RFC 4737), and a clock that goes back."""

from __future__ import annotations

import numpy as np

from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.tables.tally import arrivals_behind, falls

_BEFORE_ALL = -(2**63)


class Order:
    """Counts arrivals whose position in sending order is below that of an earlier arrival."""

    def __init__(self) -> None:
        self.behind = 0
        self._furthest = _BEFORE_ALL

    def add(
        self, positions: Int64Array, lengths: Int64Array | None, counts: Int64Array | None
    ) -> None:
        """Add arrivals in their order: at each position ``counts`` of them, ``lengths`` times.

        Args:
            positions: int64, the first position of each row, which then counts up.
            lengths: int64, positions in the row, at least 1; None for 1 in each.
            counts: int64, arrivals at each of these positions; None for 1 at each.
        """
        behind, self._furthest = arrivals_behind(positions, lengths, counts, self._furthest)
        self.behind += behind


class OrderOfEnds:
    """Counts arrivals as :class:`Order` does, where each end has an order of its own."""

    def __init__(self) -> None:
        self._orders: dict[int, Order] = {}

    @property
    def behind(self) -> int:
        """Those of all ends."""
        return sum(order.behind for order in self._orders.values())

    def add(self, ends: Int64Array | None, positions: Int64Array, counts: Int64Array) -> None:
        """Add arrivals in the order of the file.

        Args:
            ends: int64, the end of each; None where all are of one.
            positions: as of :meth:`Order.add`.
            counts: likewise.
        """
        if ends is None:
            self._of(-1).add(positions, None, counts)
            return
        sorting = np.argsort(ends, kind="stable")
        begins = np.flatnonzero(np.append(True, np.diff(ends[sorting]) != 0))
        for rows in np.split(sorting, begins[1:]):
            self._of(int(ends[rows[0]])).add(positions[rows], None, counts[rows])

    def _of(self, end: int) -> Order:
        return self._orders.setdefault(end, Order())


class ClockTimes:
    """The times of one clock in the order in which a file has them.

    Attributes:
        lowest, highest: the first and the last by their value; None without any.
        set_back: the most by which a time is below an earlier one; 0 where they ascend.
    """

    def __init__(self) -> None:
        self.lowest: int | None = None
        self.highest: int | None = None
        self.set_back = 0

    def add(self, times: Int64Array) -> None:
        """Add the next times, int64."""
        if len(times) == 0:
            return
        before = _BEFORE_ALL if self.highest is None else self.highest
        fall, lowest, self.highest = falls(times, before)
        self.set_back = max(self.set_back, fall)
        self.lowest = lowest if self.lowest is None else min(lowest, self.lowest)

    def follow(self, lowest: int, highest: int, set_back: int) -> None:
        """Add the times of another one, which follow these."""
        before = lowest if self.highest is None else self.highest
        self.set_back = max(self.set_back, set_back, before - lowest)
        self.lowest = lowest if self.lowest is None else min(lowest, self.lowest)
        self.highest = highest if self.highest is None else max(highest, self.highest)
