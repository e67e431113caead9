"""The statistics by NumPy over whole columns: the definitions that the analysis must equal."""

import numpy as np

RANKS = (0, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999, 100)


def latency(samples):
    """Count, mean, stddev and percentiles of all samples."""
    if len(samples) == 0:
        return {"count": 0, "percentiles": [None] * len(RANKS)}
    return {
        "count": len(samples),
        "negative": int(np.count_nonzero(samples < 0)),
        "mean": sum(samples.tolist()) / len(samples),
        "stddev": float(np.std(samples)),
        "percentiles": np.percentile(samples, RANKS).tolist(),
    }


def histogram(received, sent, ticks_per_second):
    """{(second, latency): count}, in order."""
    rows = np.stack((received // ticks_per_second, received - sent), axis=1)
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return [[*row, count] for row, count in zip(values.tolist(), counts.tolist(), strict=True)]


def settlement(transfers):
    """Join by id over the whole columns; the first send of an id is the one that counts."""
    order = np.argsort(transfers.ids, kind="stable")
    ranks = np.searchsorted(transfers.ids, transfers.settled_ids, sorter=order)
    places = order[np.minimum(ranks, len(order) - 1)] if len(order) else ranks[:0]
    matched = np.zeros(len(transfers.settled_ids), np.bool_)
    if len(order):
        matched = transfers.ids[places] == transfers.settled_ids
        places = places[matched]
    latencies = transfers.settled_times[matched] - transfers.sent[places]
    return {
        "all": latencies,
        "sampled": latencies[transfers.settled_sampled[matched]],
        "unsettled": len(np.unique(transfers.ids)) - len(np.unique(transfers.settled_ids[matched])),
        "unmatched": int(np.count_nonzero(~matched)),
    }
