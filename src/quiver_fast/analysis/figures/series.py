"""Per-second series: message counts and latency percentiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.columns import Column, Pairs, SecondRows, pieces_of
from quiver_fast.analysis.model.distribution import Distribution, Float64Array, Int64Array
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.model.ranks import PER_SECOND
from quiver_fast.analysis.tables.latencies import Histogram, Latencies
from quiver_fast.analysis.tables.spilled import LatencyRows

# Silent seconds have rows in series of a day, and if they are no more than the others:
# one record of a clock that stepped must not ask for fifty years of rows.
_MOST_ROWS = 100_000
_MOST_TIMES = 2


def per_second(counts: Distribution, histogram: Histogram | None) -> dict[str, Any]:
    """Return counts and, for a receiver, latency percentiles of each epoch second.

    Args:
        counts: messages in each epoch second, by send time (sender) or receive time.
        histogram: the latencies of received messages; None for a sender.

    Returns:
        ``every_second``: whether each second from the first to the last has a row, as it has
        in series of up to 100,000 seconds or twice as many as have messages; else only those
        with messages do. And columns (:class:`.columns.Column`) of equal length: ``second``
        (epoch seconds, ascending), ``count``, and with ``histogram`` also ``latency_p50``,
        ``latency_p99`` and ``latency_max`` in its unit, None in a second without messages.
        They are made of the arguments whenever they are read.
    """
    rows = SecondRows(counts.values, _in_full(counts.values))
    columns: dict[str, Any] = {
        "every_second": rows.every,
        "second": Column(len(rows), rows.rows),
        "count": rows.column(
            lambda: zip(pieces_of(counts.values), pieces_of(counts.counts), strict=True), 0
        ),
    }
    if histogram is not None:
        for name, rank in PER_SECOND.items():
            columns[name] = rows.column(partial(percentiles_at, histogram, rank), np.nan)
    return columns


def _in_full(seconds: Int64Array) -> bool:
    """Say whether the seconds between these have rows too."""
    if len(seconds) == 0:
        return True
    span = int(seconds[-1]) - int(seconds[0]) + 1
    return span <= max(_MOST_ROWS, _MOST_TIMES * len(seconds))


def percentiles_at(histogram: Histogram, rank: float, factor: int = 1) -> Pairs:
    """Yield the percentile at ``rank``, over ``factor``, of each second that has messages."""
    for seconds, table in percentile_tables(histogram, (rank,)):
        yield seconds, table[:, 0] / factor


def percentiles_per_second(
    histogram: Histogram, ranks: Sequence[float]
) -> tuple[Int64Array, Float64Array]:
    """Return the seconds that have messages, and their latency percentiles.

    Args:
        histogram: of n seconds with messages.
        ranks: r percentile ranks, 0 to 100.

    Returns:
        Epoch seconds, int64[n], and latencies in the histogram's unit, float64[n, r], by
        the definition of :meth:`.distribution.Distribution.percentiles`.
    """
    seconds, tables = [np.empty(0, np.int64)], [np.empty((0, len(ranks)))]
    for found, table in percentile_tables(histogram, ranks):
        seconds.append(found)
        tables.append(table)
    return np.concatenate(seconds), np.concatenate(tables)


def percentile_tables(
    histogram: Histogram, ranks: Sequence[float]
) -> Iterator[tuple[Int64Array, Float64Array]]:
    """Yield the same in pieces, none of them empty."""
    for group in _groups(histogram):
        if isinstance(group, SecondHistogram):
            yield group.seconds[_starts(group)], _percentile_table(group, ranks)
        else:
            yield np.array([group[0]]), np.array([group[1].percentiles(ranks)])


def _percentile_table(histogram: SecondHistogram, ranks: Sequence[float]) -> Float64Array:
    """Return the percentiles of all seconds at once; there is one at least."""
    starts = _starts(histogram)
    ends = np.cumsum(histogram.counts)
    before = ends[starts] - histogram.counts[starts]
    last = np.add.reduceat(histogram.counts, starts) - 1
    table = np.empty((len(starts), len(ranks)))
    for column, rank in enumerate(ranks):
        position = last * (rank / 100)
        index = np.floor(position).astype(np.int64)
        places = (before + index, before + np.minimum(index + 1, last))
        low, high = (histogram.latencies[np.searchsorted(ends, at, "right")] for at in places)
        fraction = position - index
        # The steps of distribution.interpolated.
        from_low, from_high = low + (high - low) * fraction, high - (high - low) * (1 - fraction)
        table[:, column] = np.where(fraction >= 0.5, from_high, from_low)
    return table


def latencies_per_second(histogram: Histogram) -> Iterator[tuple[int, Latencies]]:
    """Yield (epoch second, latencies) of each second that has messages, in order."""
    for group in _groups(histogram):
        if isinstance(group, SecondHistogram):
            starts = _starts(group)
            ends = np.append(starts, len(group.seconds))[1:]
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                latencies = Distribution(group.latencies[start:end], group.counts[start:end])
                yield int(group.seconds[start]), latencies
        else:
            yield group


def _groups(histogram: Histogram) -> Iterator[SecondHistogram | tuple[int, Latencies]]:
    """Yield whole seconds in order: those at the ends of parts, which may go on, one by one."""
    held: tuple[int, LatencyRows] | None = None
    for part in histogram.parts():
        if part.total == 0:
            continue
        first, last = int(part.seconds[0]), int(part.seconds[-1])
        for second in dict.fromkeys((first, last)):
            if held is not None and held[0] != second:
                yield held[0], held[1].total()
                held = None
            if second == last and last > first + 1:
                between = part.within(first + 1, last - 1)
                if between.total:
                    yield between
            held = held or (second, LatencyRows())
            edge = part.within(second, second)
            held[1].add(edge.latencies, edge.counts)
    if held is not None:
        yield held[0], held[1].total()


def _starts(histogram: SecondHistogram) -> NDArray[np.intp]:
    return np.flatnonzero(np.diff(histogram.seconds, prepend=histogram.seconds[:1] - 1))
