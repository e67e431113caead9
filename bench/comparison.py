"""Figures of interleaved rounds, the limits that they must keep, and the table of both.

Absolute figures move with the machine and its neighbours, so gates use a ratio of
two neighbouring runs, except for memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest itself needs it there

FLOORS = Path(__file__).with_name("floors.toml")

Figures = Mapping[str, float]


class FloorsError(Exception):
    """floors.toml is wrong."""


def load_toml(path: Path) -> dict[str, Any]:
    """Return the document in ``path``."""
    return tomllib.loads(path.read_text())


def _ratio(ours: float, reference: float) -> float:
    return ours / reference


def _ours(ours: float, _reference: float) -> float:
    return ours


def _startup_share(ours: float, reference: float) -> float:
    """Share used of the allowance for start-up: 1.5 times the reference, and 60 ms for Python."""
    return ours / (1.5 * reference + 60.0)


@dataclass(frozen=True)
class Metric:
    """A figure: its unit, its better direction, and the gated value from (ours, reference)."""

    unit: str
    larger_is_better: bool = False
    gate: Callable[[float, float], float] = field(default=_ratio)


METRICS = {
    "rate": Metric("k/s", larger_is_better=True),
    "throughput": Metric("MB/s", larger_is_better=True),
    "per_sync": Metric("messages", larger_is_better=True, gate=_ours),
    "sender_cpu": Metric("ns"),
    "receiver_cpu": Metric("ns"),
    "server_cpu": Metric("ns"),
    # Gated on our own megabytes, because growth of the reference must not excuse ours.
    "sender_rss": Metric("MB", gate=_ours),
    "receiver_rss": Metric("MB", gate=_ours),
    "server_rss": Metric("MB", gate=_ours),
    "rss": Metric("MB", gate=_ours),
    # For each megabyte of a stream; there is no server in the reference.
    "stream_cpu": Metric("ms/MB", gate=_ours),
    # Memory of the server for one more stream or connection.
    "held": Metric("kB", gate=_ours),
    "instructions": Metric("", gate=_ours),
    "p50": Metric("us"),
    "p99": Metric("us"),
    "p99.9": Metric("us"),
    "late": Metric("us"),
    "sender_startup": Metric("ms", gate=_startup_share),
    "receiver_startup": Metric("ms", gate=_startup_share),
    # Against an earlier start of the same Python, with no allowance.
    "sender_start": Metric("ms"),
    "receiver_start": Metric("ms"),
    "records": Metric("M/s", larger_is_better=True),
}


class Comparison:
    """Rounds of (ours, reference), each measured next to each other in time."""

    def __init__(self) -> None:
        self.rounds: list[tuple[Figures, Figures]] = []

    def add(self, ours: Figures, reference: Figures) -> None:
        """Add one interleaved round."""
        self.rounds.append((ours, reference))

    def ours(self, metric: str) -> float:
        """Return the median of our figures."""
        return median(ours[metric] for ours, _ in self.rounds)

    def reference(self, metric: str) -> float:
        """Return the median of the reference's figures."""
        return median(reference[metric] for _, reference in self.rounds)

    def gated(self, metric: str) -> float:
        """Return the median of the pair-wise gated values, mostly ratios ours / reference."""
        gate = METRICS[metric].gate
        return median(gate(ours[metric], reference[metric]) for ours, reference in self.rounds)


@dataclass(frozen=True)
class Limit:
    """The limits of a gated value: a floor, a ceiling; the aim is for the reader."""

    floor: float | None = None
    ceiling: float | None = None
    aim: float | None = None

    def holds(self, value: float) -> bool:
        """Say whether ``value`` keeps the limit."""
        above = self.floor is None or value >= self.floor
        below = self.ceiling is None or value <= self.ceiling
        return above and below

    def __str__(self) -> str:
        if self.floor is not None:
            return f">= {self.floor:g}"
        return f"<= {self.ceiling:g}" if self.ceiling is not None else "-"


def load_floors(path: Path = FLOORS) -> dict[str, dict[str, Limit]]:
    """Return the limits by case and metric.

    Raises:
        FloorsError: a metric is unknown, or its limit has the wrong direction.
    """
    document = load_toml(path)
    floors: dict[str, dict[str, Limit]] = {}
    for case, entries in document["case"].items():
        floors[case] = {}
        for metric, entry in entries.items():
            if metric not in METRICS:
                raise FloorsError(f"{path}: {case}: unknown metric {metric}")
            wanted = "floor" if METRICS[metric].larger_is_better else "ceiling"
            if not set(entry) <= {wanted, "aim"} or wanted not in entry:
                raise FloorsError(f"{path}: {case}: {metric} needs a {wanted}")
            floors[case][metric] = Limit(**entry)
    return floors


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: str
    metric: str
    ours: float
    reference: float
    gated: float
    limit: Limit

    @property
    def passed(self) -> bool:
        """Whether the gated value keeps its limit."""
        return self.limit.holds(self.gated)


def rows_of(case: str, comparison: Comparison, limits: Mapping[str, Limit]) -> list[Row]:
    """Return one row for each metric that was measured, gated or not.

    Raises:
        FloorsError: a limit is set on a metric that was not measured.
    """
    measured = set(comparison.rounds[0][0])
    if not set(limits) <= measured:
        raise FloorsError(f"{case}: not measured: {', '.join(sorted(set(limits) - measured))}")
    return [
        Row(
            case,
            metric,
            comparison.ours(metric),
            comparison.reference(metric),
            comparison.gated(metric),
            limits.get(metric, Limit()),
        )
        for metric in METRICS
        if metric in measured
    ]


def table(rows: Iterable[Row]) -> list[str]:
    """Render the rows: ours, reference, gated value, limit, aim."""
    lines = [
        f"{'case':24}{'metric':24}{'ours':>10}{'reference':>11}{'gated':>10}  {'limit':9}{'aim':>6}"
    ]
    for row in rows:
        label = f"{row.metric} [{METRICS[row.metric].unit}]"
        aim = f"{row.limit.aim:g}" if row.limit.aim is not None else "-"
        verdict = "" if row.passed else "  FAILED"
        lines.append(
            f"{row.case:24}{label:24}{row.ours:>10.1f}{row.reference:>11.1f}"
            f"{row.gated:>10.3f}  {row.limit!s:9}{aim:>6}{verdict}"
        )
    return lines
