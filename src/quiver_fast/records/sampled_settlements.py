"""Settlement latency while a sender runs: its ``S`` lines, joined to the sends before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quiver_fast.records.ids import comparable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64Array = NDArray[np.int64]

MOST_UNSETTLED = 1 << 20
"""Sends that wait for their settlement; a sender that records none must not fill the memory."""


class SampledSettlements:
    """Joins settlements to sends by id, in the order of the file, and forgets settled sends."""

    def __init__(self) -> None:
        # Unsettled sends, sorted by id; equal ids in the order of the file.
        self._ids = np.empty(0, np.int64)
        self._highs = np.empty(0, np.int64)
        self._sent = np.empty(0, np.int64)

    def add(
        self,
        ids: Int64Array,
        sent: Int64Array,
        settled_ids: Int64Array,
        settled_times: Int64Array,
        sampled: NDArray[np.bool_],
        ids_high: Int64Array | None = None,
        settled_ids_high: Int64Array | None = None,
    ) -> tuple[int, int]:
        """Add the next records and return the sums of their ``S`` lines.

        Args:
            ids: of the sends.
            sent: their times.
            settled_ids: of the settlements.
            settled_times: their times.
            sampled: whether their lines begin with ``S``.
            ids_high: the upper halves of the sends' ids; None for numbers throughout.
            settled_ids_high: those of the settlements' likewise.

        Returns:
            The number of ``S`` lines whose send is known, and the sum of their latencies in
            the unit of the times.
        """
        self._add_sends(ids, sent, np.zeros(len(ids), np.int64) if ids_high is None else ids_high)
        if not len(self._ids) or not len(settled_ids):
            return 0, 0
        ours, settled = comparable((self._highs, self._ids), (settled_ids_high, settled_ids))
        place = np.searchsorted(ours, settled)
        known = ours[np.minimum(place, len(ours) - 1)] == settled
        counted = known & sampled
        latencies = settled_times[counted] - self._sent[place[counted]]
        self._forget(place[known])
        # The sum of Python's integers cannot overflow, whatever a line has.
        return len(latencies), sum(latencies.tolist())

    def _add_sends(self, ids: Int64Array, sent: Int64Array, highs: Int64Array) -> None:
        ids, sent = np.concatenate((self._ids, ids)), np.concatenate((self._sent, sent))
        highs = np.concatenate((self._highs, highs))
        (keys,) = comparable((highs, ids))
        self._keep(np.argsort(keys, kind="stable")[-MOST_UNSETTLED:], ids, sent, highs)

    def _forget(self, places: NDArray[np.intp]) -> None:
        left = np.ones(len(self._ids), np.bool_)
        left[places] = False
        self._keep(left, self._ids, self._sent, self._highs)

    def _keep(
        self,
        rows: NDArray[np.bool_] | NDArray[np.intp],
        ids: Int64Array,
        sent: Int64Array,
        highs: Int64Array,
    ) -> None:
        self._ids, self._sent, self._highs = ids[rows], sent[rows], highs[rows]
