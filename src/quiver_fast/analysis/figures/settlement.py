"""Settlement latency: from a message's send to the sender's learning of its settlement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.tables.id_table import cut_blocks, keys_of, share_blocks
from quiver_fast.analysis.tables.key_runs import UInt64Array, as_keys, disjoint
from quiver_fast.analysis.tables.latencies import Latencies
from quiver_fast.analysis.tables.sorted_rows import Rows, SortedRows, aligned
from quiver_fast.analysis.tables.spilled import LatencyRows
from quiver_fast.analysis.tables.tally import located_pieces

if TYPE_CHECKING:
    from quiver_fast.records.transfers import RunBatch


@dataclass(frozen=True)
class Settlement:
    """Settlement latencies of a sender.

    Attributes:
        all: those of every settlement line, in the clock's unit.
        sampled: only of the ``S`` lines: the first and every 256th message.
        unsettled: messages sent without a settlement line.
        unmatched: settlement lines without a send of that id, in neither latency.
    """

    all: Latencies
    sampled: Latencies
    unsettled: int
    unmatched: int

    def section(self, unit: str) -> dict[str, Any]:
        """Return the section of a summary, latencies as ``exact_latency`` gives them."""
        return {
            "all": exact_latency(self.all, unit),
            "sampled": exact_latency(self.sampled, unit),
            "unsettled": self.unsettled,
            "unmatched": self.unmatched,
        }


_Found = tuple[Int64Array, Int64Array, NDArray[np.bool_]]

_BLOCK, _FIRST, _LENGTH, _TIME = range(4)
_SAMPLED = 4
_ROWS_AT_ONCE = 1 << 15


def _first_sends(rows: Rows) -> Rows:
    """Keep of an id that was sent more than once its first send."""
    if not share_blocks(rows):
        return rows
    (firsts,), lengths = keys_of(rows), rows[:, _LENGTH].view(np.uint64)
    if bool(np.all(firsts[1:] >= firsts[:-1] + lengths[:-1])):
        return rows
    _, lengths, origin, further = disjoint(firsts, lengths)
    found = rows[origin]
    found[:, _FIRST] += further.view(np.int64)
    found[:, _LENGTH] = lengths.view(np.int64)
    return found


class SettlementJoin:
    """Joins the settlements of a sender to its sends by id, once both are complete.

    A settlement may come at any time. An id that was sent more than once is joined to
    its first send. Rows are (block of ids, first id, ids, time) and of settlements also
    whether they are sampled; rows that are too many for the memory are in files.
    """

    def __init__(self) -> None:
        self._sends = SortedRows(4, combine=_first_sends)
        self._settled = SortedRows(5)
        self._lines = 0

    def add(self, batch: RunBatch) -> None:
        """Add the sender's next records."""
        if batch.ids is None:
            return
        if len(batch):
            self._sends.add(*_rows(batch.ids, batch.ids_high, batch.count, batch.sent))
        if len(batch.settled_ids):
            self._lines += int(batch.settled_count.sum())
            sampled = batch.settled_sampled.astype(np.int64)
            ids = batch.settled_ids, batch.settled_ids_high
            self._settled.add(*_rows(*ids, batch.settled_count, batch.settled_times, sampled))

    def result(self) -> Settlement | None:
        """Return the latencies; None if there were no settlement lines."""
        if self._lines == 0:
            return None
        everything, sampled_only = LatencyRows(), LatencyRows()
        unsettled = unmatched = 0
        for sends, settled in aligned(self._sends, self._settled):
            join = _BlocksJoin(sends)
            for values, counts, sampled in join.latencies(settled):
                everything.add(values, counts)
                sampled_only.add(values[sampled], counts[sampled])
            unsettled += join.unsettled
            unmatched += join.unmatched
        return Settlement(everything.total(), sampled_only.total(), unsettled, unmatched)


def _rows(
    ids: Int64Array, highs: Int64Array | None, counts: Int64Array, *values: Int64Array
) -> list[Int64Array]:
    """Return the columns of rows for runs of ids, cut where blocks end."""
    block, firsts, lengths, origin, _ = cut_blocks(as_keys(ids), as_keys(counts), highs)
    numbers = [firsts.view(np.int64), lengths.view(np.int64)]
    return [block, *numbers, *(column[origin] for column in values)]


class _BlocksJoin:
    """Joins the settlements of some blocks of ids to the sends of the same.

    All settlements of an id are joined at once, and a run may have a single id: what is
    made of them on the way is made for some at a time.

    Attributes:
        unmatched: settlements without a send, of those joined so far.
    """

    def __init__(self, sends: Rows) -> None:
        self.unmatched = 0
        self._sends = sends
        nothing = np.empty(0, np.uint64)
        self._settled_ids = nothing, nothing

    def latencies(self, settled: Rows) -> Iterator[_Found]:
        """Yield (latencies, counts, whether sampled) of the settlements of ids that were sent."""
        sent_keys, keys = keys_of(self._sends, settled)
        for start in range(0, len(settled), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            yield self._located(sent_keys, settled[some], keys[some])

    def _located(self, sent_keys: UInt64Array, settled: Rows, keys: UInt64Array) -> _Found:
        pieces, sizes, origin, place = located_pieces(
            sent_keys, _lengths(self._sends), keys, _lengths(settled)
        )
        hit = place >= 0
        left = int(sizes[~hit].sum())
        if left:
            self.unmatched += left
            pieces, sizes, origin, place = pieces[hit], sizes[hit], origin[hit], place[hit]
        before, lengths = self._settled_ids
        joined = disjoint(np.concatenate((before, pieces)), np.concatenate((lengths, sizes)))
        self._settled_ids = joined[:2]
        values = settled[origin, _TIME] - self._sends[place, _TIME]
        return values, sizes.view(np.int64), settled[origin, _SAMPLED] > 0

    @property
    def unsettled(self) -> int:
        """Sends without any of the settlements that were joined so far."""
        return int(self._sends[:, _LENGTH].sum()) - int(self._settled_ids[1].sum())


def _lengths(rows: Rows) -> UInt64Array:
    return rows[:, _LENGTH].view(np.uint64)
