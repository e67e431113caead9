"""Files for other tools: HdrHistogram logs and percentile files, plot images."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.series import latencies_per_second
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.units import PER_SECOND, latency_text
from quiver_fast.analysis.show.hgrm import HIGHEST_NS, BucketCounts
from quiver_fast.analysis.tables.latencies import Histogram
from quiver_fast.errors import OutputError
from quiver_fast.extras import optional_module

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIGITS = 3
_NS_PER_MS = 10**6


def replace(file: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` fill a temporary file, which then takes the place of ``file``."""
    temporary = file.with_name(f".{file.name}.part")
    try:
        write(temporary)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _write_bytes(data: bytes, file: Path) -> None:
    file.write_bytes(data)


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
    replace(file, partial(_write_bytes, together.text().encode()))
    return left_out


def write_hlog(file: Path, runs: Sequence[RunData]) -> int:
    """Write a HdrHistogram log with one interval for each second, values in nanoseconds.

    The runs follow each other. Returns and raises as :func:`write_hgrm`, and QuiverError
    where hdrhistogram is not installed.
    """
    histograms = _received(runs)
    log = optional_module("hdrh.log", "HdrHistogram export")
    left_out = 0

    def write(part: Path) -> None:
        nonlocal left_out
        with part.open("w") as out:
            writer = log.HistogramLogWriter(out)
            writer.output_comment("[Logged by quiver-fast; values are nanoseconds]")
            writer.output_log_format_version()
            writer.output_base_time(0)
            writer.output_legend()
            for histogram in histograms:
                left_out += _write_intervals(writer, histogram)

    replace(file, write)
    return left_out


def _write_intervals(writer: Any, histogram: Histogram) -> int:
    left_out = 0
    for second, part in latencies_per_second(histogram):
        recorder = _recorder()
        for piece in part.parts():
            left_out += _record(recorder, piece, histogram.unit)
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


def write_images(directory: Path, plots: Mapping[str, Figure], form: str) -> list[Path]:
    """Write each plot to ``directory/NAME.FORM`` and return the files.

    Args:
        directory: made if it is not there.
        plots: figures by name.
        form: ``png`` or ``svg``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for name, figure in plots.items():
        file = directory / f"{name}.{form}"
        image = svg_text(figure).encode() if form == "svg" else _png(figure)
        replace(file, partial(_write_bytes, image))
        files.append(file)
    return files


def _png(figure: Figure) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=144)
    return image.getvalue()


def svg_text(figure: Figure) -> str:
    """Return ``figure`` as SVG with its text as text, the same for the same figures."""
    matplotlib = optional_module("matplotlib", "drawing plots")
    image = io.StringIO()
    # The date and random ids would make equal plots differ.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "quiver"}):
        figure.savefig(image, format="svg", metadata={"Date": None})
    return image.getvalue()
