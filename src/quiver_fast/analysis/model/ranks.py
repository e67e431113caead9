"""Percentile ranks: those that are computed, and those that each place shows.

Add a rank to :data:`RANKS`: JSON, ``--fail-if``, the report and Spark have it then. Add it to one
of the others to have it shown there.
"""

from __future__ import annotations

from collections.abc import Iterable

QUARTILES = (0, 25, 50, 75, 100)
"""Upstream's ``latency_quartiles``."""

NINES = (90, 99, 99.9, 99.99, 99.999)
"""Upstream's ``latency_nines``."""

RANKS = tuple(sorted({*QUARTILES, 95, *NINES}))
"""All that are computed of a run, in order."""

NAMES = tuple(map(str, RANKS))
"""Their names in ``percentiles`` of documents, in order."""

IN_MICROSECONDS = {
    f"p{rank}_us".replace(".", "_"): rank for rank in RANKS if rank not in (0, 25, 75, 100)
} | {"min_us": 0, "max_us": 100}
"""Keys of latencies in microseconds, and their ranks. Quartiles are upstream's alone."""

SUMMARY = (("0", "25", "50", "100"), ("90", "99", "99.9", "99.99"))
"""The summary prints these in a left and a right column, as upstream does; one may be longer."""

HEADLINE = ("50", "99", "99.9", "100")
"""The first line of a summary on a terminal has these: no more fit in 80 columns."""

BRIEF = ("0", "25", "90", "95", "99.99")
"""A row of that summary has these."""

SECTIONS = ("50", "99", "99.9", "100")
"""The other sections of text print these, one a line."""

CHARTS = ("50", "99", "99.9", "100")
"""A page has a tile and a line over time for these."""

FEW = ("50", "99", "100")
"""Tables of several runs or ends have these."""

AXIS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
"""The axis of latencies by percentile has marks at these."""

STREAMING = ("50", "99", "100")
"""The ranks for first bytes of streamed messages."""

BENCH = ("50", "90", "99", "99.9", "100")
"""A result of `quiver-bench` keeps these, and so do attempts to connect."""

BENCH_KEYS = {key: rank for key, rank in IN_MICROSECONDS.items() if str(rank) in BENCH}
"""The same, by their keys in documents."""

PER_SECOND = {"latency_p50": 50, "latency_p99": 99, "latency_max": 100}
"""Each second or window has these, by name."""


def exists(rank: str, count: int) -> bool:
    """Say whether so many values have a percentile: one of them at least is beyond it.

    The least, the largest and the median are there of any value.
    """
    return rank in ("0", "50", "100") or count * min(float(rank), 100 - float(rank)) >= 99.999


def known_ranks(ranks: Iterable[str], count: int) -> list[str]:
    """Return those of ``ranks`` that so many values have."""
    return [rank for rank in ranks if exists(rank, count)]


def rank_head(rank: str) -> str:
    """Return the name of a rank over the column of a table, which begins with a capital."""
    return {"0": "Minimum", "50": "Median", "100": "Maximum"}.get(rank, f"{rank} %")


def rank_title(rank: str) -> str:
    """Return the name of a rank over a figure of its own."""
    return f"{rank_head(rank)} latency"
