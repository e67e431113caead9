"""The filter that keeps the receipts of messages of this run, before any figure is computed.

*Older* are messages that were sent before the run: their SendTime lies before the
sender's smallest one, or before the start of the run where no sender's records are there.
SendTimes are the sender's clock on both sides, so that the first rule needs no common
clock. A SendTime in another unit than the receiver's own times is older too: no arrow of
this run writes such times. *Foreign* are messages that somebody else sent meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.units import PER_SECOND, per_millisecond
from quiver_fast.analysis.tables.key_runs import as_keys
from quiver_fast.analysis.tables.sorted_rows import SortedLookup, SortedRows
from quiver_fast.analysis.tables.tally import located_pieces
from quiver_fast.records.formats import RECEIVE, UNIT_RANGES
from quiver_fast.records.ids import comparable

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.model.bounds import RunBounds
    from quiver_fast.analysis.model.distribution import Int64Array
    from quiver_fast.analysis.tables.ticks import Ticks
    from quiver_fast.records.transfers import RunBatch, Streamed


def own_times(unit: str, first: int | None) -> tuple[int, int]:
    """Return the send times that messages of a run have: from the one to below the other.

    Args:
        unit: the unit of the receiver's times.
        first: in it, the time before which nothing of the run was sent; None for unknown.
    """
    low, end = UNIT_RANGES[unit]
    return low if first is None else max(low, first), end


class Sieve:
    """Keeps the receipts of messages of this run, and counts the others.

    Attributes:
        older: receipts of messages from before the run.
        foreign: receipts of messages that others sent during the run.
        clock: by which send times of both ends are compared; None before the first
            receipt, and without a sender.

    Args:
        run: the bounds of the run.
        sender: the sender's analysis, kept for reconciling; None without it.
        foreign_ids: (block, first id, ids), ascending: the ids of others
            (:mod:`.id_table`); None where they are not known, or there are none.
    """

    def __init__(
        self,
        run: RunBounds,
        sender: FileAnalysis | None = None,
        foreign_ids: SortedRows | None = None,
    ) -> None:
        self.older = self.foreign = 0
        self.clock: SharedClock | None = None
        self._run = run
        self._sender = sender
        self._foreign_ids = foreign_ids
        self._times: tuple[int, int] | None = None

    def own(self, batch: RunBatch, unit: str) -> RunBatch:
        """Return the batch without the receipts of other messages.

        Args:
            batch: runs in the order of the file.
            unit: the unit of the receiver's own times.
        """
        if batch.operation != RECEIVE or (len(batch) == 0 and batch.streamed is None):
            return batch
        times = self._times = self._times or self._own_times(unit)
        if batch.streamed is not None:
            batch = replace(batch, streamed=self._own_streams(batch.streamed, *times))
        if len(batch) == 0:
            return batch
        batch = self._of_these_times(batch, *times)
        if len(batch) == 0 or self._sender is None:
            return batch
        if batch.ids is not None and self._sender.ids is not None:
            return batch if self._foreign_ids is None else self._known_ids(batch, self._foreign_ids)
        return self._known_ticks(batch)

    def _own_times(self, unit: str) -> tuple[int, int]:
        start = self._run.run_start
        first = None if start is None else start * per_millisecond(unit)
        if self._sender is not None:
            self.clock = SharedClock(self._sender, unit)
            if self.clock.first_own is not None:
                first = self.clock.first_own
        return own_times(unit, first)

    def _of_these_times(self, batch: RunBatch, first: int, end: int) -> RunBatch:
        # Nearly always the whole batch is of the run: then it is not copied.
        if int(batch.sent.min()) >= first and int(batch.sent.max()) < end:
            return batch
        own = (batch.sent >= first) & (batch.sent <= end - 1)
        self.older += int(batch.count[~own].sum())
        return batch.only(own)

    def _own_streams(self, streamed: Streamed, first: int, end: int) -> Streamed | None:
        """Return the lines of streaming mode, which have no ids, of this run; None without any."""
        own = (streamed.sent >= first) & (streamed.sent <= end - 1)
        if self.clock is not None:
            own &= self.clock.known(streamed.sent)
        return streamed.only(own) if own.any() else None

    def _known_ticks(self, batch: RunBatch) -> RunBatch:
        if self.clock is None:
            raise ValueError("the times of the run tell the clock")
        own = self.clock.known(batch.sent)
        if own.all():
            return batch
        self.foreign += int(batch.count[~own].sum())
        return batch.only(own)

    def _known_ids(self, batch: RunBatch, foreign: SortedRows) -> RunBatch:
        """Cut the runs of ids where those of others begin and end, and leave these out."""
        if batch.ids is None:
            raise ValueError("these are told apart by ids")
        firsts, counts = as_keys(batch.ids), as_keys(batch.count)
        origin, strange = np.arange(len(batch)), np.zeros(len(batch), np.bool_)
        for rows in foreign.chunks():
            highs = None if batch.ids_high is None else batch.ids_high[origin]
            theirs, keys = comparable((rows[:, 0], rows[:, 1]), (highs, firsts.view(np.int64)))
            lengths = rows[:, 2].view(np.uint64)
            pieces, counts, of, place = located_pieces(theirs, lengths, keys, counts)
            firsts = firsts[of] + (pieces - keys[of])
            origin, strange = origin[of], strange[of] | (place >= 0)
        self.foreign += int(counts[strange].sum())
        own: NDArray[np.bool_] = ~strange
        kept = batch.only(origin[own])
        return replace(kept, ids=firsts[own].view(np.int64), count=counts[own].view(np.int64))


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
