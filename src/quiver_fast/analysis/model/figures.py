"""The figures of a measurement, a row each: conditions, tables and comparisons read them here.

A row with a place in the document of a run is one of ``--fail-if``, ``--find-rate`` and their
help; a row with a field of snapshots is one of ``--abort-if``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quiver_fast.analysis.model.ranks import NAMES, PER_SECOND, rank_head
from quiver_fast.analysis.model.units import NO_RATE, per_millisecond

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Quantity:
    """A kind of figures: the unit of their values, and the units that a limit may have."""

    unit: str
    limits: Mapping[str, float]


_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6}
LATENCY = Quantity("ms", {"": 1.0, "ms": 1.0, "s": 1e3, "us": 1e-3, "ns": 1e-6})
ROUND_TRIP = Quantity("ms", LATENCY.limits)
RATE = Quantity("messages/s", {u + per: f for u, f in _THOUSANDS.items() for per in ("", "/s")})
COUNT = Quantity("messages", _THOUSANDS)
SECONDS = Quantity("s", {"": 1.0, "s": 1.0, "ms": 1e-3})
CHANGE = Quantity("%", {"%": 1.0})
FLAG = Quantity("", {"": 1.0})
# The numbers of figures that a comparison found worse, and undecided.
VERDICT = Quantity("figures", {})


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        name: in conditions.
        quantity: its kind.
        place: the keys that lead to it in the document of a run, with "/" between them; of a
            latency those below ``latency``. Empty for a figure of comparisons.
        period: the side of the snapshot that has it of a period, and the snapshot's field; empty
            where periods do not have it. Latencies are in microseconds there.
        key: its name, or that of the figure whose change it is, in figures of sets of runs.
        rank: the percentage of the messages whose latency it is.
        most: the place of the most that it may be where a run does not know it.
        is_load: more of it is better: an upper limit bounds a search.
        about: its line of help; empty where it shares the line of its kind.
    """

    name: str
    quantity: Quantity
    place: str = ""
    period: str = ""
    key: str | None = None
    rank: float | None = None
    most: str = ""
    is_load: bool = False
    about: str = ""

    @property
    def unit(self) -> str:
        """The unit of its values and of limits."""
        return self.quantity.unit

    @property
    def head(self) -> str:
        """Its name over a column of a table, which begins with a capital."""
        return "Rate" if self.rank is None else rank_head(f"{self.rank:g}")

    def of_run(self, document: Document) -> float | None:
        """Return its value from the document of a run; None without one."""
        if self.quantity in (LATENCY, ROUND_TRIP):
            latency = _of_all_due(document)
            if self.quantity is ROUND_TRIP:
                # The settlements of a run with requests are those of their replies.
                asks = _at(document, "sender/request_reply")
                latency = (asks and _at(document, "sender/settlement/all")) or {}
            ticks = _at(latency, self.place)
            return None if ticks is None else ticks / per_millisecond(latency["unit"])
        value = _at(document, self.place)
        # A queue that was drained and has no growth grew by nothing.
        return 0 if value is None and self.name == _GROWTH and document["drain"] else value

    def most_of_run(self, document: Document) -> int | None:
        """Return the most that it may be where its value is not known; None without a limit."""
        return _at(document, self.most) if self.most else None

    def missing(self, document: Document) -> str:
        """Return why a run does not have it."""
        measured = self.quantity is RATE and _at(document, self.place.partition("/")[0])
        return NO_RATE if measured else f"the run has no {self.name}"

    def never_sent(self, document: Document) -> int | None:
        """Return how many messages count in it that were never sent; None of no latency."""
        return _of_all_due(document).get("never_sent") if self.quantity is LATENCY else None

    def of_period(self, snapshots: Mapping[str, Any]) -> float | None:
        """Return its value from the snapshots of a period, by side, in the unit of limits."""
        side, field = self.period.split("/")
        value: float | None = getattr(snapshots[side], field)
        return value / 1000 if value is not None and self.quantity is LATENCY else value


def _at(document: Document, place: str) -> Any:
    """Return the value at a place of a document; None where a part of it is not there."""
    part: Any = document
    for key in place.split("/"):
        part = (part or {}).get(key)
    return part


def _of_all_due(document: Document) -> Document:
    """Return the latencies of all messages that were due."""
    latency = _at(document, "receiver/latency") or {}
    found: Document = latency.get("with_never_sent", latency)
    return found


def _percentile(name: str, rank: str) -> Figure:
    live = f"receiver/latency_p{rank}_us" if rank in ("50", "99") else ""
    key = None if name == "p100" else _KEYS.get(rank)
    return Figure(name, LATENCY, f"percentiles/{rank}", live, key, float(rank))


_GROWTH = "queue-growth"
_KEYS = {str(rank): key for key, rank in PER_SECOND.items()}
_OF_RUNS = (
    *(_percentile(f"p{rank}", rank) for rank in NAMES),
    _percentile("min", "0"),
    _percentile("max", "100"),
    Figure("mean", LATENCY, "mean", "receiver/latency_us"),
    Figure("stddev", LATENCY, "stddev"),
    Figure("rate", RATE, "receiver/results/message_rate", "receiver/rate", "message_rate",
           is_load=True),
    Figure("sender-rate", RATE, "sender/results/message_rate", "sender/rate", is_load=True),
    Figure("count", COUNT, "delivery/received", is_load=True),
    Figure("unreceived", COUNT, "delivery/unreceived"),
    # Between none and all of the unreceived messages are lost.
    Figure("lost", COUNT, "delivery/lost", most="delivery/unreceived"),
    Figure("older", COUNT, "delivery/older"),
    Figure("filtered", COUNT, "delivery/filtered"),
    Figure("unmatched", COUNT, "delivery/unmatched"),
    Figure("duplicate", COUNT, "delivery/duplicate"),
    Figure("reordered", COUNT, "delivery/reordered"),
    Figure("released", COUNT, "delivery/released"),
    Figure("rejected", COUNT, "delivery/rejected"),
    Figure("modified", COUNT, "delivery/modified"),
    Figure("dead_lettered", COUNT, "delivery/dead_lettered"),
    Figure("foreign", COUNT, "delivery/foreign"),
    Figure("negative", COUNT, "delivery/negative_latency"),
    Figure("lacking", COUNT, "fan_out/lacking",
           about="receivers of a run with --fan-out that lack a message"),
    Figure("skew", SECONDS, "fan_out/skew/seconds",
           about="the time from the fastest receiver's last message to the slowest one's, of a run "
           "with --fan-out; s (the default), ms"),
    Figure("skew_messages", COUNT, "fan_out/skew/messages",
           about="how far the slowest receiver was behind the fastest one when the sending ended, "
           "of a run with --fan-out; k and m"),
    Figure("in_doubt", COUNT, "ledger/in_doubt"),
    Figure("resent", COUNT, "ledger/resent"),
    Figure("redelivered", COUNT, "ledger/redelivered"),
    Figure("timed_out", COUNT, "sender/request_reply/timed_out"),
    Figure("late", COUNT, "sender/request_reply/late"),
    Figure("duplicate_replies", COUNT, "sender/request_reply/duplicate"),
    Figure("foreign_replies", COUNT, "sender/request_reply/foreign"),
    *(
        Figure(f"round_trip_{name}", ROUND_TRIP, f"percentiles/{rank}")
        for name, rank in (("p50", "50"), ("p99", "99"), ("p99.9", "99.9"), ("max", "100"))
    ),
    Figure("never_sent", COUNT, "sender/schedule/never_sent",
           about="messages of a run with a rate that were due and never sent; k and m"),
    Figure(_GROWTH, RATE, "queue_growth/per_second",
           about="messages per second by which the queue grew while messages were "
           "sent, of a run that its duration ended; k and m"),
    Figure("drain_seconds", SECONDS, "drain/seconds",
           about="how long the queue was drained after the sending; s (the default), ms"),
    Figure("gap", SECONDS, "ledger/gap",
           about="the longest pause of the receipts around a failure, of a run with "
           "--reconnect; s (the default), ms"),
    Figure("complete", FLAG, "complete", is_load=True,
           about="1 of a run that did all that was asked, else 0"),
)  # fmt: skip
_COMPARED = [one for one in _OF_RUNS if one.key is not None]

SET_FIGURES = {str(one.key): one for one in sorted(_COMPARED, key=lambda one: one.rank or 0)}
"""The figures that sets of runs are compared by, by their names there."""

INCONCLUSIVE, OBSERVED = "inconclusive", "observed-"
CHANGES = [Figure(f"{one.name}-change", CHANGE, key=key) for key, one in SET_FIGURES.items()]

FIGURES = {
    one.name: one
    for one in (
        *_OF_RUNS,
        Figure("worse", VERDICT),
        Figure(INCONCLUSIVE, VERDICT),
        *CHANGES,
        *(Figure(OBSERVED + one.name, CHANGE, key=one.key) for one in CHANGES),
    )
}
"""All that conditions name."""
