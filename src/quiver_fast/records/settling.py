"""Settlement latency while a sender runs: its ``S`` lines, joined to the sends before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64Array = NDArray[np.int64]

__all__ = ["MOST_UNSETTLED", "SampledSettlements"]

MOST_UNSETTLED = 1 << 20
"""Sends that wait for their settlement; a sender that records none must not fill the memory."""


class SampledSettlements:
    """Joins settlements to sends by id, in the order of the file, and forgets what is settled."""

    def __init__(self) -> None:
        # Unsettled sends, sorted by id; equal ids in the order of the file.
        self._ids = np.empty(0, np.int64)
        self._sent = np.empty(0, np.int64)

    def add(
        self,
        ids: Int64Array,
        sent: Int64Array,
        settled_ids: Int64Array,
        settled_times: Int64Array,
        sampled: NDArray[np.bool_],
    ) -> tuple[int, int]:
        """Add the next records and return what their ``S`` lines say.

        Args:
            ids: of the sends.
            sent: their times.
            settled_ids: of the settlements.
            settled_times: their times.
            sampled: whether their lines begin with ``S``.

        Returns:
            The number of ``S`` lines whose send is known, and the sum of their latencies in
            the unit of the times.
        """
        self._add_sends(ids, sent)
        if not len(self._ids) or not len(settled_ids):
            return 0, 0
        place = np.searchsorted(self._ids, settled_ids)
        known = self._ids[np.minimum(place, len(self._ids) - 1)] == settled_ids
        counted = known & sampled
        latencies = settled_times[counted] - self._sent[place[counted]]
        self._forget(place[known])
        # As Python's integers: whatever a line says, the sum cannot overflow.
        return len(latencies), sum(latencies.tolist())

    def _add_sends(self, ids: Int64Array, sent: Int64Array) -> None:
        ids, sent = np.concatenate((self._ids, ids)), np.concatenate((self._sent, sent))
        order = np.argsort(ids, kind="stable")[-MOST_UNSETTLED:]
        self._ids, self._sent = ids[order], sent[order]

    def _forget(self, places: NDArray[np.intp]) -> None:
        left = np.ones(len(self._ids), np.bool_)
        left[places] = False
        self._ids, self._sent = self._ids[left], self._sent[left]
