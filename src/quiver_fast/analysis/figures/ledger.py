"""The ledger of a run whose arrows connect again: the fate of each message, and each failure.

The clocks of both ends are taken for equal.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.ledger_lines import LedgerSums, copies, failures_of
from quiver_fast.analysis.figures.series import percentiles_per_second
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.records.formats import has_ids

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.file_analysis import FileAnalysis
    from quiver_fast.analysis.model.bounds import RunBounds

_SECOND = 10**9
# Latencies within this factor of those before a failure, or a tick, are as they were in so many
# seconds in a row: single seconds may be slow at any time.
_TOLERANCE = 2
_IN_A_ROW = 3


def can_be_told(sender: FileAnalysis, received: int, *, by_ids: bool) -> bool:
    """Say whether the records of both ends have ids, as far as there are records."""
    sent = not sender.count or has_ids(sender.record_format or "")
    return by_ids or (sent and not received)


def ledger_section(
    sums: LedgerSums,
    sender: FileAnalysis,
    receiver: FileAnalysis,
    schedule: dict[str, Any] | None,
    run: RunBounds,
) -> dict[str, Any]:
    """Return the section ``ledger`` of a run.

    ``docs/analysis.md`` has each key with its formula.

    Args:
        sums: of the lines of both ends.
        sender: the facts of the sender's file.
        receiver: the facts of the run's own messages in the receiver's file.
        schedule: the sender's schedule (:func:`.schedule.send_schedule`); None without a rate.
        run: the bounds of the run.
    """
    fates, refused = sums.fates, run.refused - run.aborted
    missing = fates["settled_unreceived"]
    unreceived = max(run.not_rejected(missing) - refused, 0)
    due = run.count or None if schedule is None else schedule["due"]
    due = None if due is None else max(due, sender.count)
    return {
        "due": due,
        "acknowledged_received": fates["settled_received"],
        "acknowledged_unreceived": unreceived,
        "lost": run.lost(run.not_rejected(missing), refused),
        "in_doubt": fates["unsettled_received"] + fates["unsettled_unreceived"],
        "in_doubt_received": fates["unsettled_received"],
        "in_doubt_unreceived": fates["unsettled_unreceived"],
        "refused": missing - unreceived,
        "never_sent": None if due is None else due - sender.count,
        "resent": sum(last - first + 1 for first, last in copies(run)),
        **{key: fates[key] for key in ("resent_received", "redelivered", "duplicate")},
        **_failures(sums, sender, receiver, run),
    }


def with_ledger(delivery: dict[str, Any] | None, ledger: dict[str, Any]) -> dict[str, Any]:
    """Return a delivery that agrees with the ledger: copies and redeliveries are no duplicates."""
    return (delivery or {}) | {key: ledger[key] for key in ("lost", "duplicate")}


def _failures(
    sums: LedgerSums, sender: FileAnalysis, receiver: FileAnalysis, run: RunBounds
) -> dict[str, Any]:
    """Return the figures of each failure, and the longest gap of all: None where one has none."""
    failures = failures_of(run)
    starts = [one.at // _SECOND for one in failures]
    # Two failures may begin in one second.
    stops = [*(max(stop, start + 1) for start, stop in pairwise(starts)), None][: len(starts)]
    levels = _levels(receiver, starts[0]) if starts else None
    rows = []
    for number, (failure, start, stop) in enumerate(zip(failures, starts, stops, strict=True)):
        at, until, losses, fault = failure
        whole = all(one["back_at"] is not None for one in losses)
        reason = losses[0]["reason"] if losses else "no connection was lost"
        row: dict[str, Any] = {
            "at": at,
            "seconds": (until - at) / _SECOND if until and whole else None,
            "connections": len(losses),
            "attempts": sum(one["attempts"] for one in losses),
            "pause": max((one["pause"] for one in losses), default=0.0),
            "in_doubt": sum(b - a + 1 for one in losses for a, b in one.get("in_doubt") or ()),
            "reason": reason,
            "receiver_gap": _seconds(sums.receiver_gaps[number], receiver.time_unit),
            "sender_gap": _seconds(sums.sender_gaps[number], sender.time_unit),
            "recovered_seconds": None if levels is None else _recovered(*levels, start, stop, at),
            "highest_backlog": _highest_backlog(sender, receiver, start, stop),
            "fault": fault,
        }
        rows.append(row)
    gaps = [row["receiver_gap"] for row in rows]
    gap = None if None in gaps else max(gaps, default=0.0)
    return {"gap": gap, "failures": rows}


def _seconds(ticks: int | None, unit: str) -> float | None:
    return None if ticks is None else ticks / PER_SECOND[unit]


def _levels(receiver: FileAnalysis, first: int) -> tuple[Int64Array, NDArray[np.bool_]] | None:
    """Return the seconds of the sending that have receipts, and which are slower than before."""
    if receiver.histogram is None:
        return None
    seconds, table = percentiles_per_second(receiver.histogram, (99,))
    if receiver.end is not None:
        within = seconds < receiver.end // PER_SECOND[receiver.time_unit]
        seconds, table = seconds[within], table[within]
    before = table[seconds < first, 0]
    if not len(before):
        return None
    usual = float(np.median(before))
    return seconds, table[:, 0] > max(_TOLERANCE * usual, usual + 1)


def _recovered(
    seconds: Int64Array, slow: NDArray[np.bool_], start: int, stop: int | None, at: int
) -> float | None:
    """Return the time from a failure to the first of some seconds in a row with fast receipts."""
    some = ~slow & (seconds >= start) & (seconds < (seconds[-1] + 1 if stop is None else stop))
    fast = seconds[some]
    back = fast[: 1 - _IN_A_ROW][fast[_IN_A_ROW - 1 :] - fast[: 1 - _IN_A_ROW] == _IN_A_ROW - 1]
    return max(int(back[0]) - at / _SECOND, 0.0) if len(back) else None


def _highest_backlog(
    sender: FileAnalysis, receiver: FileAnalysis, start: int, stop: int | None
) -> int:
    """Return the most messages that were sent and not received at the end of a second."""
    seconds = np.concatenate((sender.seconds.values, receiver.seconds.values))
    counts = np.concatenate((sender.seconds.counts, -receiver.seconds.counts))
    order = np.argsort(seconds, kind="stable")
    seconds, levels = seconds[order], np.cumsum(counts[order])
    last = np.append(seconds[1:] != seconds[:-1], True)[: len(seconds)]
    seconds, levels = seconds[last], levels[last]
    # A second without messages has the backlog of the one before.
    begin = max(int(np.searchsorted(seconds, start, "right")) - 1, 0)
    end = len(seconds) if stop is None else int(np.searchsorted(seconds, stop))
    return max(int(levels[begin:end].max(initial=0)), 0)
