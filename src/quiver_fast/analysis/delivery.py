"""Delivery truth: what became of each message between sender and receiver.

With message ids (record formats v1 and v2) every count is exact. Without ids
(v3) messages are told apart by their send time only: sends and receipts are
compared per tick of the coarser clock, which gives lower bounds, because a loss
and a duplicate within one tick cancel out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.distribution import Distribution, Int64Array
from quiver_fast.analysis.units import PER_SECOND

if TYPE_CHECKING:
    from quiver_fast.records.transfers import Transfers

__all__ = ["BY_IDS", "BY_TIMES", "receiver_alone", "reconcile"]

BoolArray = NDArray[np.bool_]

BY_IDS = "ids"
BY_TIMES = "per-millisecond lower bound"
_BY_FINER_TIMES = {
    "ms": BY_TIMES,
    "us": "per-microsecond lower bound",
    "ns": "per-nanosecond lower bound",
}


def reconcile(sender: Transfers, receiver: Transfers) -> dict[str, Any]:
    """Compare the records of the two ends of one run.

    Keys of the result, with s(k) sends and r(k) receipts of key k (the id, or the
    send time where there are no ids on both sides):

    - ``method``: "ids", or "per-millisecond lower bound" (or per-microsecond,
      per-nanosecond, by the clock).
    - ``sent``, ``received``: number of records of each end.
    - ``foreign``: receipts with s(k) = 0, or sent before the sender's first send
      (left over from an earlier run). They are left out of all that follows.
    - ``lost``: sum over k of max(0, s(k) - r(k)).
    - ``duplicate``: sum over k of max(0, r(k) - s(k)).
    - ``reordered``: first arrivals that were sent before one that had already arrived.
    - ``negative_latency``: receipts with receive time < send time (clock skew).
    """
    unit, sent, stamped = _in_one_unit(sender, receiver)
    ids = _ids_of_both(sender, receiver)
    by_ids = ids is not None
    sent_keys, received_keys = ids or (sent, stamped)

    own = _known(received_keys, sent_keys)
    if len(sent):
        own &= stamped >= sent[0]
    own_keys = received_keys[own]
    sends = Distribution.of(sent_keys)
    receipts = _counts_at(sends.values, Distribution.of(own_keys))
    positions = _positions(own_keys, sent_keys) if by_ids else own_keys
    return {
        "method": BY_IDS if by_ids else _BY_FINER_TIMES[unit],
        "sent": len(sent_keys),
        "received": len(received_keys),
        "foreign": int(len(own) - np.count_nonzero(own)),
        "lost": int(np.maximum(sends.counts - receipts, 0).sum()),
        "duplicate": int(np.maximum(receipts - sends.counts, 0).sum()),
        "reordered": _reordered(positions, own_keys if by_ids else None),
        "negative_latency": _negative(receiver, own),
    }


def receiver_alone(receiver: Transfers) -> dict[str, Any]:
    """Return what a receiver's records alone can tell; unknown counts are None.

    The keys are those of :func:`reconcile`. Ids are compared among themselves:
    ``duplicate`` is the number of repeated ids. ``reordered`` counts arrivals with a
    send time smaller than that of an earlier arrival, which is a lower bound.
    """
    received, stamped = receiver.received, receiver.sent
    duplicate = None
    if receiver.ids is not None:
        duplicate = len(receiver.ids) - len(Distribution.of(receiver.ids).values)
    return {
        "method": BY_IDS if receiver.ids is not None else _BY_FINER_TIMES[receiver.time_unit],
        "sent": None,
        "received": len(stamped),
        "foreign": None,
        "lost": None,
        "duplicate": duplicate,
        "reordered": _reordered(stamped, None),
        "negative_latency": 0 if received is None else int(np.count_nonzero(received < stamped)),
    }


def _ids_of_both(sender: Transfers, receiver: Transfers) -> tuple[Int64Array, Int64Array] | None:
    """Return the ids of both ends, or None unless both recorded ids."""
    if sender.ids is None or receiver.ids is None:
        return None
    return sender.ids, receiver.ids


def _in_one_unit(sender: Transfers, receiver: Transfers) -> tuple[str, Int64Array, Int64Array]:
    """Return the coarser unit, and both ends' send times in it."""
    unit = min(sender.time_unit, receiver.time_unit, key=PER_SECOND.__getitem__)
    return unit, _coarser(sender, unit), _coarser(receiver, unit)


def _coarser(transfers: Transfers, unit: str) -> Int64Array:
    ticks = PER_SECOND[transfers.time_unit] // PER_SECOND[unit]
    return transfers.sent if ticks == 1 else transfers.sent // ticks


def _known(keys: Int64Array, known: Int64Array) -> BoolArray:
    """Say of each of ``keys`` whether it is among ``known``."""
    values = Distribution.of(known).values
    if len(values) == 0:
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(values, keys), len(values) - 1)
    found: BoolArray = values[places] == keys
    return found


def _counts_at(values: Int64Array, distribution: Distribution) -> Int64Array:
    """Return how often each of ``values`` occurs; all values that occur are among them."""
    counts = np.zeros(len(values), np.int64)
    counts[np.searchsorted(values, distribution.values)] = distribution.counts
    return counts


def _positions(keys: Int64Array, sent: Int64Array) -> Int64Array:
    """Return the index in ``sent`` of the first send of each of ``keys``."""
    order = np.argsort(sent, kind="stable")
    return order[np.searchsorted(sent, keys, sorter=order)]


def _reordered(positions: Int64Array, keys: Int64Array | None) -> int:
    """Count arrivals whose position in sending order is below that of an earlier arrival.

    With ``keys`` only the first arrival of each key counts: a duplicate is not
    a reordering (RFC 4737, section 3.4).
    """
    if keys is not None:
        _, first_arrivals = np.unique(keys, return_index=True)
        positions = positions[np.sort(first_arrivals)]
    furthest = np.maximum.accumulate(positions)
    return int(np.count_nonzero(positions < furthest))


def _negative(receiver: Transfers, own: BoolArray) -> int:
    if receiver.received is None:
        return 0
    return int(np.count_nonzero((receiver.received < receiver.sent) & own))
