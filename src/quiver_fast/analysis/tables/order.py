"""Reordering: arrivals that were sent before one that had already arrived (RFC 4737)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.tables.tally import arrivals_behind

__all__ = ["Order"]

Int64Array = NDArray[np.int64]

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
