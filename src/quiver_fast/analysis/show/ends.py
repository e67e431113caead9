"""The ends of a run of many on its page: each one's share, and how fair the shares are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from quiver_fast.analysis.model.ranks import FEW, rank_head
from quiver_fast.analysis.model.units import average_text, latency_text, rate_digits
from quiver_fast.analysis.show.html import escape, html_facts, html_grid

_HEADS = ("End", "Messages", "Share", "Messages/s", *map(rank_head, FEW), "State")


def ends_section(run: Mapping[str, Any]) -> str:
    """Return the section as HTML; empty for a run of one pair.

    Args:
        run: the document of the run.
    """
    ends, fairness = run.get("ends"), run.get("fairness") or {}
    if not ends:
        return ""
    sides = "".join(
        _side([end for end in ends if end["role"] == role], f"{role.capitalize()}s", found)
        for role in ("sender", "receiver")
        if (found := fairness.get(f"{role}s")) is not None
    )
    return (
        f"<h2>Ends</h2>{_facts(fairness)}<div class='charts'>{sides}</div>{_table(ends, fairness)}"
        f"{_queues(run.get('queues') or ())}"
    )


def _queues(queues: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts and rates of each queue of a run with several."""
    heads = ("Queue", "Sent", "Received", "Unreceived", "Sent/s", "Received/s")
    rows = [
        [str(one["queue"])]
        + [
            "-" if one[key] is None else f"{one[key]:,}"
            for key in ("sent", "received", "unreceived")
        ]
        + [
            "-" if one[key] is None else rate_digits(one[key])
            for key in ("sent_rate", "received_rate")
        ]
        for one in queues
    ]
    return html_grid(heads, rows, "Queues") if rows else ""


def _facts(fairness: Mapping[str, Any]) -> str:
    """Return how even the shares are: their ratio is 1 where all are equal."""
    return html_facts({
        f"{side.capitalize()}": f"{_percent(found['least'])} to {_percent(found['most'])} each, "
        f"smallest by largest {found['ratio']:.3f}"
        for side, found in fairness.items()
        if found is not None
    })  # fmt: skip


def _side(ends: Sequence[Mapping[str, Any]], title: str, found: Mapping[str, Any]) -> str:
    """Return the shares of one side as bars, in the order of the ends."""
    most = found["most"] or 1.0
    names = [name for some in _names(ends, len(found["shares"])) for name in some]
    rows = "".join(
        f"<span>{escape(name)}</span>"
        f'<span><i class="bar" style="width:{100 * share / most:.1f}%"></i></span>'
        f'<span class="number">{_percent(share)}</span>'
        for name, share in zip(names, found["shares"], strict=True)
    )
    return (
        f'<section><h3>{title}: shares of the messages</h3><div class="bars">{rows}</div></section>'
    )


def _names(ends: Sequence[Mapping[str, Any]], count: int) -> list[list[str]]:
    """Return the names of the ``count`` shares of a side: ends of each process, or processes."""
    alone: dict[str, Any] = {"first": None, "count": 1}
    members = [end.get("members") or alone for end in ends]
    if sum(some["count"] for some in members) != count:
        members = [alone] * len(ends)
    return [
        [end["name"]]
        if some["first"] is None
        else [f"{end['role']} {some['first'] + place}" for place in range(some["count"])]
        for end, some in zip(ends, members, strict=True)
    ]


def _table(ends: Sequence[Mapping[str, Any]], fairness: Mapping[str, Any]) -> str:
    """Return the figures of each process; its share is that of all its ends."""
    rows = []
    for role in ("sender", "receiver"):
        side = [end for end in ends if end["role"] == role]
        shares = (fairness.get(f"{role}s") or {}).get("shares", ())
        rest = iter(shares)
        for end, names in zip(side, _names(side, len(shares)), strict=True):
            known = list(islice(rest, len(names)))
            rows.append(_row(end, _percent(sum(known)) if known else "-"))
    return html_grid(_HEADS, rows, "Ends")


def _row(end: Mapping[str, Any], share: str) -> list[str]:
    latency = end.get("latency") or {}
    figures = [
        latency_text(latency["percentiles"][rank], latency["unit"]) if latency.get("count") else "-"
        for rank in FEW
    ]
    rate = end["results"]["message_rate"]
    return [
        end["name"],
        f"{end['results']['message_count']:,}",
        share,
        "-" if rate is None else average_text(rate, "/s").removesuffix("/s"),
        *figures,
        _state(end),
    ]


def _state(end: Mapping[str, Any]) -> str:
    if end.get("complete") is None:
        return "-"
    return "complete" if end["complete"] else str(end.get("reason") or "incomplete")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
