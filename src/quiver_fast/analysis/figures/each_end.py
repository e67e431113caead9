"""The figures of each end and of each queue of a run of many ends.

An end has one shape, whether it has a process of its own or shares one. Where the records of a
process do not tell its ends apart, only the counts of its report are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.figures.sender_rate import told_rate
from quiver_fast.analysis.model.bounds import undeliverable
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.tables.end_sums import EndSums
from quiver_fast.analysis.tables.spilled import each_second

MOST_SHOWN = 64
"""The ends of a side, or queues, that a page or a text has; of more, the slowest."""


@dataclass(frozen=True)
class EndFacts:
    """What the records of an end tell; None is not known.

    Attributes:
        number: which of its side.
        count: its messages.
        rate: of these (:attr:`.file_analysis.FileAnalysis.rate`).
        latency: of a receiver (:func:`.latency.exact_latency`).
        last: the own time of the last of them.
        late: of a receiver, those that came after the end of the sending.
    """

    number: int
    count: int | None
    rate: float | None = None
    latency: dict[str, Any] | None = None
    last: int | None = None
    late: int = 0

    @classmethod
    def of(cls, number: int, found: FileAnalysis) -> EndFacts:
        """Return those of an end of which all facts are known, as of a file of its own."""
        received = found.histogram is not None
        latency = exact_latency(found.latencies, found.time_unit) if received else None
        return cls(number, found.count, found.rate, latency, found.last_time, found.late)


def facts_of_each(whole: FileAnalysis, sums: EndSums) -> list[EndFacts]:
    """Return the facts of each end of a process.

    Args:
        whole: the facts of its file.
        sums: the sums of each end.
    """
    unit, received = whole.time_unit, whole.histogram is not None
    nothing = exact_latency(Distribution.none(), unit) if received else None
    latencies = {
        number: exact_latency(one, unit) for number, one in each_second(sums.histogram(unit))
    }
    found = []
    columns = (sums.counts, sums.firsts, sums.lasts, sums.late)
    for number, row in enumerate(zip(*(one.tolist() for one in columns), strict=True), sums.first):
        count, first, last, late = row
        times = (first, last) if count else (None, None)
        one = replace(whole, count=count, first_time=times[0], last_time=times[1], late=late)
        latency = latencies.get(number, nothing)
        found.append(EndFacts(number, count, one.rate, latency, one.last_time, late))
    return found


def end_row(
    facts: EndFacts, queue: int | None, rate: float | None, **ledger: int | None
) -> dict[str, Any]:
    """Return the figures of an end as documents have them.

    Keys: ``number``; ``queue``; ``message_count``; ``message_rate``; ``latency``, of a receiver;
    ``delivery``: ``sent``, ``received``, ``unreceived``, ``duplicate`` and ``reordered``.

    Args:
        facts: the facts of the end.
        queue: its number; None where it has none, or nothing tells it.
        rate: messages/s.
        ledger: the known counts of ``delivery``.
    """
    names = ("sent", "received", "unreceived", "duplicate", "reordered")
    return {
        "number": facts.number,
        "queue": queue,
        "message_count": facts.count,
        "message_rate": told_rate(rate),
        "latency": facts.latency,
        "delivery": dict.fromkeys(names) | ledger,
    }


def queues_of(
    queues: int | None,
    ends: Sequence[Mapping[str, Any]],
    seconds: float | None,
    latencies: Mapping[int, dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the figures of each queue of a run with several; else an empty list.

    Keys: ``queue``, its number; ``sent``, ``received``, ``unreceived``, ``duplicate`` and
    ``reordered``: the sums of its ends; ``sent_rate`` and ``received_rate``, messages/s of
    ``seconds``; ``latency``, of all its receivers. Values that the ends do not tell are None.

    Args:
        queues: how many there are; None where that is not known, or without a server.
        ends: the summaries of all processes.
        seconds: the duration of the run.
        latencies: of each queue, as far as they are known (:func:`.latency.exact_latency`).
    """
    if queues is None or queues < 2:
        return []
    rows: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for end in ends:
        for row in end["members"]:
            rows.setdefault((end["role"], row["queue"]), []).append(row["delivery"])
    found = []
    for queue in range(queues):
        senders, receivers = (rows.get((role, queue), []) for role in ("sender", "receiver"))
        sent, received = _sum(senders, "sent"), _sum(receivers, "received")
        found.append(
            {
                "queue": queue,
                "sent": sent,
                "received": received,
                "unreceived": _not_rejected(_sum(senders, "unreceived"), ends, queue),
                "duplicate": _sum(receivers, "duplicate"),
                "reordered": _sum(receivers, "reordered"),
                "sent_rate": _rate(sent, seconds),
                "received_rate": _rate(received, seconds),
                "latency": latencies.get(queue),
            }
        )
    return found


def _not_rejected(
    unreceived: int | None, ends: Sequence[Mapping[str, Any]], queue: int
) -> int | None:
    """Return the rest without the messages that receivers of a queue refused, if that is known."""
    for end in ends:
        rejected = ((end.get("arrow") or {}).get("rejected") or 0) + undeliverable(end)
        of = {row["queue"] for row in end["members"]}
        if not rejected or end["role"] != "receiver" or of.isdisjoint((queue, None)):
            continue
        if unreceived is None or of != {queue}:
            return None
        unreceived = max(unreceived - rejected, 0)
    return unreceived


def _sum(rows: Sequence[Mapping[str, Any]], key: str) -> int | None:
    counts = [row[key] for row in rows]
    return None if None in counts else sum(counts)


def _rate(count: int | None, seconds: float | None) -> float | None:
    return told_rate(count / seconds) if count is not None and seconds else None


def rows_of(ends: Sequence[Mapping[str, Any]], role: str) -> list[dict[str, Any]]:
    """Return the ends of a side as tables have them: their figures, ``name`` and ``process``.

    A process whose records do not tell its ends apart is a row, with its own figures.

    Args:
        ends: the summaries of all processes.
        role: "sender" or "receiver".
    """
    found: list[dict[str, Any]] = []
    for end in ends:
        if end["role"] != role:
            continue
        members = end["members"]
        if len(members) > 1 and not _tells_ends(members):
            results = {key: end["results"][key] for key in ("message_count", "message_rate")}
            members = [results | {"queue": None, "latency": end.get("latency")}]
        known = {"process": end}
        found += [known | {"name": _name(end, row)} | row for row in members]
    return found


def _tells_ends(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether rows have figures of ends; the count is all that there is of one message."""
    known = (row["message_rate"] is not None or row["latency"] is not None for row in rows)
    return any(known) or all(row["message_count"] in (0, 1) for row in rows)


def _name(end: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return f"{end['role']} {row['number']}" if "number" in row else str(end["name"])


def slowest(rows: Sequence[dict[str, Any]], rate: str | None = None) -> list[dict[str, Any]]:
    """Return the rows that are shown, in their order: of many, the slowest.

    Args:
        rows: each with ``latency``.
        rate: the key of the rate by which they are slow; None for by the p99 of the latency.
    """

    def speed(row: Mapping[str, Any]) -> float:
        if rate is not None:
            return float(row[rate] or 0)
        # A receiver without a message shows before all that have some.
        p99 = (row["latency"] or {}).get("p99_us")
        return float("-inf") if p99 is None else -float(p99)

    places = sorted(range(len(rows)), key=lambda place: speed(rows[place]))
    return [rows[place] for place in sorted(places[:MOST_SHOWN])]


def shown_of_each(
    ends: Sequence[Mapping[str, Any]], role: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the rows of a side that are shown, and which these are where not all are.

    Args:
        ends: the summaries of all processes.
        role: "sender" or "receiver".
    """
    rows = rows_of(ends, role)
    shown = slowest(rows, "message_rate" if role == "sender" else None)
    if len(shown) == len(rows):
        return shown, None
    why = "lowest rates" if role == "sender" else "highest 99 % latencies"
    return shown, f"Shown are {len(shown)} of {len(rows):,} {role}s, those of the {why}."
