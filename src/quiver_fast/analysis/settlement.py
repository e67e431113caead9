"""Settlement latency: from a message's send to the sender's learning of its settlement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.latency import exact_latency

if TYPE_CHECKING:
    from quiver_fast.records.transfers import Transfers

__all__ = ["settlement_latency"]


def settlement_latency(sender: Transfers) -> dict[str, Any] | None:
    """Return settlement latencies of a sender; None if it recorded no settlements.

    Keys: ``all`` and ``sampled`` (only the ``S`` lines: the first and every 256th
    message), each as :func:`quiver_fast.analysis.latency.exact_latency` gives it;
    ``unsettled``: messages sent without a settlement line; ``unmatched``: settlement
    lines without a send of that id, which are in neither latency.
    """
    ids, settled_ids = sender.ids, sender.settled_ids
    times, sampled = sender.settled_times, sender.settled_sampled
    if ids is None or settled_ids is None or times is None or sampled is None:
        return None
    if len(settled_ids) == 0:
        return None
    order = np.argsort(ids, kind="stable")
    ranks = np.searchsorted(ids, settled_ids, sorter=order)
    # A rank past the end is that of an id above all that were sent: no match.
    places = order[ranks[ranks < len(ids)]]
    matched = np.zeros(len(settled_ids), np.bool_)
    matched[ranks < len(ids)] = ids[places] == settled_ids[ranks < len(ids)]
    sent = sender.sent[order[ranks[matched]]]
    settled = times[matched]
    chosen = sampled[matched].astype(np.bool_)
    everything = Distribution.of_differences(settled, sent)
    sample = Distribution.of_differences(settled[chosen], sent[chosen])
    return {
        "all": exact_latency(everything, sender.time_unit),
        "sampled": exact_latency(sample, sender.time_unit),
        "unsettled": len(np.unique(ids)) - len(np.unique(settled_ids[matched])),
        "unmatched": len(matched) - int(np.count_nonzero(matched)),
    }
