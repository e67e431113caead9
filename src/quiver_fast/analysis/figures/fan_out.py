"""A run whose receivers each get a copy of every message: the account of each receiver alone.

Copies have the id of their message. So the receipts of each receiver are compared with all sends,
and the sums are of all receivers: receivers * sent = received, where nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from quiver_fast.analysis.figures.each_end import EndFacts
from quiver_fast.analysis.figures.ends import EndsReconciliation, known_numbers
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.id_table import IdBalance, IdTable, balance
from quiver_fast.records.transfers import RunBatch


class FanOutReconciliation(EndsReconciliation):
    """Compares the records of each receiver alone with those of all senders."""

    _tables: dict[int, IdTable] | None = None

    def own(self, batch: RunBatch, time_unit: str) -> RunBatch:
        """See :meth:`.ends.EndsReconciliation.own`."""
        found = super().own(batch, time_unit)
        if not self._by_ids or found.ids is None or not len(found):
            return found
        self._tables = {} if self._tables is None else self._tables
        whole = np.full(len(found), self._end) if found.ends is None else found.ends
        ends = known_numbers(whole)
        for number in np.unique(ends).tolist():
            part = found.only(ends == number)
            if part.ids is not None:
                table = self._tables.setdefault(number, IdTable())
                table.add(part.ids, part.count, highs=part.ids_high)
        return found

    @cached_property
    def _each(self) -> dict[int, IdBalance]:
        sent = self._sender.ids or IdTable()
        return {number: balance(sent, one) for number, one in (self._tables or {}).items()}

    def _id_counts(self) -> dict[str, int]:
        found = super()._id_counts()
        duplicate = sum(one.duplicate for one in self._each.values())
        # For each receiver, and so for all: unreceived - duplicate = sent - received.
        unreceived = self._run.due(self._sender.count) - found["received"] + duplicate
        return found | {"duplicate": duplicate, "unreceived": unreceived}

    def _first_receipts(self) -> Iterator[tuple[Int64Array, Int64Array]]:
        for number, found in self._each.items():
            for rows in found.arrivals.chunks():
                yield np.full(len(rows), number), rows


def fan_out_section(
    receivers: Sequence[EndFacts], lacking: int | None, unit: str, *, ended: bool
) -> dict[str, Any]:
    """Return how far the receivers of copies are apart.

    Keys: ``receivers``; ``lacking``, of these, those that lack a message; ``skew``: ``seconds``
    from the fastest receiver's last message to the slowest one's, and ``messages`` between the
    receivers that had most and fewest when the sending ended; ``each``: the same of each receiver,
    by ``number``, as ``seconds_behind`` and ``messages_behind`` the first one. Unknown values are
    None.

    Args:
        receivers: the facts of all receivers.
        lacking: as of the result.
        unit: of their times.
        ended: whether the end of the sending is known.
    """
    lasts = [one.last for one in receivers if one.last is not None]
    seconds = {
        one.number: (one.last - min(lasts)) / PER_SECOND[unit]
        for one in receivers
        if one.last is not None
    }
    within = {
        one.number: one.count - one.late for one in receivers if ended and one.count is not None
    }
    behind = {number: max(within.values()) - count for number, count in within.items()}
    return {
        "receivers": len(receivers),
        "lacking": lacking,
        "skew": {
            "seconds": max(seconds.values(), default=None),
            "messages": max(behind.values(), default=None),
        },
        "each": [
            {
                "number": one.number,
                "seconds_behind": seconds.get(one.number),
                "messages_behind": behind.get(one.number),
            }
            for one in receivers
        ],
    }


def reconciliation_of(run: RunBounds) -> type[EndsReconciliation]:
    """Return the way in which the records of a run's receivers are compared."""
    return FanOutReconciliation if run.copies else EndsReconciliation
