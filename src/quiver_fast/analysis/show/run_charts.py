"""The charts of one run on a page.

Latencies are shown on a scale that is logarithmic above one tick of the records' clock and
linear below, so that zero and negative latencies have a place. A rate is that of the covered
part of a second: a run begins and ends within one, and its points are in the midst of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from quiver_fast.analysis.figures.omission import CorrectedDistribution
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.schedule import LATE_BY
from quiver_fast.analysis.figures.statistics import (
    OF_STEADY,
    arrivals,
    departures,
    ending,
)
from quiver_fast.analysis.figures.steps import planned_steps, step_begins
from quiver_fast.analysis.figures.windows import SecondCounts, latency_windows
from quiver_fast.analysis.model.distribution import Float64Array, Int64Array
from quiver_fast.analysis.model.ranks import CHARTS, rank_head
from quiver_fast.analysis.model.units import latency_text, per_millisecond, short_text
from quiver_fast.analysis.read.snapshot_file import Snapshots, read_snapshots
from quiver_fast.analysis.show.chart import Chart, percentile_chart
from quiver_fast.analysis.show.heatmap import heat_image
from quiver_fast.analysis.show.scales import (
    TIME,
    count_scale,
    latency_scale,
    percentile_scale,
    time_scale,
)
from quiver_fast.analysis.tables.latencies import Histogram, Latencies, coarse
from quiver_fast.rate_steps import RateStep, parse_rate_steps
from quiver_fast.words import counted

SENT, RECEIVED, SCHEDULE = 1, 0, 7
"""The colours of the two ends, and of the schedule."""
_COLOURS = {"50": 2, "99": 0, "99.9": 3, "100": 1}
"""Of percentiles; others have the next ones by their place."""
_CURVE_POINTS = 120


@dataclass(frozen=True)
class _Span:
    """From when to when a run is drawn: epoch seconds."""

    start: float
    end: float

    @property
    def length(self) -> float:
        return max(self.end - self.start, 1e-3)


def run_charts(run: RunData, statistics: Mapping[str, Any], prefix: str = "") -> list[Chart]:
    """Return the charts of a run.

    Args:
        run: as a backend returned it, with its histogram where messages were received.
        statistics: its section ``analysis``.
        prefix: goes before the ids of the figures.

    Raises:
        RecordError: a file of snapshots is damaged.
        OSError: it cannot be read.
    """
    span = _span_of(run)
    charts = [] if span is None else [_throughput(run, statistics, span, prefix)]
    histogram = run.histogram
    if histogram is not None and histogram.total and span is not None:
        charts.append(_latency(histogram, span, prefix))
        charts.append(_percentiles(histogram, statistics["coordinated_omission"], prefix))
        charts.append(_heat_map(histogram, span, prefix))
    charts += filter(None, (_lateness(run, prefix), _lateness_over_time(run, span, prefix)))
    charts += _usage(run, span, prefix)
    for chart in charts:
        if span is not None and chart.x.name == TIME:
            _mark_faults(chart, run, span)
    return charts


def _mark_faults(chart: Chart, run: RunData, span: _Span) -> None:
    for one in (run.sender or {}).get("faults") or ():
        if one["at"] is not None:
            until = one["until"] / 1e9 if one["until"] else span.end
            text = f"{one['text']}: {one['proof']}"
            chart.fault(one["at"] / 1e9 - span.start, until - span.start, text)


def tick_of(histogram: Histogram) -> float:
    """Return one tick of the clock of ``histogram`` in milliseconds."""
    return 1 / per_millisecond(histogram.unit)


def with_centres(counts: SecondCounts) -> tuple[Float64Array, Float64Array]:
    """Return the rates of a run for a line, in the middle of the covered part of each second.

    Returns:
        Epoch seconds and messages/s, float64; 0 in seconds without messages.
    """
    seconds, rates = with_silence(counts.seconds, counts.rates, 0.0)
    centres = seconds.astype(np.float64) + 0.5
    covered = counts.covered
    if len(covered):
        # The first second is covered at its end, the last one at its begin.
        centres[0] = seconds[0] + 1 - covered[0] / 2
        if len(centres) > 1:
            centres[-1] = seconds[-1] + covered[-1] / 2
    return centres, rates


def _span_of(run: RunData) -> _Span | None:
    """Return the time from the first to the last message of both ends."""
    ends = [counts for counts in (departures(run), _received(run)) if counts is not None]
    ends = [counts for counts in ends if len(counts.seconds)]
    if not ends:
        return None
    starts = [float(c.seconds[0]) if c.first is None else c.first / 1000 for c in ends]
    lasts = [float(c.seconds[-1] + 1) if c.last is None else c.last / 1000 for c in ends]
    # Records may be out of order; those of a second are drawn in it all the same.
    start = max(min(starts), min(float(c.seconds[0]) for c in ends))
    end = max(max(lasts), max(float(c.seconds[-1]) for c in ends))
    return _Span(start, max(end, start + 0.01))


def _received(run: RunData) -> SecondCounts | None:
    return arrivals(run) if run.receipts is not None and run.receiver is not None else None


def _departed(run: RunData, span: _Span) -> tuple[Float64Array, Float64Array] | None:
    """Return the messages/s that left, as a line of the drawn time; None where nothing tells them.

    Records of a schedule have the times at which messages were due.
    """
    over_time, first = _over_time(run), _begin(run.sender or {})
    if over_time is None or first is None:
        return None
    sent = np.array(over_time["sent"], np.float64)
    begins = np.arange(len(sent)) * float(over_time["seconds"])
    ends = begins + over_time["seconds"]
    # The last step ends with the sending.
    ends[-1] = max(begins[-1] + 0.01, min(ends[-1], span.end - first))
    return (begins + ends) / 2 + first - span.start, sent / (ends - begins)


def _over_time(run: RunData) -> dict[str, Any] | None:
    schedule = (run.sender or {}).get("schedule") or {}
    found: dict[str, Any] | None = schedule.get("over_time")
    return found if found and found["sent"] else None


def _throughput(run: RunData, statistics: Mapping[str, Any], span: _Span, prefix: str) -> Chart:
    title = "Throughput (incomplete run)" if ending(run)[0] is False else "Throughput"
    lines = [(departures(run), "sent", SENT), (_received(run), "received", RECEIVED)]
    shown = [(counts, label, colour) for counts, label, colour in lines if counts is not None]
    schedule = _schedule(run, statistics["sending_end"] or span.end, span)
    top = max([highest(counts.rates) for counts, _, _ in shown] or [1.0])
    if schedule is not None:
        top = max(top, *schedule[1])
    departed = _departed(run, span)
    top = top if departed is None else max(top, highest(departed[1]))
    chart = Chart(
        f"{prefix}throughput", title, time_scale(span.length), count_scale("messages/s", top)
    )
    if schedule is not None:
        chart.line(*schedule, SCHEDULE, "schedule", dashed=True)
    for counts, label, colour in shown:
        xs, ys = with_centres(counts)
        line = (xs - span.start, ys)
        chart.line(*(departed if colour == SENT and departed else line), colour, label)
    _marks(chart, statistics, span)
    chart.tips(list(_rate_tips(shown, span)))
    return chart


def _schedule(run: RunData, until: float, span: _Span) -> tuple[list[float], list[float]] | None:
    """Return the rates that were asked for, as a line of the drawn time; None without any."""
    sender = run.sender or {}
    config, first = sender.get("config") or {}, _begin(sender)
    # After a backlog the schedule begins when the queue has been filled: nothing tells when.
    if not sender.get("schedule") or first is None or config.get("backlog"):
        return None
    rate = config.get("rate") or 0
    steps = parse_rate_steps(config.get("rate_steps") or "") or (RateStep(rate, rate, 0),)
    end = max(until - first, 0.0)
    begins = [float(begin) for begin in step_begins(steps)]
    xs = np.repeat([*begins, max(end, begins[-1])], 2)[1:-1]
    ys = [float(rate) for step in planned_steps(steps) for rate in (step.first, step.last)]
    low, high = max(span.start - first, 0.0), min(end, span.end - first)
    within = (xs > low) & (xs < high)
    places = [low, *xs[within].tolist(), high]
    rates = [*np.interp([low], xs, ys), *np.array(ys)[within], *np.interp([high], xs, ys)]
    return [place + first - span.start for place in places], [float(rate) for rate in rates]


def _begin(sender: Mapping[str, Any]) -> float | None:
    """Return when a schedule began: with the first message, also if that is of the warm-up."""
    warmup, results = sender.get("warmup") or {}, sender.get("results") or {}
    milliseconds = warmup.get("first_time") or results.get("first_send_time")
    return None if milliseconds is None else float(milliseconds) / 1000


def highest(values: Float64Array) -> float:
    """Return the largest value that is known, 1.0 where none is."""
    return float(np.nanmax(values)) if len(values) and not np.isnan(values).all() else 1.0


def _marks(chart: Chart, statistics: Mapping[str, Any], span: _Span) -> None:
    steady = statistics["steady_state"]
    if steady["figures_of"] == OF_STEADY:
        first, last = steady["first_second"], steady["last_second"] + 1
        chart.band(first - span.start, last - span.start, "steady state")
    if statistics["sending_end"] is not None:
        chart.rule(statistics["sending_end"] - span.start, "end of the sending")


def _rate_tips(
    shown: list[tuple[SecondCounts, str, int]], span: _Span
) -> Iterator[tuple[float, float, str]]:
    words: dict[int, list[str]] = {}
    for counts, label, _ in shown:
        for second, rate in zip(counts.seconds.tolist(), counts.rates.tolist(), strict=True):
            if rate == rate:
                words.setdefault(second, []).append(f"{label} {short_text(rate)}/s")
    for second in sorted(words):
        yield _column(second, span, ", ".join(words[second]))


def _column(second: float, span: _Span, text: str) -> tuple[float, float, str]:
    first = second - span.start
    return first, first + 1, f"{max(first, 0):.6g} s: {text}"


def _latency(histogram: Histogram, span: _Span, prefix: str) -> Chart:
    labels = [rank_head(rank).lower() for rank in CHARTS]
    seconds, table = latency_windows(histogram, [float(rank) for rank in CHARTS])
    low, high = float(table.min()), float(table.max())
    chart = Chart(
        f"{prefix}latency",
        "Latency percentiles of each second",
        time_scale(span.length),
        latency_scale(low, high, tick_of(histogram)),
    )
    xs, ys = with_silence(seconds, table, np.nan)
    # In the middle of the part of each second that the run covers.
    middles = (np.maximum(xs, span.start) + np.minimum(xs + 1, span.end)) / 2 - span.start
    for column, (rank, label) in enumerate(zip(CHARTS, labels, strict=True)):
        chart.line(middles, ys[:, column], _COLOURS.get(rank, 4 + column), label)
    texts = [
        ", ".join(
            f"{label} {latency_text(value * 1e6, 'ns')}"
            for label, value in zip(labels, row, strict=True)
        )
        for row in table.tolist()
    ]
    chart.tips([_column(s, span, text) for s, text in zip(seconds.tolist(), texts, strict=True)])
    return chart


def _percentiles(histogram: Histogram, omission: Mapping[str, Any] | None, prefix: str) -> Chart:
    raw = histogram.distribution()
    curves: list[tuple[Latencies | CorrectedDistribution, str, int]] = [(raw, "as recorded", 0)]
    if omission is not None and omission["expected_interval"] is not None:
        corrected = CorrectedDistribution(coarse(raw)[0], omission["expected_interval"])
        curves.append((corrected, "corrected for coordinated omission", 3))
    ticks = per_millisecond(histogram.unit)
    low = min(latencies.percentiles([0])[0] for latencies, _, _ in curves) / ticks
    chart = Chart(
        f"{prefix}percentiles",
        "Latency by percentile",
        percentile_scale(max(latencies.total for latencies, _, _ in curves)),
        latency_scale(low, raw.maximum / ticks, tick_of(histogram)),
    )
    for latencies, label, colour in curves:
        draw_curve(chart, latencies, histogram.unit, label, colour)
    return chart


def draw_curve(
    chart: Chart,
    latencies: Latencies | CorrectedDistribution,
    unit: str,
    label: str,
    colour: int,
) -> None:
    """Draw the latencies by percentile, with a dot at each percentile that the axis names."""
    spread, values = percentile_curve(latencies, unit)
    chart.line(spread, values, colour, label)
    named = [value for value, _ in chart.x.marks if value <= latencies.total]
    ranks = [100 * (1 - 1 / value) for value in named]
    found = [value / per_millisecond(unit) for value in latencies.percentiles(ranks)]
    titles = [
        f"{label}, {rank:.7g} %: {latency_text(value * 1e6, 'ns')}"
        for rank, value in zip(ranks, found, strict=True)
    ]
    chart.dots(named, found, colour, None, titles)


def _heat_map(histogram: Histogram, span: _Span, prefix: str) -> Chart:
    ticks = per_millisecond(histogram.unit)
    heat = heat_image(histogram)
    low, high = heat.rows[[0, -1]].tolist()
    scale = latency_scale(low / ticks, high / ticks, tick_of(histogram), margin=1.0)
    chart = Chart(
        f"{prefix}heatmap", "Messages by time and latency", time_scale(span.length), scale
    )
    begin, end = (heat.edges[[0, -1]] - span.start).tolist()
    chart.picture = heat.pixels(scale), begin, end, heat.key()
    chart.tips([
        (first - span.start, last - span.start,
         f"{max(first - span.start, 0):.6g} s: {counted(int(count), 'message')}")
        for first, last, count in heat.columns()
    ])  # fmt: skip
    return chart


def _lateness(run: RunData, prefix: str) -> Chart | None:
    """Return how late messages left, by percentile; None without a schedule."""
    late = ((run.sender or {}).get("schedule") or {}).get("late_us") or {}
    ranks = {float(name[1:]): value / 1000 for name, value in late.items() if name[0] == "p"}
    if not ranks or "max" not in late or run.sender is None:
        return None
    ranks[100.0] = late["max"] / 1000
    return percentile_chart(
        f"{prefix}lateness",
        "Send delay by percentile",
        {"send delay": (int(run.sender["results"]["message_count"]), ranks)},
        "Lateness is part of the latency: messages have the send time of the schedule.",
        quantity="send delay",
        colour=SENT,
    )


def _lateness_over_time(run: RunData, span: _Span | None, prefix: str) -> Chart | None:
    """Return the largest delay of sends in each step, by cause; None where nothing tells it."""
    over_time, first = _over_time(run), _begin(run.sender or {})
    if over_time is None or first is None or span is None or not any(over_time["late_us"]):
        return None
    lines = {
        words: np.array(over_time["late_by_us"].get(cause, ()), np.float64) / 1000
        for cause, words in LATE_BY.items()
    }
    lines = {words: values for words, values in lines.items() if values.any()}
    middles = (np.arange(len(over_time["sent"])) + 0.5) * over_time["seconds"]
    highest_delay = max(float(values.max()) for values in lines.values())
    chart = Chart(
        f"{prefix}lateness-over-time",
        "Largest send delay by cause",
        time_scale(span.length),
        latency_scale(0.0, highest_delay, 1e-3, "send delay"),
        "Only a sender that was late itself is its own fault.",
    )
    for colour, (words, values) in enumerate(lines.items()):
        chart.line(middles + first - span.start, values, colour, words)
    return chart


def _usage(run: RunData, span: _Span | None, prefix: str) -> list[Chart]:
    """Return the charts of CPU and memory; none without snapshots."""
    found: dict[str, Snapshots] = {}
    for role, end in (("sender", run.sender), ("receiver", run.receiver)):
        snapshots = None if end is None else read_snapshots(end["file"])
        if snapshots is not None:
            found[role] = snapshots
    if not found or span is None:
        return []
    last = max(float(one.seconds[-1]) for one in found.values())
    x = time_scale(max(last - span.start, span.length))
    cpu = max(highest(one.cpu) for one in found.values()) * 100
    rss = max(highest(one.rss) for one in found.values())
    charts = (
        Chart(
            f"{prefix}cpu",
            "CPU of sender and receiver",
            x,
            count_scale("of one processor", cpu, " %"),
        ),
        Chart(
            f"{prefix}memory", "Memory of sender and receiver", x, count_scale("resident", rss, "B")
        ),
    )
    for chart, values, unit in zip(charts, ("cpu", "rss"), (" %", "B"), strict=True):
        lines = {}
        for role, one in found.items():
            within = one.seconds >= span.start
            used = vars(one)[values][within] * (100 if unit == " %" else 1)
            lines[role] = one.seconds[within] - span.start, used
            chart.line(*lines[role], SENT if role == "sender" else RECEIVED, role)
        chart.tips(list(_usage_tips(lines, unit)))
    return list(charts)


def _usage_tips(
    lines: Mapping[str, tuple[Float64Array, Float64Array]], unit: str
) -> Iterator[tuple[float, float, str]]:
    """Yield a column for each snapshot of the first line: it is of the time before it."""
    times = next(iter(lines.values()))[0]
    for first, last in pairwise([0.0, *times.tolist()]):
        words = [
            f"{role} {short_text(float(ys[np.abs(xs - last).argmin()]))}{unit}"
            for role, (xs, ys) in lines.items()
            if len(xs)
        ]
        yield first, last, f"{last:,.1f} s: {', '.join(words)}"


def with_silence(
    seconds: Int64Array, values: Float64Array, silent: float
) -> tuple[Int64Array, Float64Array]:
    """Put ``silent`` at the first and the last second of each gap, for lines between rows."""
    gaps = np.flatnonzero(np.diff(seconds) > 1)
    places = np.repeat(gaps + 1, 2)
    ends = np.column_stack((seconds[gaps] + 1, seconds[gaps + 1] - 1)).ravel()
    return np.insert(seconds, places, ends), np.insert(values, places, silent, axis=0)


def percentile_curve(
    latencies: Latencies | CorrectedDistribution, unit: str
) -> tuple[Float64Array, Float64Array]:
    """Return points of the curve of latency by percentile.

    It goes as far right as the samples allow; its last point is the maximum.

    Returns:
        1 / (1 - percentile / 100) and milliseconds, float64, equally many.
    """
    spread = np.geomspace(1, max(latencies.total, 2), _CURVE_POINTS)
    ranks = [*(100 * (1 - 1 / spread)).tolist()[:-1], 100.0]
    return spread, np.array(latencies.percentiles(ranks)) / per_millisecond(unit)
