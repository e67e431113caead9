"""Settlement latency: from a message's send to the sender's learning of its settlement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.key_runs import KeyCounts, UInt64Array, as_keys, disjoint, split_at
from quiver_fast.analysis.latency import exact_latency
from quiver_fast.analysis.merging import Merging

if TYPE_CHECKING:
    from quiver_fast.records.transfers import RunBatch

__all__ = ["Settlement", "SettlementJoin"]


@dataclass(frozen=True)
class Settlement:
    """Settlement latencies of a sender.

    Attributes:
        all: those of every settlement line, in the clock's unit.
        sampled: only of the ``S`` lines: the first and every 256th message.
        unsettled: messages sent without a settlement line.
        unmatched: settlement lines without a send of that id, in neither latency.
    """

    all: Distribution
    sampled: Distribution
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


@dataclass(frozen=True, eq=False)
class _Sends:
    """Sends of one batch; ids ascend, and each is there once."""

    firsts: UInt64Array
    ends: UInt64Array
    borders: UInt64Array
    times: Int64Array

    @classmethod
    def of(cls, ids: UInt64Array, lengths: UInt64Array, times: Int64Array) -> _Sends:
        firsts, lengths, origin, _ = disjoint(ids, lengths)
        ends = firsts + lengths
        return cls(firsts, ends, np.unique(np.concatenate((firsts, ends))), times[origin])


@dataclass(frozen=True, eq=False)
class _Settled:
    """Runs of settlement lines."""

    firsts: UInt64Array
    lengths: UInt64Array
    times: Int64Array
    sampled: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.firsts)

    def cut(self, borders: UInt64Array) -> _Settled:
        firsts, lengths, origin = split_at(self.firsts, self.lengths, borders)
        return _Settled(firsts, lengths, self.times[origin], self.sampled[origin])

    def only(self, rows: NDArray[np.bool_]) -> _Settled:
        return _Settled(self.firsts[rows], self.lengths[rows], self.times[rows], self.sampled[rows])


class SettlementJoin:
    """Joins the settlements of a sender to its sends by id, batch by batch.

    The sends stay as runs, in memory that grows with their number: a settlement may come
    at any time. An id that was sent more than once is joined to its first send.
    """

    def __init__(self) -> None:
        self._sends: list[_Sends] = []
        self._lowest: list[int] = []
        self._highest: list[int] = []
        self._waiting: list[_Settled] = []
        self._all = Merging(Distribution.none(), Distribution.merged, len)
        self._sampled = Merging(Distribution.none(), Distribution.merged, len)
        self._matched = Merging(KeyCounts.none(), KeyCounts.merged, len)
        self._lines = 0

    def add(self, batch: RunBatch) -> None:
        """Add the sender's next records."""
        if batch.ids is None:
            return
        if len(batch):
            sends = _Sends.of(as_keys(batch.ids), as_keys(batch.count), batch.sent)
            self._sends.append(sends)
            self._lowest.append(int(sends.firsts[0]))
            self._highest.append(int(sends.ends[-1]))
        if len(batch.settled_ids):
            self._lines += int(batch.settled_count.sum())
            settled = _Settled(
                as_keys(batch.settled_ids),
                as_keys(batch.settled_count),
                batch.settled_times,
                batch.settled_sampled,
            )
            self._waiting.append(self._match(settled))

    def result(self, sent: KeyCounts) -> Settlement | None:
        """Return the latencies; None if there were no settlement lines.

        Args:
            sent: the ids of all sends.
        """
        if self._lines == 0:
            return None
        unmatched = sum(int(self._match(rest).lengths.sum()) for rest in self._waiting)
        everything = self._all.total()
        return Settlement(
            everything,
            self._sampled.total(),
            sent.distinct - self._matched.total().distinct,
            unmatched,
        )

    def _match(self, settled: _Settled) -> _Settled:
        """Take the latency of what has been sent; return the rest."""
        if len(settled) == 0:
            return settled
        low = int(settled.firsts.min())
        high = int((settled.firsts + settled.lengths).max())
        near = (np.array(self._lowest, np.uint64) < high) & (
            np.array(self._highest, np.uint64) > low
        )
        for index in np.flatnonzero(near):
            settled = self._match_one(settled, self._sends[index])
            if len(settled) == 0:
                break
        return settled

    def _match_one(self, settled: _Settled, sends: _Sends) -> _Settled:
        settled = settled.cut(sends.borders)
        rows = np.searchsorted(sends.firsts, settled.firsts, "right") - 1
        hit = rows >= 0
        hit[hit] = settled.firsts[hit] < sends.ends[rows[hit]]
        found = settled.only(hit)
        latencies = found.times - sends.times[rows[hit]]
        counts = found.lengths.astype(np.int64)
        self._all.add(Distribution.of_counted(latencies, counts))
        sampled = found.sampled
        self._sampled.add(Distribution.of_counted(latencies[sampled], counts[sampled]))
        self._matched.add(KeyCounts.of(found.firsts, found.lengths))
        return settled.only(~hit)
