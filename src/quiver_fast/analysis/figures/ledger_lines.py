"""The lines of a run whose arrows connect again: fates of messages, pauses around failures.

Losses of connections whose times overlap, or lie close together, are one failure of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quiver_fast.analysis.model.distribution import Int64Array, distinct
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.fates import COPIED, SENT, SETTLED, Fates, Lives
from quiver_fast.analysis.tables.sorted_rows import Rows, SortedRows

if TYPE_CHECKING:
    from quiver_fast.analysis.model.bounds import RunBounds
    from quiver_fast.records.transfers import RunBatch

_SECOND = 10**9
_TOGETHER = _SECOND // 10
_SIDES = ("receiver", "sender")

Spans = Sequence[tuple[int, "int | None"]]
"""The begin and the end of each failure of a run, ascending; no end where it did not end."""


class Failure(NamedTuple):
    """A failure of a run.

    Attributes:
        at: when the first connection was lost, or the fault began (epoch ns).
        until: when the last one that came back was back, or the fault was over; None if none came.
        losses: of connections; none of a fault that ended none.
        fault: the place of the fault among those of the run; None for none.
    """

    at: int
    until: int | None
    losses: Sequence[dict[str, Any]]
    fault: int | None


@dataclass(frozen=True)
class LedgerSums:
    """The sums of all lines that a ledger is made of.

    Attributes:
        fates: the result of :func:`.fates.totals_of`.
        receiver_gaps: of each failure, the longest pause between receipts, in ticks.
        sender_gaps: likewise, between settlements.
    """

    fates: dict[str, int]
    receiver_gaps: Sequence[int | None]
    sender_gaps: Sequence[int | None]


class LedgerTables:
    """The lines of all files of a run, as far as its ledger needs them.

    Args:
        run: the bounds of the run, with failures.
    """

    def __init__(self, run: RunBounds) -> None:
        self._run = run
        self._fates = Fates()
        for first, last in copies(run):
            ids, counts = np.array([first]), np.array([last - first + 1])
            self._fates.add(ids, counts, None, COPIED)
        self._times = {side: SortedRows(1, combine=_different) for side in _SIDES}
        self._units = dict.fromkeys(_SIDES, "ns")
        self._lives: Lives | None = None

    def add_sends(self, batch: RunBatch, unit: str) -> None:
        """Add the next records of a sender, whose times have this unit."""
        if batch.ids is not None and len(batch):
            self._fates.add(batch.ids, batch.count, batch.ids_high, SENT)
        if len(batch.settled_ids):
            ids = batch.settled_ids, batch.settled_count, batch.settled_ids_high
            self._fates.add(*ids, SETTLED)
            self._add_times("sender", batch.settled_times, unit)

    def add_receipts(self, batch: RunBatch, unit: str, end: int) -> None:
        """Add the next receipts of a receiver, of these ends or of this one, likewise."""
        if batch.ids is None or batch.received is None or not len(batch):
            return
        self._lives = self._lives or lives_of(self._run, unit)
        ends = np.full(len(batch), end) if batch.ends is None else batch.ends
        kinds = self._lives.kinds(ends, batch.received)
        self._fates.add(batch.ids, batch.count, batch.ids_high, kinds)
        self._add_times("receiver", batch.received, unit)

    def _add_times(self, side: str, times: Int64Array, unit: str) -> None:
        self._units[side] = unit
        self._times[side].add(near(times, spans_of(self._run, unit)))

    def sums(self) -> LedgerSums:
        """Return the sums of all lines."""
        gaps = []
        for side, table in self._times.items():
            chunks = (rows[:, 0] for rows in table.chunks())
            gaps.append(longest_pauses(chunks, spans_of(self._run, self._units[side])))
        return LedgerSums(self._fates.totals(self._run.matching), *gaps)


def copies(run: RunBounds) -> list[tuple[int, int]]:
    """Return the ids of the messages that were sent again, the first and last of each range."""
    sent = [one.get("resent") or () for one in run.failures or () if one["sends"]]
    return [(first, last) for ranges in sent for first, last in ranges]


def lives_of(run: RunBounds, unit: str) -> Lives:
    """Return the lives of the connections of the receivers of a run, in this unit."""
    losses = []
    for one in run.failures or ():
        (first, last), lost = one["ends"], _tick(one["lost_at"], unit)
        back = None if one["back_at"] is None else _tick(one["back_at"], unit)
        # In the tick of both, messages of both lives may have come: it is one more life.
        ticks = [lost - 1, lost] if back == lost else [lost]
        if not one["sends"]:
            losses += [(end, tick) for end in range(first, last + 1) for tick in ticks]
    return Lives(losses)


def _tick(nanoseconds: int, unit: str) -> int:
    return nanoseconds * PER_SECOND[unit] // _SECOND


def spans_of(run: RunBounds, unit: str = "ns") -> Spans:
    """Return the failures of a run, in this unit."""
    return [
        (_tick(one.at, unit), None if one.until is None else _tick(one.until, unit))
        for one in failures_of(run)
    ]


def failures_of(run: RunBounds) -> list[Failure]:
    """Return the failures of a run, ascending: a fault that ended no connection is one alone."""
    found = [
        Failure(group[0]["lost_at"], _last_back(group), group, _fault(run, group[0]["lost_at"]))
        for group in _together(run)
    ]
    named = {one.fault for one in found}
    found += [
        Failure(fault["at"], fault["until"], (), place)
        for place, fault in enumerate(run.faults)
        if place not in named and fault["at"] is not None and fault["until"] is not None
    ]
    return sorted(found, key=attrgetter("at"))


def _together(run: RunBounds) -> list[Sequence[dict[str, Any]]]:
    """Return the losses of connections that are one failure."""
    found: list[list[dict[str, Any]]] = []
    for one in sorted(run.failures or (), key=itemgetter("lost_at")):
        last = found[-1] if found else []
        if last and one["lost_at"] <= _TOGETHER + max(last[-1]["lost_at"], _last_back(last) or 0):
            last.append(one)
        else:
            found.append([one])
    return [*found]


def _last_back(losses: Sequence[dict[str, Any]]) -> int | None:
    """Return when the last connection was back; None if none came back."""
    return max((one["back_at"] for one in losses if one["back_at"] is not None), default=None)


def _fault(run: RunBounds, at: int) -> int | None:
    """Return the place of the last fault that a failure at this time may be of, by its times."""
    places = [
        place
        for place, fault in enumerate(run.faults)
        if fault["at"] is not None
        and fault["at"] <= at + _TOGETHER
        and at <= (fault["until"] or at) + _SECOND
    ]
    return places[-1] if places else None


def near(times: Int64Array, spans: Spans) -> Int64Array:
    """Return the different times within spans, and those next to each on either side.

    Args:
        times: int64[n], in any order.
        spans: in their unit.
    """
    times = distinct(times)
    ended = [(begin, end) for begin, end in spans if end is not None]
    if not ended or not len(times):
        return times[:0]
    begins, ends = np.array(ended).T
    first = np.maximum(np.searchsorted(times, begins, "right") - 1, 0)
    behind = np.minimum(np.searchsorted(times, ends), len(times) - 1) + 1
    depth = np.zeros(len(times) + 1, np.int64)
    np.add.at(depth, first, 1)
    np.add.at(depth, behind, -1)
    return times[np.cumsum(depth)[:-1] > 0]


def longest_pauses(chunks: Iterable[Int64Array], spans: Spans) -> list[int | None]:
    """Return the longest pause between two times around or in each span.

    It is one between the last time up to the begin of the span and the first from its end on; None
    where one of these is missing.

    Args:
        chunks: different times in ascending order, those of :func:`near` at least.
        spans: in their unit.
    """
    found, first, last = [0] * len(spans), None, None
    for chunk in filter(len, chunks):
        times = chunk if last is None else np.append(last, chunk)
        first, last = int(times[0]) if first is None else first, int(times[-1])
        for number, (begin, end) in enumerate(spans):
            start = np.searchsorted(times[1:], begin, "right")
            stop = start if end is None else np.searchsorted(times[:-1], end)
            if stop > start:
                pauses = np.diff(times[start : stop + 1])
                found[number] = max(found[number], int(pauses.max()))
    if first is None or last is None:
        return [None] * len(spans)
    return [
        pause if first <= begin and end is not None and last >= end else None
        for pause, (begin, end) in zip(found, spans, strict=True)
    ]


def _different(rows: Rows) -> Rows:
    return distinct(rows)[:, None]
