"""Files for other tools: HdrHistogram logs and percentile files."""

from __future__ import annotations

import heapq
import io
from collections.abc import Iterator, Sequence
from operator import itemgetter, methodcaller
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from quiver_fast.analysis.export.hgrm import HIGHEST_NS, BucketCounts
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.series import latencies_per_second
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.units import PER_SECOND, latency_text
from quiver_fast.analysis.tables.latencies import Histogram, Latencies
from quiver_fast.errors import OutputError
from quiver_fast.extras import optional_module
from quiver_fast.output_file import write_file

_DIGITS = 3
_NS_PER_MS = 10**6


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
