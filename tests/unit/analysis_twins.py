"""Records made by hand, and slow obvious twins of the analysis."""

from collections import Counter

import numpy as np

from quiver_fast.analysis.local import analyze_runs, reconcile_runs
from quiver_fast.records.transfers import RunBatch


def batch(sent, received=None, ids=None, settled=()):
    """Make what a scan would yield, each run one record; ``settled`` holds (id, time, sampled)."""

    def column(values):
        return None if values is None else np.array(list(values), np.int64)

    return RunBatch(
        record_format="v3" if ids is None else "v2",
        operation="send" if received is None else "receive",
        sent=column(sent),
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


def analysis(sent, received=None, ids=None, unit="ms", settled=()):
    """Analyse such records."""
    records = batch(list(sent), received, ids, settled)
    return analyze_runs([records], unit=unit, reconcilable=True)


def reconciled(sender, receiver, unit="ms"):
    """Reconcile the analysis of a sender with a batch of its receiver."""
    return reconcile_runs(sender, [receiver], unit=unit).delivery


def slow_reconcile(sends, receipts, by_ids):
    """Reconcile lists of (id, send time) and (id, send time, receive time), one by one."""
    keys = [s[0] if by_ids else s[1] for s in sends]
    budget = Counter(keys)
    first_send = sends[0][1] if sends else None
    foreign = duplicate = reordered = negative = 0
    arrived = Counter()
    furthest = None
    for message, sent, received in receipts:
        key = message if by_ids else sent
        if key not in budget or sent < first_send:
            foreign += 1
            continue
        arrived[key] += 1
        duplicate += arrived[key] > budget[key]
        negative += received < sent
        if by_ids and arrived[key] > 1:
            continue
        position = keys.index(key) if by_ids else sent
        if furthest is not None and position < furthest:
            reordered += 1
        furthest = position if furthest is None else max(furthest, position)
    return {
        "sent": len(sends),
        "received": len(receipts),
        "foreign": foreign,
        "lost": sum(max(0, n - arrived[key]) for key, n in budget.items()),
        "duplicate": duplicate,
        "reordered": reordered,
        "negative_latency": negative,
    }
