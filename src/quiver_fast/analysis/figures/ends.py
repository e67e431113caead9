"""A run of many ends: the files of its senders, or of its receivers, taken together.

Counts, histograms and ids add up, so that every figure of the sum is that of one file with the
records of all: percentiles are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quiver_fast.analysis.figures.delivery import Reconciliation, least_reordered
from quiver_fast.analysis.figures.file_analysis import FileAnalysis, Steps
from quiver_fast.analysis.figures.request_reply import replies_of_all
from quiver_fast.analysis.figures.settlement import Settlement
from quiver_fast.analysis.figures.streams import Streams
from quiver_fast.analysis.model.bounds import RunBounds, all_failures, was_emptied
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.model.matching import Matching, matching_of
from quiver_fast.analysis.tables.latencies import Histogram, Latencies
from quiver_fast.analysis.tables.order import Order
from quiver_fast.analysis.tables.spilled import HistogramRows, LatencyRows
from quiver_fast.errors import RecordError
from quiver_fast.rate_steps import RateStep, parse_rate_steps
from quiver_fast.records.formats import V3
from quiver_fast.records.transfers import RunBatch

# A side has fewer ends.
_NOBODY = 100_000


def all_of(found: Sequence[FileAnalysis]) -> FileAnalysis:
    """Return the facts of all files of one side together.

    Args:
        found: of each file, one or more; of senders, ids and ticks are in tables that all share.

    Raises:
        RecordError: they record in different units or formats.
    """
    told = [one for one in found if one.record_format is not None] or list(found[:1])
    for differing in ({one.time_unit for one in told}, {one.record_format == V3 for one in told}):
        if len(differing) > 1:
            raise RecordError(f"the {told[0].operation} records of the ends {_how(differing)}")
    firsts = [one.first_time for one in told if one.first_time is not None]
    lasts = [one.last_time for one in told if one.last_time is not None]
    latest = [one.latest for one in told if one.latest is not None]
    earliest = [one.earliest for one in told if one.earliest is not None]
    missing = [one.missing_bytes for one in found if one.missing_bytes is not None]
    first = told[0]
    return FileAnalysis(
        record_format=max((one.record_format for one in told if one.record_format), default=None)
        if first.record_format != V3
        else first.record_format,
        operation=first.operation,
        time_unit=first.time_unit,
        count=_sum(one.count for one in found),
        first_time=min(firsts, default=None),
        last_time=max(lasts, default=None),
        seconds=_added(one.seconds for one in told).in_memory(),
        histogram=_histogram([one.histogram for one in told], first.time_unit),
        ids=next((one.ids for one in told if one.ids is not None), None),
        ids_hashed=any(one.ids_hashed for one in found),
        send_ticks=first.send_ticks,
        reordered=_sum(one.reordered for one in found),
        settlement=_settlement([one.settlement for one in told], told),
        malformed=_sum(one.malformed for one in found),
        first_malformed=next((one.first_malformed for one in found if one.first_malformed), None),
        truncated=any(one.truncated for one in found),
        streams=_streams([one.streams for one in told if one.streams is not None]),
        older=_sum(one.older for one in found),
        foreign=_sum(one.foreign for one in found),
        end=first.end,
        late=_sum(one.late for one in found),
        latest=max(latest, default=None),
        missing_bytes=sum(missing) if missing else None,
        earliest=min(earliest, default=None),
        set_back=max(one.set_back for one in told),
        steps=_steps([one.steps for one in told], first.time_unit),
        ledger=first.ledger,
    )


def _how(differing: set[Any]) -> str:
    if differing == {True, False}:
        return "differ: some have ids, some have not"
    return f"have times in {' and '.join(sorted(differing))}"


def _sum(numbers: Iterable[int]) -> int:
    return sum(numbers)


def _added(distributions: Iterable[Latencies]) -> Latencies:
    rows = LatencyRows()
    for distribution in distributions:
        for part in distribution.parts():
            rows.add(part.values, part.counts)
    return rows.total()


def _histogram(histograms: Sequence[Histogram | None], unit: str) -> Histogram | None:
    if None in histograms:
        return None
    rows = HistogramRows(unit)
    for histogram in histograms:
        for part in () if histogram is None else histogram.parts():
            _add_part(rows, part)
    return rows.total()


def _steps(steps: Sequence[Steps | None], unit: str) -> Steps | None:
    """Add up the receipts of each step; the sends are in the facts of each receiver."""
    latencies = _histogram([None if one is None else one.latencies for one in steps], unit)
    if latencies is None or steps[0] is None:
        return None
    return Steps(steps[0].sent, latencies)


def _add_part(rows: HistogramRows, part: SecondHistogram) -> None:
    rows.add(part.seconds, part.latencies, part.counts)


def _settlement(
    settlements: Sequence[Settlement | None], ends: Sequence[FileAnalysis]
) -> Settlement | None:
    """Add up settlements; of an end that has none, no message was settled."""
    some = [one for one in settlements if one is not None]
    if not some:
        return None
    without = (end.count for end, one in zip(ends, settlements, strict=True) if one is None)
    return Settlement(
        _added(one.all for one in some),
        _added(one.sampled for one in some),
        _sum(one.unsettled for one in some) + sum(without),
        _sum(one.unmatched for one in some),
    )


def _streams(streams: Sequence[Streams]) -> Streams | None:
    if not streams:
        return None
    return Streams(
        _sum(one.body_bytes for one in streams),
        min(one.start for one in streams),
        max(one.end for one in streams),
        _added(one.first_byte for one in streams),
    )


def bounds_of_ends(
    senders: Sequence[dict[str, Any]], receivers: Sequence[dict[str, Any]]
) -> RunBounds:
    """Return the bounds that the summaries of all ends tell, as :meth:`.RunBounds.of` does.

    Args:
        senders: of each, at least its ``config``, ``complete`` and ``arrow``; values may be None.
        receivers: likewise.
    """
    pairs = [RunBounds.of(one, None) for one in senders]
    others = [RunBounds.of(None, one) for one in receivers]
    flags = [one.get("complete") for one in (*senders, *receivers)]
    starts = [one.run_start for one in others if one.run_start is not None]
    counts = [one.count for one in pairs]
    peers = {one.peer_to_peer for one in others}
    complete = False if False in flags else None if None in flags else True
    asked = (senders[0].get("config") or {}).get("ends") or {} if senders else {}
    return RunBounds(
        run_start=min(starts, default=None),
        duration=max((one.duration for one in pairs), default=0),
        count=sum(counts) if all(counts) else 0,
        credit_window=sum(one.credit_window for one in others),
        complete=complete,
        emptied=was_emptied(senders, receivers),
        peer_to_peer=peers.pop() if len(peers) == 1 else None,
        refused=sum(one.refused for one in pairs),
        released=_known([one.released for one in others]),
        rejected=_known([one.rejected for one in others]),
        modified=_known([one.modified for one in others]),
        undeliverable=sum(one.undeliverable for one in others),
        dead_lettered=_known([one.dead_lettered for one in others]),
        steps=_steps_of_all(senders[0]) if senders else (),
        body_bytes=pairs[0].body_bytes if pairs else None,
        aborted=sum(one.aborted for one in pairs),
        faults=pairs[0].faults if pairs else (),
        failures=all_failures(one.failures for one in (*pairs, *others)),
        copies=asked["receivers"] if asked.get("fan_out") else 0,
        filtered=any(one.filtered for one in others),
        matching=_matching_of_all(senders, receivers),
        senders=sum(_members(one) for one in senders),
        replies=replies_of_all(one.replies for one in pairs),
    )


def _matching_of_all(
    senders: Sequence[dict[str, Any]], receivers: Sequence[dict[str, Any]]
) -> Matching | None:
    """Return which messages match the filter of all receivers; None if they differ."""
    if not senders or not receivers:
        return None
    found = [matching_of(one, receivers[0]) for one in senders]
    found += [matching_of(senders[0], one) for one in receivers[1:]]
    return found[0] if all(one == found[0] for one in found) else None


def _members(summary: dict[str, Any]) -> int:
    found: int = ((summary.get("config") or {}).get("ends") or {}).get("members", 1)
    return found


def _known(counts: Iterable[int | None]) -> int | None:
    """Add up the known values; None without any."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _steps_of_all(sender: dict[str, Any]) -> tuple[RateStep, ...]:
    """Return the steps that were asked of all senders, as the summary of one tells."""
    asked = (sender.get("config") or {}).get("ends") or {}
    return parse_rate_steps(asked.get("rate_steps") or "")


def known_numbers(ends: Int64Array) -> Int64Array:
    """Return numbers of ends; a line that no arrow wrote may have any number."""
    return np.where((ends >= 0) & (ends < _NOBODY), ends, _NOBODY)


class Owners:
    """Which end each place in a table of ids is of."""

    def __init__(self) -> None:
        self._firsts: list[Int64Array] = []
        self._numbers: list[Int64Array] = []
        self._last = -1

    def add(self, place: int, number: int) -> None:
        """Note that the ids from a place on are those of an end, until the next call."""
        self._firsts.append(np.array([place], np.int64))
        self._numbers.append(np.array([number], np.int64))
        self._last = number

    def add_batch(self, place: int, batch: RunBatch) -> None:
        """Note the ends of the ids of a process that has several, as far as it tells them.

        Args:
            place: of the first of them.
            batch: the next records of that process.
        """
        if batch.ends is None or not len(batch):
            return
        numbers = known_numbers(batch.ends)
        firsts = place + np.cumsum(batch.count) - batch.count
        fresh = np.append(numbers[:1] != self._last, numbers[1:] != numbers[:-1])
        self._firsts.append(firsts[fresh])
        self._numbers.append(numbers[fresh])
        self._last = int(numbers[-1])

    def of(self, places: Int64Array) -> Int64Array:
        """Return the number of the end of each place."""
        firsts, numbers = self._joined()
        found: Int64Array = numbers[np.searchsorted(firsts, places, "right") - 1]
        return found

    @property
    def most(self) -> int:
        """One more than the largest number of an end."""
        return 1 + max((int(some.max()) for some in self._numbers if len(some)), default=0)

    def cut(self, rows: Int64Array) -> Int64Array:
        """Return rows that are of one end each, in their order.

        Args:
            rows: int64[n, 3], places in the table, places in another one, and how many follow.
        """
        firsts, _ = self._joined()
        begins, ends = rows[:, 0], rows[:, 0] + rows[:, 2]
        low, high = np.searchsorted(firsts, begins, "right"), np.searchsorted(firsts, ends, "left")
        pieces = np.maximum(high - low, 0) + 1
        row = np.repeat(np.arange(len(rows)), pieces)
        piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        padded = np.append(firsts, 0)
        cut = low[row] + piece
        start = np.where(piece == 0, begins[row], padded[cut - 1])
        end = np.where(piece == pieces[row] - 1, ends[row], padded[np.minimum(cut, len(firsts))])
        return np.column_stack((start, rows[row, 1] + start - begins[row], end - start))

    def _joined(self) -> tuple[Int64Array, Int64Array]:
        if len(self._firsts) != 1:
            nothing = np.zeros(1, np.int64)
            self._firsts = [np.concatenate(self._firsts or [nothing])]
            self._numbers = [np.concatenate(self._numbers or [nothing])]
        return self._firsts[0], self._numbers[0]


@dataclass(frozen=True)
class Shares:
    """The shares of each sender and each receiver in the deliveries, where there are ids.

    Attributes:
        delivered: by the number of a sender, how many of its messages were received.
        arrived: by the number of a receiver, how many messages it received first.
        reordered: by the number of a receiver, first receipts of messages that were sent, by the
            same sender, before one that it had already received.
    """

    delivered: dict[int, int]
    arrived: dict[int, int]
    reordered: dict[int, int]


class EndsReconciliation(Reconciliation):
    """Compares the records of all receivers, one after another, with those of all senders.

    Args:
        sender: the facts of all senders together, kept for reconciling.
        run: the bounds of the run.
        sent: whose the places in the table of sent ids are.
    """

    def __init__(self, sender: FileAnalysis, run: RunBounds, sent: Owners) -> None:
        super().__init__(sender, run)
        self._sent = sent
        self._receivers = Owners()

    def begin_receiver(self, number: int) -> None:
        """Note that the next records are of this receiver, or of those that they tell."""
        self._receivers.add(self._received_ids.mark(), number)
        self._end = number

    def own(self, batch: RunBatch, time_unit: str) -> RunBatch:
        """See :meth:`Reconciliation.own`; a file without records does not tell its format."""
        if not len(batch) and not batch.streamed:
            return batch
        mark = 0 if batch.ends is None else self._received_ids.mark()
        found = super().own(batch, time_unit)
        if self._by_ids:
            self._receivers.add_batch(mark, found)
        return found

    @property
    def left_out(self) -> tuple[int, int]:
        """The receipts so far of messages of an earlier run, and of others."""
        return self._sieve.older, self._sieve.foreign

    def shares(self) -> Shares | None:
        """Return the shares; None where messages have no ids."""
        if not self._by_ids:
            return None
        delivered = np.zeros(self._sent.most, np.int64)
        arrived = np.zeros(self._receivers.most, np.int64)
        orders: dict[tuple[int, int], Order] = {}
        for receivers, rows in self._first_receipts():
            senders = self._sent.of(rows[:, 1])
            np.add.at(delivered, senders, rows[:, 2])
            np.add.at(arrived, receivers, rows[:, 2])
            _add_to_orders(orders, receivers, senders, rows)
        behind: dict[int, int] = {}
        for (receiver, _), order in orders.items():
            behind[receiver] = behind.get(receiver, 0) + order.behind
        by_sender, by_receiver = (
            dict(enumerate(counts.tolist())) for counts in (delivered, arrived)
        )
        return Shares(by_sender, by_receiver, behind)

    def _first_receipts(self) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Yield numbers of receivers, and what arrived there (:class:`.id_table.IdBalance`)."""
        for whole in self._ids().arrivals.chunks():
            rows = self._receivers.cut(whole)
            yield self._receivers.of(rows[:, 0]), rows

    def result_of(self, reordered: int | None) -> dict[str, Any]:
        """Return the delivery of the messages (:meth:`Reconciliation.result`).

        Args:
            reordered: arrivals out of the order of their sender; None where they cannot be told.
        """
        found = self.result()
        if reordered is not None and not self._by_ids:
            reordered = least_reordered(reordered, found["duplicate"])
        return found | {"reordered": reordered}


def _add_to_orders(
    orders: dict[tuple[int, int], Order],
    receivers: Int64Array,
    senders: Int64Array,
    rows: Int64Array,
) -> None:
    """Add arrivals to the order of the messages of each sender at each receiver."""
    # The two values of a pair stay together, in their order.
    sorting = np.lexsort((senders, receivers))
    rows, receivers, senders = rows[sorting], receivers[sorting], senders[sorting]
    changes = (receivers[1:] != receivers[:-1]) | (senders[1:] != senders[:-1])
    begins = np.flatnonzero(np.append(True, changes))[: len(rows)]
    for begin, of_both in zip(begins, np.split(rows, begins[1:]), strict=False):
        pair = int(receivers[begin]), int(senders[begin])
        order = orders.setdefault(pair, Order())
        order.add(of_both[:, 1].copy(), of_both[:, 2].copy(), None)


def fairness(counts: Sequence[int]) -> dict[str, Any] | None:
    """Return how evenly messages are spread over the ends of one side.

    Keys: ``shares``: of each end, its part of all; ``least`` and ``most`` of them, and ``ratio``,
    the one by the other; ``index``: Jain's, (sum x)^2 / (n * sum x^2): 1 where all are equal, 1/n
    where one has all. None without messages.
    """
    total = sum(counts)
    if not total:
        return None
    shares = [count / total for count in counts]
    squares = sum(count * count for count in counts)
    return {
        "index": total * total / (len(counts) * squares),
        "ratio": min(counts) / max(counts),
        "least": min(shares),
        "most": max(shares),
        "shares": shares,
    }


def schedule_of_ends(schedules: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how all senders kept their schedules (:func:`.schedule.send_schedule`).

    Rates and messages add up. Each percentile of ``late_us`` and ``late_by_us`` is that of the
    sender that has the largest. ``missed``: some sender missed its schedule.
    """
    lates = [one["late_us"] for one in schedules]
    flags = [one["missed"] for one in schedules]
    causes = [one["late_by_us"] for one in schedules]
    late_by = None
    if all(one is not None for one in causes):
        late_by = {cause: _largest([one[cause] for one in causes]) for cause in causes[0]}
    return {
        **{
            name: _all([one[name] for one in schedules])
            for name in ("rate", "due", "sent", "never_sent", "achieved")
        },
        "late_us": _largest(lates) if all(one is not None for one in lates) else None,
        "late_by_us": late_by,
        "over_time": over_time([one["over_time"] for one in schedules]),
        "missed": True if True in flags else None if None in flags else False,
    }


def over_time(senders: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return ``over_time`` of all senders: messages add up, of delays the largest counts.

    None where a sender does not tell it. Steps are those of the sender with the longest.
    """
    known = [one for one in senders if one is not None]
    if not known or len(known) < len(senders):
        return None
    seconds = max(one["seconds"] for one in known)

    def together(lists: Sequence[list[int]], combine: np.ufunc) -> list[int]:
        factors = [max(seconds // one["seconds"], 1) for one in known]
        longest = max(-(-len(one) // factor) for one, factor in zip(lists, factors, strict=True))
        table = np.zeros((len(known), longest), np.int64)
        for row, one, factor in zip(table, lists, factors, strict=True):
            begins = np.arange(0, len(one), factor)
            row[: len(begins)] = combine.reduceat(np.array(one, np.int64), begins)
        found: list[int] = combine.reduce(table).tolist()
        return found

    return {
        "seconds": seconds,
        "sent": together([one["sent"] for one in known], np.add),
        "late_us": together([one["late_us"] for one in known], np.maximum),
        "late_by_us": {
            cause: together([one["late_by_us"][cause] for one in known], np.maximum)
            for cause in known[0]["late_by_us"]
        },
    }


def _largest(percentiles: Sequence[dict[str, float]]) -> dict[str, float]:
    return {rank: max(one[rank] for one in percentiles) for rank in percentiles[0]}


def _all(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None
