"""Files of HdrHistogram: logs, and percentile distributions (``.hgrm``).

The latter are byte for byte as Java's class prints them. The Python port steps through the
percentiles in another way, and prints a mean in milliseconds beside a standard deviation in
nanoseconds.
"""

from __future__ import annotations

import heapq
import io
import math
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from operator import itemgetter, methodcaller
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.series import latencies_per_second
from quiver_fast.analysis.model.distribution import Distribution, Int64Array, sum_of_products
from quiver_fast.analysis.model.units import PER_SECOND, latency_text
from quiver_fast.analysis.tables.latencies import Histogram, Latencies
from quiver_fast.errors import OutputError
from quiver_fast.extras import optional_module
from quiver_fast.output_file import write_file

_DIGITS = 3
_NS_PER_MS = 10**6

HIGHEST_NS = 24 * 3600 * 10**9
"""The longest latency that is counted: a day."""


# Three significant digits need 2 * 10^3 sub-buckets, rounded up to a power of two.
_SUB_BUCKETS = 2048
_BUCKETS = 1 + math.floor(math.log2(HIGHEST_NS / _SUB_BUCKETS)) + 1
_TICKS_PER_HALF = 5


def write_hgrm(file: Path, runs: Sequence[RunData]) -> int:
    """Write the percentile distribution of all latencies in milliseconds, as HdrHistogram does.

    Returns:
        The number of latencies below zero, which HdrHistogram cannot hold and are left out.

    Raises:
        OutputError: nothing was received, or a latency is above a day.
    """
    together = BucketCounts()
    left_out = 0
    for histogram in _received(runs):
        factor = PER_SECOND["ns"] // PER_SECOND[histogram.unit]
        for part in histogram.distribution().parts():
            _check_length(part, histogram.unit)
            negative = int(np.searchsorted(part.values, 0))
            left_out += part.below(0)
            together.add(part.values[negative:] * factor, part.counts[negative:])
    write_file(file, methodcaller("write", together.text().encode()))
    return left_out


def write_hlog(file: Path, runs: Sequence[RunData]) -> int:
    """Write a HdrHistogram log with one interval for each second, values in nanoseconds.

    The seconds of all runs are in the order of time: Java's reader drops one that goes back.
    Returns and raises as :func:`write_hgrm`, and QuiverError where hdrhistogram is not installed.
    """
    histograms = _received(runs)
    log = optional_module("hdrh.log", "HdrHistogram export")
    left_out = 0

    def write(out: BinaryIO) -> None:
        nonlocal left_out
        text = io.TextIOWrapper(out, encoding="ascii")
        writer = log.HistogramLogWriter(text)
        writer.output_comment("[Logged by quiver-fast; values are nanoseconds]")
        writer.output_log_format_version()
        writer.output_base_time(0)
        writer.output_legend()
        for second, part, unit in heapq.merge(*map(_seconds, histograms), key=itemgetter(0)):
            left_out += _write_interval(writer, second, part, unit)
        text.detach()

    write_file(file, write)
    return left_out


def _seconds(histogram: Histogram) -> Iterator[tuple[int, Latencies, str]]:
    for second, part in latencies_per_second(histogram):
        yield second, part, histogram.unit


def _write_interval(writer: Any, second: int, latencies: Latencies, unit: str) -> int:
    """Write a second; return the number of its latencies below zero."""
    recorder = _recorder()
    left_out = sum(_record(recorder, piece, unit) for piece in latencies.parts())
    writer.output_interval_histogram(recorder, second, second + 1, _NS_PER_MS)
    return left_out


def _received(runs: Sequence[RunData]) -> list[Histogram]:
    histograms = [run.histogram for run in runs if run.histogram is not None]
    histograms = [histogram for histogram in histograms if histogram.total]
    if not histograms:
        raise OutputError("there are no latencies to export: no receiver's records")
    return histograms


def _recorder() -> Any:
    module = optional_module("hdrh.histogram", "HdrHistogram export")
    return module.HdrHistogram(1, HIGHEST_NS, _DIGITS)


def _record(recorder: Any, latencies: Distribution, unit: str) -> int:
    """Record latencies in nanoseconds; return the number of those below zero."""
    _check_length(latencies, unit)
    factor = PER_SECOND["ns"] // PER_SECOND[unit]
    values, counts = latencies.values.tolist(), latencies.counts.tolist()
    for value, count in zip(values, counts, strict=True):
        if value >= 0:
            recorder.record_value(value * factor, count)
    return latencies.below(0)


def _check_length(latencies: Distribution, unit: str) -> None:
    if latencies.maximum > HIGHEST_NS // 10**9 * PER_SECOND[unit]:
        shown = latency_text(latencies.maximum, unit)
        raise OutputError(f"a latency of {shown} is too long for HdrHistogram")


class BucketCounts:
    """Latencies from 0 ns to a day, counted in HdrHistogram's buckets of three digits."""

    def __init__(self) -> None:
        self._lowest = Distribution.none()

    def add(self, latencies: Int64Array, counts: Int64Array) -> None:
        """Add ``counts`` of ``latencies`` (nanoseconds, int64, 0 to :data:`HIGHEST_NS`)."""
        sizes = _sizes(latencies)
        self._lowest = self._lowest.merged(
            Distribution.of_counted(latencies // sizes * sizes, counts)
        )

    def text(self) -> str:
        """Return the distribution in milliseconds. There must be a latency."""
        lines = [
            f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}",
            "",
        ]
        lines += self._lines()
        mean, deviation, highest = self._figures()
        total = self._lowest.total
        lines += [
            f"#[Mean    = {_fixed(mean, 3):>12}, StdDeviation   = {_fixed(deviation, 3):>12}]",
            f"#[Max     = {_fixed(highest, 3):>12}, Total count    = {total:>12}]",
            f"#[Buckets = {_BUCKETS:>12}, SubBuckets     = {_SUB_BUCKETS:>12}]",
        ]
        return "\n".join(lines) + "\n"

    def _lines(self) -> Iterator[str]:
        values = self._lowest.values
        highest = (values + _sizes(values) - 1) / _NS_PER_MS
        totals = np.cumsum(self._lowest.counts)
        for row, level in _levels(totals):
            cells = f"{_fixed(highest[row], 3):>12} {_fixed(level / 100, 12)} {totals[row]:>10}"
            if level != 100:
                cells += f" {_fixed(1 / (1 - level / 100), 2):>14}"
            yield cells

    def _figures(self) -> tuple[float, float, float]:
        """Return mean, standard deviation and maximum in milliseconds."""
        values, counts = self._lowest.values, self._lowest.counts
        sizes = _sizes(values)
        middles = (values + sizes // 2).astype(np.float64)
        mean = sum_of_products(middles, counts) / self._lowest.total
        squares = sum_of_products((middles - mean) ** 2, counts) / self._lowest.total
        highest = float(values[-1] + sizes[-1] - 1)
        return mean / _NS_PER_MS, math.sqrt(squares) / _NS_PER_MS, highest / _NS_PER_MS


def _levels(totals: NDArray[np.int64]) -> Iterator[tuple[int, float]]:
    """Yield (row, percentile): five steps for each halving of the distance to 100 %.

    A row is the first whose share of all reaches the level; the last stands at 100 besides.
    """
    level, row, total = 0.0, 0, int(totals[-1])
    while row < len(totals):
        if 100.0 * int(totals[row]) / total < level:
            row += 1
            continue
        yield row, level
        if row == len(totals) - 1:
            break
        halvings = int(math.log(100 / (100 - level)) / math.log(2)) + 1
        level += 100.0 / (_TICKS_PER_HALF * 2**halvings)
    yield len(totals) - 1, 100.0


def _sizes(latencies: Int64Array) -> Int64Array:
    """Return how many values the bucket of each latency has."""
    # frexp of an integer below 2^53 gives its number of bits.
    bits = np.frexp(latencies.astype(np.float64))[1].astype(np.int64)
    return np.int64(1) << np.maximum(bits - (_SUB_BUCKETS - 1).bit_length(), 0)


def _fixed(value: float, decimals: int) -> str:
    """Return ``value`` with ``decimals``, rounded half up from its shortest digits as Java does."""
    step = Decimal(1).scaleb(-decimals)
    return f"{Decimal(repr(float(value))).quantize(step, ROUND_HALF_UP):f}"
