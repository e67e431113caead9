"""The sections on the ends and the queues of a run of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from quiver_fast.analysis.figures.each_end import MOST_SHOWN, rows_of, shown_of_each, slowest
from quiver_fast.analysis.model.figures import Document
from quiver_fast.analysis.model.ranks import FEW, rank_head
from quiver_fast.analysis.model.units import rate_digits, seconds_text
from quiver_fast.analysis.sections.rows import (
    Grid,
    Row,
    Section,
    cell_text,
    few_latencies,
    number,
    share_text,
    told,
)
from quiver_fast.words import counted

_END_COUNTS = ("sent", "received", "unreceived", "duplicate", "reordered")


def end_sections(run: Document) -> list[Section]:
    """Return the sections on the ends of a run of many."""
    return told({
        "FAN-OUT": _fan_out(run),
        "FAIRNESS": _fairness(run.get("fairness") or {}),
        "ENDS": _ends(run.get("ends") or ()),
        "QUEUES": _queues(run.get("queues") or ()),
    })  # fmt: skip


def _fan_out(run: Document) -> Iterator[Row | Grid]:
    """Yield the account of each receiver that is to get every message; of many, the slowest."""
    fan_out, delivery = run.get("fan_out"), run.get("delivery") or {}
    if fan_out is None:
        return
    words = f"{delivery['sent']:,} sent to each of {counted(fan_out['receivers'], 'receiver')}"
    yield Row("Copies due", f"{delivery['copies']:,}", "messages", ("Fan-out", words))
    lacking, skew = fan_out["lacking"], fan_out["skew"]
    brief = ("Fan-out", f"{lacking:,} lack a message") if lacking else None
    yield number("Receivers that lack one", lacking, "", brief)
    if skew["seconds"] is not None:
        text = f"slowest {seconds_text(skew['seconds'])} after fastest"
        yield Row("Skew", seconds_text(skew["seconds"]), "", ("Fan-out", text))
    if skew["messages"] is not None:
        yield number("Skew as the sending ended", skew["messages"], "messages")
    each = {one["number"]: one for one in fan_out["each"]}
    found = [row for row in rows_of(run["ends"], "receiver") if "number" in row]
    behind = [row | each[row["number"]] for row in found]
    shown = sorted(behind, key=lambda row: -(row["seconds_behind"] or 0))[:MOST_SHOWN]
    heads = ("Receiver", *map(str.capitalize, _END_COUNTS[1:]), "Behind", "When sending ended")
    rows = [
        [f"receiver {row['number']}", *(cell_text(row["delivery"][key]) for key in _END_COUNTS[1:]),
         "-" if row["seconds_behind"] is None else seconds_text(row["seconds_behind"]),
         cell_text(row["messages_behind"])]
        for row in sorted(shown, key=lambda row: int(row["number"]))
    ]  # fmt: skip
    yield Grid("Fan-out", heads, rows)


def _fairness(fairness: Document) -> Iterator[Row]:
    """Yield how even the shares of each side are: their ratio is 1 where all are equal."""
    for side in ("senders", "receivers"):
        found = fairness.get(side)
        if found is not None:
            shares = f"{share_text(found['least'])} to {share_text(found['most'])} each"
            words = f"{shares}, smallest by largest {found['ratio']:.3f}"
            yield Row(side.capitalize(), words, "", ("Shares", f"{side} {words}"))


def _ends(ends: Sequence[Document]) -> Iterator[Row | Grid]:
    """Yield a table of the ends; of many, of the slowest."""
    rows, notes = [], []
    for role in ("sender", "receiver"):
        shown, which = shown_of_each(ends, role)
        if shown:
            total = sum(end["results"]["message_count"] for end in ends if end["role"] == role)
            rows += [_end_cells(row, total) for row in shown]
        notes += [] if which is None else [Row("", which)]
    heads = ("End", "Queue", "Messages", "Share", "Messages/s", *map(rank_head, FEW), "State")
    if rows:
        yield Grid("Ends", heads, rows)
        yield from notes


def _end_cells(row: Document, total: int) -> list[str]:
    state, why = row["process"].get("complete"), row["process"].get("reason")
    return [
        row["name"],
        cell_text(row["queue"], "d"),
        f"{row['message_count']:,}",
        share_text(row["message_count"] / total) if total else "-",
        "-" if row["message_rate"] is None else rate_digits(row["message_rate"]),
        *few_latencies(row["latency"]),
        "-" if state is None else "complete" if state else why or "incomplete",
    ]


def _queues(queues: Sequence[Any]) -> Iterator[Row | Grid]:
    """Yield the figures of each queue of a run with several; of many, of the slowest."""
    names = map(str.capitalize, _END_COUNTS)
    heads = ("Queue", *names, "Sent/s", "Received/s", *map(rank_head, FEW))
    shown = slowest([dict(one) for one in queues])
    rows = [
        [str(one["queue"]), *(cell_text(one[key]) for key in _END_COUNTS)]
        + ["-" if (speed := one[key]) is None else rate_digits(speed)
           for key in ("sent_rate", "received_rate")]
        + few_latencies(one["latency"])
        for one in shown
    ]  # fmt: skip
    if rows:
        yield Grid("Queues", heads, rows)
    if len(rows) < len(queues):
        yield Row("", f"Shown are {len(rows)} of {len(queues):,} queues, the slowest.")
