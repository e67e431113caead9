"""The lines about each message id of a run with failures: sends, settlements, copies, receipts.

A receipt is in a *life* of a connection: of one end, between two failures of its connection. A
row is (block of ids, first id, ids, kind, lines of that kind about each of these ids).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quiver_fast.analysis.model.distribution import Int64Array, distinct
from quiver_fast.analysis.model.matching import Matching
from quiver_fast.analysis.tables.id_table import cut_blocks, keys_of, wanted
from quiver_fast.analysis.tables.key_runs import as_keys, split_at
from quiver_fast.analysis.tables.sorted_rows import Rows, SortedRows

SENT, SETTLED, COPIED = -3, -2, -1
"""The kinds of lines, beside those of :meth:`Lives.kinds`."""

NO_LINES: Rows = np.empty((0, 5), np.int64)

_FIRST, _LENGTH, _KIND, _COUNT = range(1, 5)
# A life's number among those of its end stands above whether it ended by a failure.
_LIFE_BITS = 22
# A side has fewer ends; a line that no arrow wrote may have any number.
_NOBODY = 100_000


class Lives:
    """The lives of the connections of receivers.

    Args:
        losses: the number of an end, and the tick at which its connection was lost.
    """

    def __init__(self, losses: Sequence[tuple[int, int]]) -> None:
        ends, ticks = np.array(losses, np.int64).reshape(-1, 2).T
        self._ticks = distinct(ticks)
        self._losses = np.sort(self._moments(ends, ticks))

    def _moments(self, ends: Int64Array, ticks: Int64Array | int) -> Int64Array:
        """Return numbers that ascend by end, then by time as far as losses tell times apart."""
        return ends * (len(self._ticks) + 1) + np.searchsorted(self._ticks, ticks)

    def kinds(self, ends: Int64Array, received: Int64Array) -> Int64Array:
        """Return the life of each receipt: one number for each, odd where a failure ended it.

        Args:
            ends: int64[n], the number of the end that received it.
            received: int64[n], when, in the unit of the losses.
        """
        ends = np.where((ends >= 0) & (ends < _NOBODY), ends, _NOBODY)
        # A message that came in the tick of a loss came before it.
        first, now, last = (
            np.searchsorted(self._losses, moments)
            for moments in (
                self._moments(ends, 0), self._moments(ends, received), self._moments(ends + 1, 0),
            )
        )  # fmt: skip
        return ends << _LIFE_BITS | (now - first) << 1 | (now < last)


class Fates:
    """The lines about all messages, in any number: see :mod:`quiver_fast.analysis.tables.fates`."""

    def __init__(self) -> None:
        self._rows = SortedRows(5, combine=summed_kinds)

    def add(
        self, ids: Int64Array, counts: Int64Array, highs: Int64Array | None, kinds: Int64Array | int
    ) -> None:
        """Add lines.

        Args:
            ids: int64[n], the first id of each run, which then counts up.
            counts: int64[n], ids in each run.
            highs: int64[n], the upper halves of the ids; None for numbers throughout.
            kinds: of all, or int64[n].
        """
        firsts, lengths = as_keys(ids), as_keys(counts)
        kinds = np.broadcast_to(np.int64(kinds), len(ids))
        if highs is None:
            order = np.argsort(kinds, kind="stable")
            firsts, lengths, kinds = firsts[order], lengths[order], kinds[order]
            fresh = (firsts[1:] != (firsts + lengths)[:-1]) | (kinds[1:] != kinds[:-1])
            starts = np.flatnonzero(np.append(True, fresh))
            firsts, lengths, kinds = firsts[starts], np.add.reduceat(lengths, starts), kinds[starts]
        block, firsts, lengths, origin, _ = cut_blocks(firsts, lengths, highs)
        ones = np.ones(len(block), np.int64)
        rows = firsts.view(np.int64), lengths.view(np.int64), kinds[origin], ones
        self._rows.add(block, *rows)

    def totals(self, matching: Matching | None = None) -> dict[str, int]:
        """Return the sums of :func:`totals_of` over all messages."""
        found: dict[str, int] = {}
        for rows in self._rows.chunks():
            totals = totals_of(rows, matching)
            found = {name: n + found.get(name, 0) for name, n in totals.items()}
        return found or totals_of(NO_LINES)


def summed_kinds(rows: Rows) -> Rows:
    """Cut rows of whole blocks where others begin and end, and add up those of an id and kind."""
    (keys,), lengths = keys_of(rows), rows[:, _LENGTH].view(np.uint64)
    borders = distinct(np.concatenate((keys, keys + lengths)))
    pieces, sizes, origin = split_at(keys, lengths, borders)
    order = np.lexsort((rows[origin, _KIND], pieces))
    origin, pieces, sizes = origin[order], pieces[order], sizes[order]
    cut = rows[origin]
    cut[:, _FIRST] += (pieces - keys[origin]).view(np.int64)
    cut[:, _LENGTH] = sizes.view(np.int64)
    fresh = (pieces[1:] != pieces[:-1]) | (cut[1:, _KIND] != cut[:-1, _KIND])
    starts = np.flatnonzero(np.append(True, fresh))
    found = cut[starts]
    found[:, _COUNT] = np.add.reduceat(cut[:, _COUNT], starts)
    return found


def totals_of(rows: Rows, matching: Matching | None = None) -> dict[str, int]:
    """Return how many messages had which fate, without those that a filter leaves out.

    Keys: ``settled_received``, ``settled_unreceived``, ``unsettled_received`` and
    ``unsettled_unreceived`` messages that were sent; and the further arrivals of these messages:
    ``resent_received``, those that copies explain; ``redelivered``, those that failures explain;
    and ``duplicate``, the others, which is the least possible number. A message that was sent and
    copied so often may arrive as often in each life, and once more for each arrival in a life that
    a failure ended.

    Args:
        rows: as :func:`summed_kinds` returns them, of whole blocks.
        matching: the messages that the receivers' filter lets through; None for all.
    """
    starts, of = _by_message(rows)
    kinds, counts = rows[:, _KIND], rows[:, _COUNT]
    sent, settled, copied = (_sums(counts * (kinds == k), starts) for k in (SENT, SETTLED, COPIED))
    receipts = _sums(counts * (kinds >= 0), starts)
    instances = sent + copied
    likely = np.minimum(counts, instances[of]) * (kinds >= 0)
    likely, ended = _sums(likely, starts), _sums(likely * (kinds & 1), starts)
    received, settled = np.minimum(receipts, sent), np.minimum(settled, sent)
    both = np.minimum(received, settled)
    expected = np.minimum(likely, instances)
    again = np.minimum(likely - expected, ended)
    values = {
        "settled_received": both,
        "settled_unreceived": settled - both,
        "unsettled_received": received - both,
        "unsettled_unreceived": sent - settled - (received - both),
        "resent_received": expected - received,
        "redelivered": again,
        "duplicate": receipts - expected - again,
    }
    weights = wanted(rows[starts, :_KIND], matching) * (sent > 0)
    return {name: int((value * weights).sum()) for name, value in values.items()}


def _by_message(rows: Rows) -> tuple[Int64Array, Int64Array]:
    """Return where the rows of each run of ids begin, and of each row the number of its run."""
    same = np.all(rows[1:, : _FIRST + 1] == rows[:-1, : _FIRST + 1], axis=1)
    fresh = np.append(True, ~same)[: len(rows)]
    return np.flatnonzero(fresh), np.cumsum(fresh) - 1


def _sums(values: Int64Array, starts: Int64Array) -> Int64Array:
    return np.add.reduceat(values, starts) if len(values) else values
