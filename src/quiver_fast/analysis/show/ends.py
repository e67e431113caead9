"""The ends of a run of many on its page: each one's share, and how fair the shares are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiver_fast.analysis.figures.each_end import shown_of_each, slowest
from quiver_fast.analysis.model.ranks import FEW, rank_head
from quiver_fast.analysis.model.units import average_text, latency_text, rate_digits
from quiver_fast.analysis.show.html import escape, html_facts, html_grid

_RANKS = tuple(map(rank_head, FEW))
_HEADS = ("End", "Queue", "Messages", "Share", "Messages/s", *_RANKS, "State")
_COUNTS = ("sent", "received", "unreceived", "duplicate", "reordered")


def ends_section(run: Mapping[str, Any]) -> str:
    """Return the section as HTML; empty for a run of one pair.

    Args:
        run: the document of the run.
    """
    ends, fairness = run.get("ends"), run.get("fairness") or {}
    if not ends:
        return ""
    bars, rows, notes = [], [], []
    for role in ("sender", "receiver"):
        shown, which = shown_of_each(ends, role)
        every = [end["results"]["message_count"] for end in ends if end["role"] == role]
        total = sum(every)
        bars.append(_bars(shown, f"{role.capitalize()}s", total))
        rows += [_row(row, total) for row in shown]
        notes += [] if which is None else [f"<p>{which}</p>"]
    return (
        f"<h2>Ends</h2>{_facts(fairness)}{''.join(notes)}<div class='charts'>{''.join(bars)}</div>"
        f"{html_grid(_HEADS, rows, 'Ends')}{_queues(run.get('queues') or ())}"
    )


def _queues(queues: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of each queue of a run with several; of many, the slowest."""
    names = map(str.capitalize, _COUNTS)
    heads = ("Queue", *names, "Sent/s", "Received/s", *_RANKS)
    rows = [
        [str(one["queue"])]
        + ["-" if one[key] is None else f"{one[key]:,}" for key in _COUNTS]
        + [
            "-" if one[key] is None else rate_digits(one[key])
            for key in ("sent_rate", "received_rate")
        ]
        + _latencies(one)
        for one in slowest([dict(one) for one in queues])
    ]
    which = f"<p>Shown are {len(rows)} of {len(queues):,} queues, the slowest.</p>"
    return ("" if len(rows) == len(queues) else which) + (
        html_grid(heads, rows, "Queues") if rows else ""
    )


def _facts(fairness: Mapping[str, Any]) -> str:
    """Return how even the shares are: their ratio is 1 where all are equal."""
    return html_facts({
        f"{side.capitalize()}": f"{_percent(found['least'])} to {_percent(found['most'])} each, "
        f"smallest by largest {found['ratio']:.3f}"
        for side, found in fairness.items()
        if found is not None
    })  # fmt: skip


def _bars(rows: Sequence[Mapping[str, Any]], title: str, total: int) -> str:
    """Return the shares of one side as bars, in the order of the ends."""
    if not total:
        return ""
    most = max(row["message_count"] for row in rows) or 1
    bars = "".join(
        f"<span>{escape(row['name'])}</span>"
        f'<span><i class="bar" style="width:{100 * row["message_count"] / most:.1f}%"></i></span>'
        f'<span class="number">{_percent(row["message_count"] / total)}</span>'
        for row in rows
    )
    return (
        f'<section><h3>{title}: shares of the messages</h3><div class="bars">{bars}</div></section>'
    )


def _row(row: Mapping[str, Any], total: int) -> list[str]:
    rate, queue = row["message_rate"], row["queue"]
    return [
        row["name"],
        "-" if queue is None else str(queue),
        f"{row['message_count']:,}",
        _percent(row["message_count"] / total) if total else "-",
        "-" if rate is None else average_text(rate, "/s").removesuffix("/s"),
        *_latencies(row),
        _state(row["process"]),
    ]


def _latencies(row: Mapping[str, Any]) -> list[str]:
    latency = row["latency"] or {}
    return [
        latency_text(latency["percentiles"][rank], latency["unit"]) if latency.get("count") else "-"
        for rank in FEW
    ]


def _state(end: Mapping[str, Any]) -> str:
    if end.get("complete") is None:
        return "-"
    return "complete" if end["complete"] else str(end.get("reason") or "incomplete")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
