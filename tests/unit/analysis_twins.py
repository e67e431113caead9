"""Records made by hand, and slow obvious twins of the analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.model.bounds import NOTHING_KNOWN
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.read.local import analyze_runs, reconcile_runs
from quiver_fast.records.transfers import RunBatch


def batch(
    sent: Sequence[int],
    received: Iterable[int] | None = None,
    ids: Iterable[int] | None = None,
    settled: Sequence[tuple[int, int, bool]] = (),
) -> RunBatch:
    """Make what a scan would yield, each run one record; ``settled`` holds (id, time, sampled)."""

    def column(values: Iterable[int] | None) -> Int64Array | None:
        return None if values is None else np.array(list(values), np.int64)

    return RunBatch(
        record_format="v3" if ids is None else "v2",
        operation="send" if received is None else "receive",
        sent=np.array(sent, np.int64),
        received=column(received),
        count=np.ones(len(sent), np.int64),
        ids=column(ids),
        settled_ids=column(s[0] for s in settled),
        settled_times=column(s[1] for s in settled),
        settled_sampled=np.array([s[2] for s in settled], np.bool_),
        settled_count=np.ones(len(settled), np.int64),
        ids_hashed=False,
        lines=len(sent) + len(settled),
        malformed=0,
        first_malformed=None,
        truncated=False,
    )


def analysis(
    sent: Iterable[int],
    received: Iterable[int] | None = None,
    ids: Iterable[int] | None = None,
    unit: str = "ms",
    settled: Sequence[tuple[int, int, bool]] = (),
) -> FileAnalysis:
    """Analyse such records."""
    records = batch(list(sent), received, ids, settled)
    return analyze_runs([records], unit=unit, reconcilable=True)


def reconciled(sender, receiver, unit="ms", run=NOTHING_KNOWN):
    """Reconcile the analysis of a sender with a batch of its receiver."""
    return reconcile_runs(sender, lambda: [receiver], unit=unit, run=run).delivery


def unit_of(time):
    """Return the unit of a time by its magnitude."""
    return "ms" if time < 10**14 else "us" if time < 10**17 else "ns"


def slow_sieve(sends, receipts, by_ids, run=NOTHING_KNOWN):
    """Tell own receipts from older and foreign ones, one by one.

    Args:
        sends: (id, send time) in the order of the sender's records.
        receipts: (id, send time, receive time) likewise; both clocks have one unit.
        by_ids: whether both ends recorded ids.
        run: what is known of the run.

    Returns:
        (own receipts, number of older, number of foreign).
    """
    known = {message if by_ids else sent for message, sent in sends}
    own, older, foreign = [], 0, 0
    for receipt in receipts:
        message, sent, _ = receipt
        unit = unit_of(receipts[0][2])
        ticks = {"ms": 1, "us": 1000, "ns": 10**6}[unit]
        first = min((sent for _, sent in sends), default=None)
        if first is None and run.run_start is not None:
            first = run.run_start * ticks
        if unit_of(sent) != unit or (first is not None and sent < first):
            older += 1
        elif (message if by_ids else sent) not in known:
            foreign += 1
        else:
            own.append(receipt)
    return own, older, foreign


def slow_reconcile(sends, receipts, by_ids, run=NOTHING_KNOWN):
    """Reconcile lists of (id, send time) and (id, send time, receive time), one by one."""
    own, older, foreign = slow_sieve(sends, receipts, by_ids, run)
    keys = [s[0] if by_ids else s[1] for s in sends]
    budget = Counter(keys)
    duplicate = reordered = negative = 0
    arrived = Counter()
    furthest = None
    for message, sent, received in own:
        key = message if by_ids else sent
        arrived[key] += 1
        duplicate += arrived[key] > budget[key]
        negative += received < sent
        if by_ids and arrived[key] > 1:
            continue
        position = keys.index(key) if by_ids else sent
        if furthest is not None and position < furthest:
            reordered += 1
        furthest = position if furthest is None else max(furthest, position)
    unreceived = sum(max(0, n - arrived[key]) for key, n in budget.items())
    at_end = unreceived == 0 or run.emptied or (run.peer_to_peer and run.complete)
    told = "ids" if by_ids else "send times"
    return {
        "sent": len(sends),
        "received": len(own),
        "older": older,
        "foreign": foreign,
        "unreceived": unreceived,
        "lost": unreceived if at_end else None,
        "duplicate": duplicate,
        # Without ids nothing tells a late duplicate from a message out of order.
        "reordered": reordered if by_ids else max(0, reordered - duplicate),
        "negative_latency": negative,
        "told_apart_by": "run start" if not sends and run.run_start is not None else told,
    }
